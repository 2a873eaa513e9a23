import Foundation
import FoundationNetworking

/// The body of a response as an asynchronous sequence of its bytes, as they arrive. The counterpart of Foundation's
/// `URLSession.AsyncBytes`, which Linux lacks.
///
/// ```swift
/// let (bytes, response) = try await manager.bytes(.get, "events")
/// for try await line in bytes.lines { print(line) }
/// ```
///
/// Content encodings are decoded. The bytes can be iterated over once: as bytes, as ``lines`` or as ``chunks``. Another
/// loop throws ``ResponseBytesError/isIterated``.
///
/// **The end.** The loop ends after the last byte, when the operation has finished. It throws the operation's `error`,
/// after the bytes that have come before. Cancelling the task cancels the operation, and so does leaving the loop, at
/// once: when its iterator, or the sequence without an iterator, is released, the transfer ends, and its connection is
/// closed unless other transfers use it.
///
/// **A slow reader** slows the sender down. Over HTTP/1.1 at most 1 MiB of the body is held in this process: 128 KiB
/// wait for the reader, which holds as many, a line has a limit of its own, and libcurl holds 32 KiB. The rest is in
/// the kernel's buffers (some MiB; `net.ipv4.tcp_rmem`) or with the sender. Over HTTP/2 the server may send as much as
/// the window that libcurl has opened for the stream before it knows that the body is not read: 32 MiB with libcurl
/// 7.88, 10 MiB with 8.14. libcurl keeps what arrives while other transfers use the connection; otherwise it stays in
/// the kernel. Time in which the transfer waits for the reader does not count for a timeout without bytes.
///
/// **Pauses and retries.** What was read is never repeated, and nothing is left out. After a `pause()` and a
/// `resume()`, and in a retry, the rest is requested with `Range` and `If-Range`. If the server sends the body from its
/// start again, the operation starts over if not a byte was read; otherwise it fails with
/// `URLError.resourceUnavailable`, and ``ResponseBytesError/cannotStartOver`` as its underlying error.
public struct ResponseBytes: AsyncSequence, Sendable {
    /// A byte of the body.
    public typealias Element = UInt8

    let reading: ResponseReading

    /// The operation of this body, for pausing it, and for its progress and metrics.
    public var operation: URLConnectionOperation { reading.operation }

    /// The response, once its head has arrived and its status was accepted. Starts the operation if it is not enqueued.
    /// Cancelling the task cancels the operation.
    ///
    /// - Throws: the operation's error: for a status that is not acceptable that of its response serializer, and
    ///   `responseData` of ``operation`` is the body.
    public nonisolated(nonsending) var response: HTTPURLResponse {
        get async throws { try await reading.response() }
    }

    /// The body in blocks, as they arrive. The fastest form.
    public var chunks: ResponseChunks { ResponseChunks(reading: reading) }

    /// The lines of the body, each of at most 512 KiB; see ``lines(maximumLength:)``.
    public var lines: ResponseLines { lines(maximumLength: 512 << 10) }

    /// The lines of the body, as UTF-8.
    ///
    /// A line ends with LF, CR or CR LF, and does not contain that; the last one may have no end. Empty lines are lines.
    /// Both are unlike Foundation's `AsyncLineSequence`, which leaves out empty lines, and ends lines at separators
    /// that JSON allows within a string (U+2028). Bytes that are no UTF-8 become U+FFFD.
    ///
    /// - Parameter maximumLength: how many bytes a line may have, without its end. A longer one ends the transfer and
    ///   throws ``ResponseBytesError/lineTooLong(limit:)``, before more of it is held than that.
    public func lines(maximumLength: Int) -> ResponseLines {
        ResponseLines(reading: reading, maximumLength: maximumLength)
    }

    /// Iterates over the bytes. Releasing it ends the transfer.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private var chunks: ResponseChunks.AsyncIterator
        @usableFromInline var buffer: [UInt8] = []
        @usableFromInline var position = 0

        init(_ reading: ResponseReading) { chunks = ResponseChunks.AsyncIterator(reading) }

        /// The next byte; nil at the end.
        @inlinable public mutating func next() async throws -> UInt8? { try await next(isolation: nil) }

        /// The next byte; nil at the end. Usually it has arrived already, and there is no wait.
        ///
        /// - Throws: the operation's error, or ``ResponseBytesError/isIterated``.
        @inlinable public mutating func next(isolation actor: isolated (any Actor)?) async throws -> UInt8? {
            if position < buffer.count {
                let byte = buffer[position]
                position &+= 1
                return byte
            }
            return try await nextOfNextChunk(isolation: actor)
        }

        @usableFromInline mutating func nextOfNextChunk(isolation actor: isolated (any Actor)?) async throws -> UInt8? {
            buffer = []
            position = 0
            guard let chunk = try await chunks.next(isolation: actor) else { return nil }
            buffer = [UInt8](chunk)
            position = 1
            return buffer.first
        }
    }

    /// An iterator; only one gets bytes.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reading) }
}

/// Why the bytes of a response cannot be read as a sequence.
public enum ResponseBytesError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The operation has begun already, so its body goes elsewhere.
    case hasBegun
    /// The body of the operation goes elsewhere: into its `outputStream`, into the file of a download, or to another
    /// reader.
    case goesElsewhere
    /// Another loop reads the bytes, or has read them: they can be read once.
    case isIterated
    /// A line is longer than so many bytes.
    case lineTooLong(limit: Int)
    /// After a pause or a retry, the server would send the body from its start, of which some was read already. It is
    /// the `NSUnderlyingErrorKey` of the operation's error, which is `URLError.resourceUnavailable`.
    case cannotStartOver

    /// The reason in a sentence.
    public var description: String {
        switch self {
        case .hasBegun: "The bytes of an operation can be asked for only before it begins."
        case .goesElsewhere: "The body of the operation goes elsewhere."
        case .isIterated: "The bytes of a response can be iterated over once."
        case .lineTooLong(let limit): "A line is longer than \(limit) bytes."
        case .cannotStartOver:
            "The body must be fetched from its start again, and some of its bytes were read already."
        }
    }
}

/// The body of a response as it arrives, in blocks of bytes: ``ResponseBytes/chunks``.
///
/// The size of a block depends on the network and on the reader: it contains everything since the last one, and is
/// never empty.
public struct ResponseChunks: AsyncSequence, Sendable {
    /// Bytes of the body, in their order.
    public typealias Element = Data

    let reading: ResponseReading

    /// Iterates over the blocks. Releasing it ends the transfer.
    public struct AsyncIterator: AsyncIteratorProtocol {
        /// Ends the transfer when the last iterator is released, even if the sequence is not: it could not be read
        /// again.
        private final class Reader {
            let reading: ResponseReading
            init(_ reading: ResponseReading) { self.reading = reading }
            deinit { reading.end() }
        }

        private var reader: Reader?
        private var failure: ResponseBytesError?

        init(_ reading: ResponseReading) {
            if reading.claim() { reader = Reader(reading) } else { failure = .isIterated }
        }

        /// The next block; nil at the end.
        public mutating func next() async throws -> Data? { try await next(isolation: nil) }

        /// The next block; nil at the end.
        ///
        /// - Throws: the operation's error, or ``ResponseBytesError/isIterated``.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> Data? {
            if let failure = failure.take() { throw failure }
            guard let reader else { return nil }
            do {
                if let chunk = try await reader.reading.next() { return chunk }
            } catch {
                self.reader = nil
                throw error
            }
            self.reader = nil
            return nil
        }

        /// Ends the transfer: nothing more is read.
        mutating func end() { reader = nil }
    }

    /// An iterator; only one gets blocks.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reading) }
}
