import Foundation

/// The body of a multipart form, as a stream that reads each part on demand. The counterpart of
/// `AFMultipartBodyStream`.
///
/// Apart from in-memory parts, the stream uses no memory: files are read directly into the caller's buffer. Reading may
/// block on a disk, so read the stream on a thread that may block. As with any stream, do not use it on several threads
/// concurrently.
///
/// If a part does not have its announced length, for example because a file has changed, the stream ends with an error:
/// `read` returns -1, and the status is `.error`. `streamError` can be read at any time and is nil if no error has
/// occurred. (Foundation's own streams crash on Linux in this case.)
package final class MultipartBodyStream: InputStream, ReplayableBodyStream, ThrottledBodyStream {
    /// The exact length of the stream, in bytes.
    package let contentLength: Int64
    /// The maximum number of bytes per read; `Int.max` for no limit.
    package let packetSize: Int
    /// The pause after each packet, in seconds. The transport pauses; reading never sleeps.
    package let delay: TimeInterval

    private let layout: MultipartLayout
    private var status = Stream.Status.notOpen
    private var failure: NSError?
    private var next = 0
    private var reader: PieceReader?

    init(layout: MultipartLayout, packetSize: Int, delay: TimeInterval) {
        self.layout = layout
        contentLength = layout.length
        self.packetSize = packetSize
        self.delay = delay
        super.init(data: Data())
    }

    // MARK: ReplayableBodyStream

    /// Returns a new stream with the same parts. Files are read from disk again.
    ///
    /// - Throws: The errors of ``ReplayableBodyStream/replay()``.
    package func replay() throws -> InputStream {
        for case .stream(let source) in layout.pieces { try source.checkAvailable() }
        return MultipartBodyStream(layout: layout, packetSize: packetSize, delay: delay)
    }

    // MARK: Stream

    package override var streamStatus: Stream.Status { status }
    package override var streamError: (any Error)? { failure }
    package override var hasBytesAvailable: Bool { status == .open }

    package override func open() {
        guard status == .notOpen else { return }
        status = layout.length == 0 ? .atEnd : .open
    }

    package override func close() {
        reader = nil
        status = .closed
    }

    /// Reads up to `length` bytes, but at most ``packetSize``. Returns 0 at the end, and -1 if an error occurs or the
    /// stream is not open.
    package override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength length: Int) -> Int {
        if status == .atEnd { return 0 }
        guard status == .open, length >= 0 else { return -1 }
        let limit = min(length, packetSize)
        var count = 0
        do {
            while count < limit {
                guard let reader = try currentReader() else {
                    status = .atEnd
                    break
                }
                let read = try reader.read(into: buffer + count, count: limit - count)
                count += read
                if read == 0 { self.reader = nil }
            }
        } catch {
            failure = error as NSError
            status = .error
            reader = nil
            return -1
        }
        return count
    }

    /// Returns false, because the stream has no internal buffer.
    package override func getBuffer(
        _ buffer: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>, length: UnsafeMutablePointer<Int>
    ) -> Bool { false }

    package override func property(forKey key: Stream.PropertyKey) -> AnyObject? { nil }
    package override func setProperty(_ property: AnyObject?, forKey key: Stream.PropertyKey) -> Bool { false }
    /// Does nothing, because the stream is polled and sends no events.
    package override func schedule(in aRunLoop: RunLoop, forMode mode: RunLoop.Mode) {}
    /// Does nothing, because the stream cannot be scheduled.
    package override func remove(from aRunLoop: RunLoop, forMode mode: RunLoop.Mode) {}

    private func currentReader() throws -> PieceReader? {
        if let reader { return reader }
        guard next < layout.pieces.count else { return nil }
        let piece = try PieceReader.reader(of: layout.pieces[next])
        next += 1
        reader = piece
        return piece
    }
}

/// A request body that can be sent again from the start, which is required after a redirect (RFC 9110, section 15.4.8),
/// an authentication or a lost connection.
///
/// Conform a subclass of `InputStream` that you set as `URLRequest.httpBodyStream`.
public protocol ReplayableBodyStream {
    /// Returns a new, unopened stream with the same bytes from the start, independent of this one.
    ///
    /// - Throws: An error if the bytes are no longer available: `NSURLErrorRequestBodyStreamExhausted` (-1021) in
    ///   ``URLRequestSerializationErrorDomain`` for a part from a stream that has already been read.
    func replay() throws -> InputStream
}

/// A request body that limits its own upload rate.
///
/// The transport sends ``packetSize`` bytes per ``delay`` seconds on average, evenly spread. This limit applies only to
/// this body, in addition to other limits. The stream itself never sleeps.
public protocol ThrottledBodyStream {
    /// The number of bytes to send per ``delay``; `Int.max` for no limit.
    var packetSize: Int { get }
    /// The time for ``packetSize`` bytes, in seconds; zero or less for no limit.
    var delay: TimeInterval { get }
}
