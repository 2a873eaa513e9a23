import ConvoySupport

/// A flag that a test sets for other threads.
final class Flag: Sendable {
    private let value = Locked(false)

    var isSet: Bool { value.withLock { $0 } }
    func set() { value.withLock { $0 = true } }
}
