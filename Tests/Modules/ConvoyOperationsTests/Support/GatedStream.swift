import ConvoyOperations
import ConvoyTestSupport
import Foundation

/// A user's stream whose first write waits until it is released. It can start over.
final class GatedStream: OutputStream, RewindableOutputStream {
    private struct State {
        var data = Data()
        var status = Stream.Status.notOpen
        var isWaiting = false
        var isOpen = false
    }

    private let state = Guarded(State())
    private let gate = DispatchSemaphore(value: 0)

    init() { super.init(toMemory: ()) }

    /// Required by Foundation.
    required init(toMemory: ()) { super.init(toMemory: ()) }

    var bytes: Data { state.withLock { $0.data } }
    var count: Int { bytes.count }
    /// Whether a write is waiting.
    var isWaiting: Bool { state.withLock { $0.isWaiting } }

    func letThrough() {
        state.withLock { $0.isOpen = true }
        gate.signal()
    }

    func rewind() throws { state.withLock { $0.data = Data() } }

    override var streamStatus: Stream.Status { state.withLock { $0.status } }
    override var streamError: (any Error)? { nil }
    override var hasSpaceAvailable: Bool { true }
    override func open() { state.withLock { $0.status = .open } }
    override func close() { state.withLock { $0.status = .closed } }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength len: Int) -> Int {
        let mustWait = state.withLock { state in
            guard !state.isOpen else { return false }
            state.isWaiting = true
            return true
        }
        if mustWait {
            gate.wait()
            gate.signal()
        }
        return state.withLock { state in
            state.data.append(buffer, count: len)
            return len
        }
    }
}
