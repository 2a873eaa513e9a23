import Foundation
import FoundationNetworking

/// The body of a response as an asynchronous sequence of its bytes, delivered as they arrive. The counterpart of
/// Foundation's `URLSession.AsyncBytes`, which Linux lacks.
///
/// ```swift
/// let (bytes, response) = try await manager.bytes(.get, "events")
/// for try await line in bytes.lines { print(line) }
/// ```
///
/// Content encodings are decoded. The bytes can be iterated over once: as bytes, as ``lines`` or as ``chunks``. A
/// second loop throws ``ResponseBytesError/isIterated``.
///
/// **The end.** The loop ends after the last byte, when the operation has finished. If the operation fails, the loop
/// first delivers the bytes received before the failure, then throws the operation's `error`. Cancelling the task, or
/// leaving the loop, cancels the operation immediately: when the iterator, or the sequence without an iterator, is
/// released, the transfer ends, and its connection is closed unless other transfers use it.
///
/// **Slow readers.** A slow reader slows the sender down. Over HTTP/1.1 at most 1 MiB of the body is held in this
/// process: 128 KiB waiting for the reader, as many held by the reader, a line up to its own limit, and 32 KiB in
/// libcurl. The rest is in the kernel's buffers (some MiB; `net.ipv4.tcp_rmem`) or with the sender. Over HTTP/2, the
/// server may fill the window that libcurl has opened for the stream before detecting that the body is not read: 32 MiB
/// with libcurl 7.88, 10 MiB with 8.14. libcurl buffers these bytes while other transfers use the connection; otherwise
/// they stay in the kernel. Time during which the transfer waits for the reader does not count towards the idle
/// timeout.
///
/// **Pauses and retries.** No byte is delivered twice or skipped. After a `pause()` and a `resume()`, and in a retry,
/// the rest is requested with `Range` and `If-Range`. If the server sends the body from the start again, the operation
/// starts over if no byte has been read; otherwise it fails with `URLError.resourceUnavailable`, and
/// ``ResponseBytesError/cannotStartOver`` as its underlying error.
public struct ResponseBytes: AsyncSequence, Sendable {
    /// A byte of the body.
    public typealias Element = UInt8

    let reading: ResponseReading

    /// The operation that receives the body. Use it to pause the transfer, or to read its progress and metrics.
    public var operation: URLConnectionOperation { reading.operation }

    /// The response, once its head has arrived and its status code was accepted. Starts the operation if it is not
    /// enqueued. Cancelling the task cancels the operation.
    ///
    /// - Throws: The operation's error. For an unacceptable status code, this is the error of its response serializer,
    ///   and `responseData` of ``operation`` is the body.
    public nonisolated(nonsending) var response: HTTPURLResponse {
        get async throws { try await reading.response() }
    }

    /// The body in blocks, as they arrive. This is the fastest form.
    public var chunks: ResponseChunks { ResponseChunks(reading: reading) }

    /// The lines of the body, each of at most 512 KiB; see ``lines(maximumLength:)``.
    public var lines: ResponseLines { lines(maximumLength: 512 << 10) }

    /// Returns the lines of the body, as UTF-8.
    ///
    /// A line ends with LF, CR or CR LF, which is not included; the last line may have no terminator. Empty lines are
    /// included. This differs from Foundation's `AsyncLineSequence`, which omits empty lines, and ends lines at
    /// separators that JSON allows within a string (U+2028). Bytes that are not valid UTF-8 become U+FFFD.
    ///
    /// - Parameter maximumLength: The maximum number of bytes in a line, without its terminator. A longer line ends the
    ///   transfer and throws ``ResponseBytesError/lineTooLong(limit:)``, before more of it is buffered.
    public func lines(maximumLength: Int) -> ResponseLines {
        ResponseLines(reading: reading, maximumLength: maximumLength)
    }

    /// An iterator over the bytes. Releasing it ends the transfer.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private var chunks: ResponseChunks.AsyncIterator
        @usableFromInline var buffer: [UInt8] = []
        @usableFromInline var position = 0

        init(_ reading: ResponseReading) { chunks = ResponseChunks.AsyncIterator(reading) }

        /// Returns the next byte; nil at the end.
        @inlinable public mutating func next() async throws -> UInt8? { try await next(isolation: nil) }

        /// Returns the next byte; nil at the end. Usually the byte has already arrived and is returned without waiting.
        ///
        /// - Throws: The operation's error, or ``ResponseBytesError/isIterated``.
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

    /// Creates an iterator. Only one iterator receives bytes.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reading) }
}

/// The reason why the bytes of a response cannot be read as a sequence.
public enum ResponseBytesError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The operation has already begun, so its body has a different destination.
    case hasBegun
    /// The body of the operation has another destination: its `outputStream`, the file of a download, or another
    /// reader.
    case goesElsewhere
    /// Another loop is reading or has read the bytes, which can be read only once.
    case isIterated
    /// A line is longer than `limit` bytes.
    case lineTooLong(limit: Int)
    /// After a pause or a retry, the server would send the body from the start, but some of it has already been read.
    /// This error is the `NSUnderlyingErrorKey` of the operation's error, which is `URLError.resourceUnavailable`.
    case cannotStartOver

    /// A description of the error.
    public var description: String {
        switch self {
        case .hasBegun: "The bytes of an operation can be requested only before it starts."
        case .goesElsewhere: "The body of the operation already has another destination."
        case .isIterated: "The bytes of a response can be iterated over only once."
        case .lineTooLong(let limit): "A line exceeds the limit of \(limit) bytes."
        case .cannotStartOver:
            "The body must be fetched again from the start, but some of its bytes have already been read."
        }
    }
}

/// The body of a response in blocks of bytes, as they arrive: ``ResponseBytes/chunks``.
///
/// The size of a block depends on the network and on the reader. A block contains everything received since the
/// previous block, and is never empty.
public struct ResponseChunks: AsyncSequence, Sendable {
    /// Consecutive bytes of the body.
    public typealias Element = Data

    let reading: ResponseReading

    /// An iterator over the blocks. Releasing it ends the transfer.
    public struct AsyncIterator: AsyncIteratorProtocol {
        /// An object that ends the transfer when the last iterator is released, even if the sequence, which cannot be
        /// read again, is still retained.
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

        /// Returns the next block; nil at the end.
        public mutating func next() async throws -> Data? { try await next(isolation: nil) }

        /// Returns the next block; nil at the end.
        ///
        /// - Throws: The operation's error, or ``ResponseBytesError/isIterated``.
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

        /// Ends the transfer. No more blocks are read.
        mutating func end() { reader = nil }
    }

    /// Creates an iterator. Only one iterator receives blocks.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(reading) }
}
