import ConvoyTransport
import Foundation
import FoundationNetworking

/// An output stream that can discard the bytes written to it and start over, which Foundation's streams cannot.
///
/// Such a stream is needed if a response must be fetched again from its first byte, because the server does not support
/// resuming or the resource has changed.
public protocol RewindableOutputStream: OutputStream {
    /// Discards all bytes written since the stream was opened. Called on an internal thread.
    ///
    /// - Throws: The system's error.
    func rewind() throws
}

/// A sink that writes to an `OutputStream` whose class is not part of the library, so that all its methods are user
/// code.
final class OutputStreamSink: BodySink, @unchecked Sendable {
    private let stream: OutputStream
    private var position: Int64 = 0
    /// The furthest position written so far, which shows whether bytes of an earlier body remain after the final body.
    private var furthest: Int64 = 0

    init(_ stream: OutputStream) { self.stream = stream }

    var isOpen: Bool { false }

    func open() throws(URLError) {
        if stream.streamStatus == .notOpen { stream.open() }
        switch stream.streamStatus {
        case .error: throw failure
        case .closed: throw URLError(.cannotWriteToFile, url: nil, "The output stream is closed.")
        default: break
        }
    }

    func begin(_ response: ResponseHead, discarding count: Int64) throws(URLError) {
        guard count > 0 else { return }
        if let stream = stream as? any RewindableOutputStream {
            do {
                try stream.rewind()
            } catch let error as URLError {
                throw error
            } catch {
                throw URLError(
                    .cannotWriteToFile, url: nil, "The output stream could not be rewound: \(error)", underlying: error)
            }
            furthest = 0
        } else {
            // Move the stream back to position 0 if it has a position. An appending stream has none. `close()` checks
            // that no old bytes remain.
            guard type(of: stream) == OutputStream.self, stream.property(forKey: .fileCurrentOffsetKey) != nil,
                stream.setProperty(NSNumber(value: 0), forKey: .fileCurrentOffsetKey)
            else {
                throw URLError(
                    .cannotWriteToFile, url: nil,
                    "The response must be fetched again from the start, but the output stream cannot be rewound.")
            }
        }
        position = 0
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(URLError) {
        guard var next = bytes.bindMemory(to: UInt8.self).baseAddress else { return }
        var left = bytes.count
        while left > 0 {
            let count = stream.write(next, maxLength: left)
            guard count != 0 else {
                throw URLError(.cannotWriteToFile, url: nil, "The output stream is out of space.")
            }
            guard count > 0 else { throw failure }
            // A faulty stream may report more bytes than were passed to it.
            let taken = min(count, left)
            next += taken
            left -= taken
        }
        position += Int64(bytes.count)
        furthest = max(furthest, position)
    }

    func close() throws(URLError) {
        stream.close()
        if stream.streamStatus == .error { throw failure }
        guard position < furthest else { return }
        // The stream could not be truncated, so it ends with bytes of an earlier response.
        throw URLError(
            .cannotWriteToFile, url: nil,
            "The output stream ends with \(furthest - position) bytes of an earlier, longer response.")
    }

    func discard() { stream.close() }

    private var failure: URLError {
        // Foundation's `streamError` getter crashes if the stream has no error.
        let cause = stream.streamStatus == .error ? stream.streamError ?? POSIXError(.EIO) : POSIXError(.EIO)
        return URLError(
            .cannotWriteToFile, url: nil, "The output stream failed: \((cause as NSError).localizedDescription)",
            underlying: cause)
    }
}
