import ConvoyOperations
import ConvoyTestSupport
import Foundation

/// A user's stream that is slow, accepts fewer bytes than offered, and cannot start over.
class SlowStream: OutputStream {
    private struct State {
        var data = Data()
        var status = Stream.Status.notOpen
        var opened = 0
        var closed = 0
    }

    private let state = Guarded(State())
    private let slowness: Int

    /// - Parameter slowness: The time, in microseconds, for which each write first lets other threads run.
    init(slowness: Int) {
        self.slowness = slowness
        super.init(toMemory: ())
    }

    /// Required by Foundation.
    required init(toMemory: ()) {
        slowness = 0
        super.init(toMemory: ())
    }

    /// The bytes written to the stream.
    var data: Data { state.withLock { $0.data } }

    /// Whether the stream was opened and closed once, or not opened at all.
    var isBalanced: Bool { state.withLock { $0.opened == $0.closed && $0.opened <= 1 } }

    override var streamStatus: Stream.Status { state.withLock { $0.status } }
    override var streamError: (any Error)? { nil }
    override var hasSpaceAvailable: Bool { true }

    override func open() {
        state.withLock { state in
            state.opened += 1
            state.status = .open
        }
    }

    override func close() {
        state.withLock { state in
            state.closed += 1
            state.status = .closed
        }
    }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength len: Int) -> Int {
        letOthersRun(microseconds: slowness)
        return state.withLock { state in
            guard state.status == .open else { return -1 }
            let count = max(1, len * 2 / 3)
            state.data.append(buffer, count: count)
            return count
        }
    }

    func forget() { state.withLock { $0.data = Data() } }
}

/// A slow stream that can start over.
final class SlowRewindableStream: SlowStream, RewindableOutputStream {
    func rewind() throws { forget() }
}
