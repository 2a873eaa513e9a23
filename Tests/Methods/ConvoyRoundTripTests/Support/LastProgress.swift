import ConvoySupport

/// The last values received by a progress handler.
final class LastProgress: Sendable {
    private let state = Locked<(total: Int64, expected: Int64?)>((0, nil))

    func set(_ total: Int64, _ expected: Int64?) { state.withLock { $0 = (total, expected) } }
    var total: Int64 { state.withLock { $0.total } }
    var expected: Int64? { state.withLock { $0.expected } }
}
