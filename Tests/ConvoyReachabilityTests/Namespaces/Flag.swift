import ConvoySupport

/// What a test turns on for others.
final class Flag: Sendable {
    private let value = Locked(false)

    var isSet: Bool { value.withLock { $0 } }
    func set() { value.withLock { $0 = true } }
}
