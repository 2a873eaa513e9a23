import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking

@testable import ConvoyOperations

/// A sink that records its calls, except `begin` and `write`.
final class ProvisionalSink: BodySink {
    private struct State {
        var calls: [String] = []
        var count: Int64 = 0
        var commit: @Sendable () throws -> Void = {}
    }

    private let state = Guarded(State())
    let discarded = Signal()

    init(onCommit: @escaping @Sendable () throws -> Void = {}) { self.onCommit = onCommit }

    var calls: [String] { state.withLock { $0.calls } }
    var count: Int64 { state.withLock { $0.count } }
    var onCommit: @Sendable () throws -> Void {
        get { state.withLock { $0.commit } }
        set { state.withLock { $0.commit = newValue } }
    }

    private func note(_ call: String) { state.withLock { $0.calls.append(call) } }

    var isOpen: Bool { false }
    var isProvisional: Bool { true }
    func open() { note("open") }
    func begin(_ response: ResponseHead, discarding count: Int64) { state.withLock { $0.count = 0 } }
    func write(_ bytes: UnsafeRawBufferPointer) { state.withLock { $0.count += Int64(bytes.count) } }
    func synchronize() { note("synchronize") }

    func commit() throws {
        note("commit")
        try onCommit()
    }

    func discard() {
        note("discard")
        discarded.fire()
    }
}
