import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation

/// A request body produced by an asynchronous sequence. The transport requests the elements one by one. Reading the
/// body as a stream instead blocks the thread.
class SequenceBodyStream: InputStream, AsyncBodyStream {
    private let pump: SequencePump
    private var status = Stream.Status.notOpen
    private var failure: (any Error)?
    /// Bytes of the last element that did not fit into the reader's buffer.
    private var rest = Data()

    init(_ pump: SequencePump) {
        self.pump = pump
        super.init(data: Data())
    }

    deinit { pump.stop() }

    // MARK: AsyncBodyStream

    func supply(_ then: @escaping @Sendable (Result<Data?, any Error>) -> Void) { pump.next(then) }

    func stopSupplying() { pump.stop() }

    // MARK: Stream

    override var streamStatus: Stream.Status { status }
    override var streamError: (any Error)? { failure }
    override var hasBytesAvailable: Bool { status == .open }

    override func open() {
        if status == .notOpen { status = .open }
    }

    override func close() {
        status = .closed
        pump.stop()
    }

    /// Reads up to `length` bytes. Returns 0 at the end, and -1 on an error.
    override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength length: Int) -> Int {
        if status == .atEnd { return 0 }
        guard status == .open, length > 0 else { return status == .open ? 0 : -1 }
        while rest.isEmpty {
            switch nextPiece() {
            case .success(let piece?): rest = piece
            case .success(nil):
                status = .atEnd
                return 0
            case .failure(let error):
                failure = error
                status = .error
                return -1
            }
        }
        let count = min(length, rest.count)
        rest.copyBytes(to: buffer, count: count)
        rest = Data(rest.dropFirst(count))
        return count
    }

    /// Waits for the next element.
    private func nextPiece() -> Result<Data?, any Error> {
        let answer = Locked(Result<Data?, any Error>.success(nil))
        let isThere = DispatchSemaphore(value: 0)
        pump.next { piece in
            answer.withLock { $0 = piece }
            isThere.signal()
        }
        isThere.wait()
        return answer.withLock { $0 }
    }

    /// Returns false, because the stream has no buffer.
    override func getBuffer(
        _ buffer: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>, length: UnsafeMutablePointer<Int>
    ) -> Bool { false }

    override func property(forKey key: Stream.PropertyKey) -> AnyObject? { nil }
    override func setProperty(_ property: AnyObject?, forKey key: Stream.PropertyKey) -> Bool { false }
    override func schedule(in aRunLoop: RunLoop, forMode mode: RunLoop.Mode) {}
    override func remove(from aRunLoop: RunLoop, forMode mode: RunLoop.Mode) {}
}

/// A factory of sequence streams for other modules.
package enum SequenceBody {
    /// Creates a body from a sequence of byte collections. The body can be sent again if the sequence can be created
    /// again.
    package static func stream(
        canRepeat: Bool, making make: @escaping @Sendable () -> SequencePump
    ) -> InputStream {
        canRepeat ? ReplayableSequenceBodyStream(make) : SequenceBodyStream(make())
    }
}

/// A stream that can be replayed, because the sequence can be created again.
final class ReplayableSequenceBodyStream: SequenceBodyStream, ReplayableBodyStream {
    private let make: @Sendable () -> SequencePump

    init(_ make: @escaping @Sendable () -> SequencePump) {
        self.make = make
        super.init(make())
    }

    func replay() throws -> InputStream { ReplayableSequenceBodyStream(make) }
}

/// A pump that iterates over a sequence in its own task, requesting the elements one by one. Stopping it cancels the
/// task.
package final class SequencePump: Sendable {
    package typealias Receiver = @Sendable (Result<Data?, any Error>) -> Void

    private struct State {
        /// The receiver of the requested element.
        var receiver: Receiver?
        /// The continuation of the task that waits for a request, resumed with true to continue the iteration, or false
        /// to end it.
        var idle: CheckedContinuation<Bool, Never>?
        var task: Task<Void, Never>?
        var hasStarted = false
        var isStopped = false
        var hasEnded = false
    }

    private let iterate: @Sendable (SequencePump) async -> Void
    private let state = Locked(State())

    package init<Pieces: AsyncSequence & SendableMetatype>(_ make: @escaping @Sendable () throws -> Pieces)
    where
        Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8,
        Pieces.AsyncIterator: SendableMetatype
    {
        iterate = { pump in
            guard await pump.isAsked() else { return }
            do {
                for try await piece in try make() {
                    pump.answer(.success(Data(piece)))
                    guard await pump.isAsked() else { return }
                }
                pump.answer(.success(nil))
            } catch {
                pump.answer(.failure(error))
            }
        }
    }

    /// Requests the next element. After the end or a stop, the result is an error.
    package func next(_ receiver: @escaping Receiver) {
        let (isOver, starts, idle) = state.withLock { state -> (Bool, Bool, CheckedContinuation<Bool, Never>?) in
            if state.isStopped || state.hasEnded { return (true, false, nil) }
            state.receiver = receiver
            defer { state.hasStarted = true }
            return (false, !state.hasStarted, state.idle.take())
        }
        if isOver { return receiver(.failure(URLError(.requestBodyStreamExhausted))) }
        idle?.resume(returning: true)
        guard starts else { return }
        let task = Task { [self] in await iterate(self) }
        let isStopped = state.withLock { state in
            if !state.hasEnded { state.task = task }
            return state.isStopped
        }
        if isStopped { task.cancel() }
    }

    /// Ends the iteration. A sequence that has not been read yet can still be used.
    package func stop() {
        let held = state.withLock { state -> State? in
            guard state.hasStarted, !state.isStopped else { return nil }
            defer {
                state.isStopped = true
                state.receiver = nil
                state.idle = nil
                state.task = nil
            }
            return state
        }
        guard let held else { return }
        held.task?.cancel()
        held.idle?.resume(returning: false)
    }

    // MARK: The task

    /// Waits for a request. Returns false after a stop.
    private func isAsked() async -> Bool {
        await withCheckedContinuation { continuation in
            let answer = state.withLock { state -> Bool? in
                if state.isStopped { return false }
                if state.receiver != nil { return true }
                state.idle = continuation
                return nil
            }
            if let answer { continuation.resume(returning: answer) }
        }
    }

    private func answer(_ answer: Result<Data?, any Error>) {
        let receiver = state.withLock { state in
            if case .success(_?) = answer {
            } else {
                state.hasEnded = true
                state.task = nil
            }
            return state.receiver.take()
        }
        receiver?(answer)
    }
}
