import ConvoyTransport
import Foundation
import FoundationNetworking

/// An output stream that can forget what was written to it and start over, which Foundation's cannot.
///
/// A response that must be fetched again from its first byte (the server does not resume, or the resource has
/// changed) needs it.
public protocol RewindableOutputStream: OutputStream {
    /// Drops all bytes that were written since the stream was opened.
    ///
    /// - Throws: what the system said.
    func rewind() throws
}

/// Writes the body to an `OutputStream`.
///
/// Foundation's own streams are written on the network thread. A subclass is a user's code: it is written on a
/// worker's thread, and the transfer waits meanwhile.
final class StreamSink: BodySink {
    /// The stream is used by one thread at a time: the network thread, or the one worker it waits for.
    private struct Box: @unchecked Sendable { let stream: OutputStream }

    private let box: Box
    private let url: URL?
    private let isForeign: Bool
    private let resume: @Sendable (@escaping @Sendable () -> Void) -> Void
    private(set) var offset: Int64 = 0
    /// How far the stream has ever been written: what lies behind the end must not stay there.
    private var furthest: Int64 = 0
    private var isOpen = false
    private var failure: URLError?
    /// Called on the network thread when a `.later` is over.
    var whenReady: ((URLError?) -> Void)?
    private(set) var isBusy = false

    /// - Parameter perform: runs a block on the network thread.
    init(
        stream: OutputStream, url: URL?,
        perform: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
    ) {
        box = Box(stream: stream)
        self.url = url
        isForeign = type(of: stream) != OutputStream.self && !(stream is FileOutputStream)
        resume = perform
    }

    var data: Data? { nil }

    func open() throws(URLError) {
        guard !isOpen else { return }
        isOpen = true
        if box.stream.streamStatus == .notOpen { box.stream.open() }
        if box.stream.streamStatus == .error { throw error(of: box.stream) }
        if box.stream.streamStatus == .closed {
            throw URLError(.cannotWriteToFile, url: url, "The output stream is closed.")
        }
    }

    func expect(_ count: Int64) {}

    func write(_ bytes: UnsafeRawBufferPointer) throws(URLError) -> SinkState {
        guard isForeign else {
            try Self.write(bytes, to: box.stream, url: url)
            note(bytes.count)
            return .ready
        }
        let copy = Data(bytes)
        isBusy = true
        struct Owner: @unchecked Sendable { let sink: StreamSink }
        let owner = Owner(sink: self)
        BlockingWorkers.shared.perform { [box, url, resume] in
            var failure: URLError?
            do throws(URLError) {
                try Self.write(copy, to: box.stream, url: url)
            } catch {
                failure = error
            }
            let result = failure
            resume { owner.sink.written(copy.count, result) }
        }
        return .later
    }

    private func written(_ count: Int, _ failure: URLError?) {
        isBusy = false
        if failure == nil { note(count) }
        whenReady?(failure)
    }

    private func note(_ count: Int) {
        offset += Int64(count)
        furthest = max(furthest, offset)
    }

    func rewind() throws(URLError) {
        guard offset > 0 else { return }
        if let stream = box.stream as? any RewindableOutputStream {
            do {
                try stream.rewind()
            } catch {
                throw URLError(
                    .cannotWriteToFile, url: url, "The output stream cannot start over: \(error)", underlying: error)
            }
            furthest = 0
        } else {
            // A stream that appends has no position; one that does is set back, and judged when it is closed.
            guard !isForeign, box.stream.property(forKey: .fileCurrentOffsetKey) != nil,
                box.stream.setProperty(NSNumber(value: 0), forKey: .fileCurrentOffsetKey)
            else {
                throw URLError(
                    .cannotWriteToFile, url: url,
                    "The response must be fetched from its start again, and the output stream cannot start over.")
            }
        }
        offset = 0
    }

    func close(then: @escaping (URLError?) -> Void) {
        guard isOpen else { return then(nil) }
        isOpen = false
        guard isForeign else {
            box.stream.close()
            return then(leftover ?? failureOfClosing())
        }
        // A stream that compresses or encrypts is whole only when it has been closed.
        struct Owner: @unchecked Sendable {
            let sink: StreamSink
            let then: (URLError?) -> Void
        }
        let owner = Owner(sink: self, then: then)
        BlockingWorkers.shared.perform { [box, resume] in
            box.stream.close()
            resume { owner.then(owner.sink.leftover ?? owner.sink.failureOfClosing()) }
        }
    }

    private func failureOfClosing() -> URLError? {
        if let file = box.stream as? FileOutputStream {
            guard let failure = file.failure else { return nil }
            return URLError(
                .cannotCloseFile, url: url, "The file could not be written: \(failure.localizedDescription)",
                underlying: failure)
        }
        return box.stream.streamStatus == .error ? error(of: box.stream) : nil
    }

    /// What an earlier and longer response has left behind the end, in a stream that could not be truncated.
    private var leftover: URLError? {
        guard offset < furthest else { return nil }
        return URLError(
            .cannotWriteToFile, url: url,
            "The output stream holds \(furthest - offset) bytes of an earlier, longer response behind the end.")
    }

    private static func write(_ data: Data, to stream: OutputStream, url: URL?) throws(URLError) {
        let result: Result<Void, URLError> = data.withUnsafeBytes { bytes in
            do throws(URLError) {
                return .success(try write(bytes, to: stream, url: url))
            } catch {
                return .failure(error)
            }
        }
        try result.get()
    }

    private static func write(_ bytes: UnsafeRawBufferPointer, to stream: OutputStream, url: URL?) throws(URLError) {
        guard var next = bytes.bindMemory(to: UInt8.self).baseAddress else { return }
        var left = bytes.count
        while left > 0 {
            let count = stream.write(next, maxLength: left)
            guard count > 0 else {
                if count == 0 {
                    throw URLError(.cannotWriteToFile, url: url, "The output stream has no space left.")
                }
                throw failure(of: stream, url: url)
            }
            // A stream that claims more than it was given is not believed.
            let taken = min(count, left)
            next += taken
            left -= taken
        }
    }

    private func error(of stream: OutputStream) -> URLError { Self.failure(of: stream, url: url) }

    private static func failure(of stream: OutputStream, url: URL?) -> URLError {
        // Foundation's getter crashes where there is no error.
        let cause: any Error
        if let file = stream as? FileOutputStream, let failure = file.failure {
            cause = failure
        } else if stream.streamStatus == .error, let error = stream.streamError {
            cause = error
        } else {
            cause = POSIXError(.EIO)
        }
        return URLError(
            .cannotWriteToFile, url: url, "The output stream failed: \((cause as NSError).localizedDescription)",
            underlying: cause)
    }
}
