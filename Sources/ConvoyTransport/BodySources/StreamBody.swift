import ConvoySupport
import Foundation
import Synchronization

/// A request body that is read from an `InputStream`.
///
/// The stream belongs to the user and its `read` may block, so a worker thread reads it slightly ahead of the network.
/// While the stream has nothing to send, only this transfer waits.
final class StreamBody: BodySource {
    private static let chunkSize = 128 << 10
    /// The maximum number of bytes to read ahead, and to keep after sending so that they can be sent again if a
    /// keep-alive connection turns out to be closed.
    private static let window = 512 << 10

    let length: Int64?

    private let url: URL?
    private let reader: any BodyReader
    /// The chunks to send. The first one is sent from `position` on.
    private var chunks: [Data] = []
    private var position = 0
    /// The chunks already sent; nil once they exceed the limit.
    private var replay: [Data]? = []
    /// The number of chunks in `chunks` that were sent before.
    private var replayed = 0
    private var supplied: Int64 = 0
    private var hasEnded = false
    private var failure: URLError?
    /// The timer that ends the body if the stream has supplied its announced length but does not report its end.
    private var patience: RunLoopTimer?
    private var isPatienceOver = false
    private let runLoop: NetworkRunLoop?
    private let whenReady: @Sendable () -> Void

    /// - Parameter whenReady: Called on the network thread when bytes are available after a `.notNow`.
    init(
        stream: InputStream, length: Int64?, url: URL?, thread: NetworkThread, whenReady: @escaping @Sendable () -> Void
    ) {
        self.length = length
        self.url = url
        runLoop = thread.runLoop
        self.whenReady = whenReady
        let wake: @Sendable () -> Void = { _ = thread.perform(whenReady) }
        reader =
            if let stream = stream as? any AsyncBodyStream {
                AsyncBodyReader(stream: stream, wake: wake)
            } else {
                Reader(stream: stream, chunkSize: Self.chunkSize, window: Self.window, wake: wake)
            }
    }

    func fill(_ buffer: UnsafeMutableRawBufferPointer) -> BodySupply {
        collect()
        if let failure { return .failed(failure) }
        guard let chunk = chunks.first else {
            guard hasEnded || supplied == length && isPatienceOver else { return supplied == length ? awaitEnd() : .notNow }
            if let length, supplied < length {
                return .failed(exhausted("The body stream ended after \(supplied) of \(length) bytes."))
            }
            return .bytes(0)
        }
        var count = min(buffer.count, chunk.count - position)
        if let length {
            let waiting = chunks.reduce(-Int64(position)) { $0 + Int64($1.count) }
            if supplied + waiting > length {
                return .failed(exhausted("The body stream contains more than the announced \(length) bytes."))
            }
            // Hold the last byte back until the stream reports its end, so that a stream that is too long is detected.
            // If the stream never reports its end, the body ends at the announced length.
            if supplied + Int64(count) == length, !hasEnded, !isPatienceOver {
                guard count > 1 else { return awaitEnd() }
                count -= 1
            }
        }
        let start = chunk.startIndex + position
        chunk.copyBytes(to: buffer, from: start..<(start + count))
        position += count
        supplied += Int64(count)
        if position == chunk.count {
            keep(chunks.removeFirst())
            position = 0
            // Replayed chunks have already been counted.
            if replayed > 0 { replayed -= 1 } else { reader.noteTaken(chunk.count) }
        }
        return .bytes(count)
    }

    func rewind() -> Bool {
        guard let replay else { return supplied == 0 }
        replayed += replay.count
        chunks = replay + chunks
        position = 0
        supplied = 0
        self.replay = []
        return true
    }

    func stop() {
        if let patience { runLoop?.cancel(patience) }
        reader.stop()
    }

    /// The time, in nanoseconds, within which a stream must report its end after its announced length.
    private static let patience: MonotonicTime = 500_000_000

    /// Waits for the end of a stream that has supplied its announced length.
    private func awaitEnd() -> BodySupply {
        guard let runLoop else { return .notNow }
        if patience == nil {
            let timer = RunLoopTimer { [weak self] in
                self?.isPatienceOver = true
                self?.whenReady()
            }
            patience = timer
            runLoop.schedule(timer, at: runLoop.turnTime + Self.patience)
        }
        return .notNow
    }

    private func collect() {
        let arrived = reader.take()
        chunks += arrived.chunks
        hasEnded = arrived.hasEnded
        if let error = arrived.failure, failure == nil {
            failure = URLError(
                .requestBodyStreamExhausted, url: url, "Reading the body stream failed: \(error.localizedDescription)",
                underlying: error)
        }
    }

    private func keep(_ chunk: Data) {
        guard supplied <= Int64(Self.window) else {
            replay = nil
            return
        }
        replay?.append(chunk)
    }

    private func exhausted(_ description: String) -> URLError {
        URLError(.requestBodyStreamExhausted, url: url, description)
    }
}

/// A reader of a body for a transfer, off the network thread.
protocol BodyReader: Sendable {
    /// Returns the chunks read since the last call. The transfer is woken once when more chunks have been read.
    func take() -> (chunks: [Data], hasEnded: Bool, failure: (any Error)?)

    /// Records that a chunk of the given length has been sent.
    func noteTaken(_ count: Int)

    /// Stops reading.
    func stop()
}

/// A reader that reads a stream on worker threads, because reads may block.
private final class Reader: BodyReader {
    /// A box for the stream, which is not Sendable. Only one worker uses it at any time, ordered by the lock.
    private struct Box: @unchecked Sendable { let stream: InputStream }

    private struct State {
        var chunks: [Data] = []
        var buffered = 0
        /// The call that is reading; nil between reads.
        var reading: BlockingCall?
        var hasOpened = false
        var hasEnded = false
        var isStopped = false
        var failure: (any Error)?
        var isAwaited = false
    }

    private let box: Box
    private let chunkSize: Int
    private let window: Int
    private let wake: @Sendable () -> Void
    private let state = Locked(State())

    /// - Parameter wake: Wakes the transfer.
    init(stream: InputStream, chunkSize: Int, window: Int, wake: @escaping @Sendable () -> Void) {
        box = Box(stream: stream)
        self.chunkSize = chunkSize
        self.window = window
        self.wake = wake
    }

    func take() -> (chunks: [Data], hasEnded: Bool, failure: (any Error)?) {
        let arrived = state.withLock { state in
            let chunks = state.chunks
            state.chunks = []
            state.isAwaited = !state.hasEnded && state.failure == nil
            return (chunks, state.hasEnded, state.failure)
        }
        readIfRoom()
        return arrived
    }

    func noteTaken(_ count: Int) {
        state.withLock { $0.buffered -= count }
        readIfRoom()
    }

    func stop() {
        let (reading, isOpen) = state.withLock { state in
            state.isStopped = true
            state.isAwaited = false
            state.chunks = []
            // The thread that reached the end of the stream has closed it.
            return (state.reading, state.hasOpened && !state.hasEnded && state.failure == nil)
        }
        if let reading {
            // A `read` may never return. If it does, its thread closes the stream.
            if reading.giveUp() { BlockingWorkers.shared.replaceThread(of: reading) }
            guard reading.isWithdrawn else { return }
        }
        // The user's `close` may block as well.
        if isOpen { BlockingWorkers.shared.perform { self.box.stream.close() } }
    }

    private func readIfRoom() {
        let call = state.withLock { state -> BlockingCall? in
            guard state.reading == nil, !state.hasEnded, !state.isStopped, state.failure == nil,
                state.buffered < window
            else { return nil }
            let call = BlockingCall()
            state.reading = call
            return call
        }
        guard let call else { return }
        BlockingWorkers.shared.perform(call) {
            self.read()
            _ = call.finish()
        }
    }

    /// Reads on a worker thread, until the buffer is full or the stream ends.
    private func read() {
        if state.withLock({ state in
            defer { state.hasOpened = true }
            return !state.hasOpened
        }) {
            box.stream.open()
        }
        var goesOn = true
        var chunk = Data()
        while goesOn {
            if chunk.isEmpty { chunk = Data(count: chunkSize) }
            let count = chunk.withUnsafeMutableBytes { buffer in
                buffer.bindMemory(to: UInt8.self).baseAddress.map {
                    box.stream.read($0, maxLength: buffer.count)
                } ?? -1
            }
            let failure: (any Error)? = count < 0 ? Self.failure(of: box.stream) : nil
            let isSmall = count <= chunkSize / 4
            let piece: Data
            if isSmall {
                piece = Data(chunk.prefix(max(0, count)))
            } else {
                chunk.count = count
                // Hand over the buffer, and let the next read allocate another. If both variables shared it, appending
                // to the piece would copy it.
                piece = chunk
                chunk = Data()
            }
            let (wakes, closes) = state.withLock { state -> (Bool, Bool) in
                if count > 0 {
                    // Merge small pieces, because handling each piece separately costs more memory and time than its
                    // bytes do.
                    if isSmall, let last = state.chunks.indices.last, state.chunks[last].count + count <= chunkSize {
                        state.chunks[last].append(piece)
                    } else {
                        state.chunks.append(piece)
                    }
                    state.buffered += count
                } else if let failure {
                    state.failure = failure
                } else {
                    state.hasEnded = true
                }
                goesOn = count > 0 && state.buffered < window && !state.isStopped
                if !goesOn { state.reading = nil }
                defer { state.isAwaited = false }
                return (state.isAwaited, state.isStopped || state.hasEnded || state.failure != nil)
            }
            if wakes { wake() }
            if closes { box.stream.close() }
        }
    }

    private static func failure(of stream: InputStream) -> any Error {
        // Foundation's `streamError` getter crashes if the error is nil.
        if stream.streamStatus == .error, let error = stream.streamError { return error }
        return POSIXError(.EIO)
    }
}

/// The source of a request's body. Belongs to the network thread.
protocol BodySource: AnyObject {
    /// The length of the body; nil if it is unknown, so that the body is sent in chunks.
    var length: Int64? { get }

    /// Fills the buffer with the next bytes.
    func fill(_ buffer: UnsafeMutableRawBufferPointer) -> BodySupply

    /// Restarts from the first byte. Returns false if that is impossible.
    func rewind() -> Bool

    /// Stops reading, because no more bytes are needed.
    func stop()
}

enum BodySupply {
    /// The number of bytes filled in; 0 at the end of the body.
    case bytes(Int)
    /// No bytes are available yet. The transfer is woken when they are.
    case notNow
    case failed(URLError)
}

/// A body in memory.
final class DataBody: BodySource {
    private let data: Data
    private var position: Int

    init(_ data: Data) {
        self.data = data
        position = data.startIndex
    }

    var length: Int64? { Int64(data.count) }

    func fill(_ buffer: UnsafeMutableRawBufferPointer) -> BodySupply {
        let count = min(buffer.count, data.endIndex - position)
        guard count > 0 else { return .bytes(0) }
        let offset = position - data.startIndex
        // The generic `copyBytes(to:from:)` costs 3,900 instructions.
        data.withUnsafeBytes { buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[offset..<(offset + count)])) }
        position += count
        return .bytes(count)
    }

    func rewind() -> Bool {
        position = data.startIndex
        return true
    }

    func stop() {}
}
