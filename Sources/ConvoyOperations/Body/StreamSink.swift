import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// An output stream to a file.
package protocol DirectOutputStream: OutputStream {
    /// Whether the next write goes to a regular file on a local disk or in memory, so that it does not wait for another
    /// program or another machine. Asked on the network thread, before each write.
    var isOnLocalDisk: Bool { get }
}

/// Writes the body to an `OutputStream`.
///
/// A stream may be a user's code, a pipe that nobody reads, or a file on an unreachable server. So it is opened,
/// written, rewound and closed on a worker thread, while the transfer waits. Only a file on a local disk is written on
/// the network thread, which saves two thread hops per block.
///
/// Once open, the sink belongs to the network thread. `then` is called synchronously if there was nothing to wait for,
/// otherwise later on the network thread. Until then no other call may be made.
final class StreamSink {
    /// The stream is used by one thread at a time: the network thread, or the one worker it waits for.
    private struct Box: @unchecked Sendable { let stream: OutputStream }

    private let box: Box
    private let url: URL?
    /// Set while no try is under way.
    var perform: @Sendable (@escaping @Sendable () -> Void) -> Void
    /// Whether the stream must be told that the response was accepted before it is closed.
    let commits: Bool
    /// How many bytes of the body have been written so far.
    private(set) var offset: Int64 = 0
    /// Whether a call has not finished yet.
    private(set) var isBusy = false
    /// Whether to close the stream as soon as it is no longer busy, because the operation was cancelled and did not
    /// wait for it.
    private var closesWhenIdle = false
    /// The furthest position ever written: bytes beyond the end of the final body must not remain.
    private var furthest: Int64 = 0
    private(set) var isOpen = false
    /// The stream, if it can say that it does not block.
    private var direct: (any DirectOutputStream)?
    /// The stream, if its reader may have enough for now.
    private let paced: (any PacedOutputStream)?
    /// Whether the stream is written on the network thread.
    private var isDirect: Bool { direct?.isOnLocalDisk ?? false }

    /// - Parameter perform: runs a block on the network thread.
    init(
        stream: OutputStream, url: URL?,
        perform: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
    ) {
        box = Box(stream: stream)
        commits = stream is any CommittingOutputStream
        paced = stream as? any PacedOutputStream
        self.url = url
        self.perform = perform
        if let open = stream as? any DirectOutputStream, stream.streamStatus == .open { (direct, isOpen) = (open, true) }
    }

    /// Opens the stream without truncating it. Called before each try, on any thread.
    func open(then: @escaping @Sendable (URLError?) -> Void) {
        guard !isOpen else { return then(nil) }
        isOpen = true
        let owner = Owner(sink: self)
        BlockingWorkers.shared.perform { [box, url] in
            let stream = box.stream
            if stream.streamStatus == .notOpen {
                (stream as? FileOutputStream)?.keepsContentsAtOpening = true
                stream.open()
            }
            owner.sink.direct = stream as? any DirectOutputStream
            switch stream.streamStatus {
            case .error: then(Self.failure(of: stream, url: url))
            case .closed: then(URLError(.cannotWriteToFile, url: url, "The output stream is closed."))
            default: then(nil)
            }
        }
    }

    /// Writes bytes.
    func write(_ bytes: UnsafeRawBufferPointer, then: @escaping (URLError?) -> Void) {
        let count = Int64(bytes.count)
        if isDirect {
            let failure = Self.write(bytes, to: box.stream, url: url)
            if failure == nil { note(count) }
            return then(failure)
        }
        let copy = Data(bytes)
        work({ stream, url in copy.withUnsafeBytes { Self.write($0, to: stream, url: url) } }) { [self] failure in
            if failure == nil { note(count) }
            then(failure)
        }
    }

    /// A response was accepted, and its body comes next.
    func accept(_ response: ResponseHead) { paced?.accept(response) }

    /// Whether the transfer is to wait for the stream's reader; `then` is called when it need not any more, on any thread.
    func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool { paced?.waitsForRoom(then: then) ?? false }

    /// Whether the stream has a reader for whom the transfer may have to wait.
    var isPaced: Bool { paced != nil }

    /// Discards all bytes, to start over.
    func rewind(then: @escaping (URLError?) -> Void) {
        guard offset > 0 || (box.stream as? FileOutputStream)?.hasOldContents == true else { return then(nil) }
        work({ stream, url in Self.rewind(stream, url: url) }) { [self] failure in
            if failure == nil {
                offset = 0
                if box.stream is any RewindableOutputStream { furthest = 0 }
            }
            then(failure)
        }
    }

    /// Closes the stream. `then` is told whether everything was written. Called when the operation ends, in whatever
    /// way, on any thread.
    func close(then: @escaping (URLError?) -> Void) {
        guard isOpen else { return then(nil) }
        guard !isBusy else {
            closesWhenIdle = true
            return then(nil)
        }
        isOpen = false
        if isDirect {
            box.stream.close()
            return then(leftover ?? Self.failureOfClosing(box.stream, url: url))
        }
        // A stream that compresses or encrypts writes its last bytes when it is closed.
        work({ stream, url in
            stream.close()
            return Self.failureOfClosing(stream, url: url)
        }) { [self] failure in then(leftover ?? failure) }
    }

    // MARK: Work

    private struct Owner: @unchecked Sendable { let sink: StreamSink }

    /// Does something with the stream on a worker thread, then continues on the network thread.
    private func work(
        _ job: @escaping @Sendable (OutputStream, URL?) -> URLError?, then: @escaping (URLError?) -> Void
    ) {
        struct Step: @unchecked Sendable {
            let sink: StreamSink
            let then: (URLError?) -> Void
        }
        isBusy = true
        let step = Step(sink: self, then: then)
        BlockingWorkers.shared.perform { [box, url, perform] in
            let failure = job(box.stream, url)
            perform {
                step.sink.isBusy = false
                if step.sink.closesWhenIdle { return step.sink.close { _ in } }
                step.then(failure)
            }
        }
    }

    private func note(_ count: Int64) {
        offset += count
        furthest = max(furthest, offset)
    }

    private static func rewind(_ stream: OutputStream, url: URL?) -> URLError? {
        if let stream = stream as? any RewindableOutputStream {
            do {
                try stream.rewind()
                return nil
            } catch let error as URLError {
                return error
            } catch {
                return URLError(
                    .cannotWriteToFile, url: url, "The output stream cannot start over: \(error)", underlying: error)
            }
        }
        // An appending stream has no position. One that has a position is moved back to 0, and `leftover` checks it at
        // the end.
        guard type(of: stream) == OutputStream.self, stream.property(forKey: .fileCurrentOffsetKey) != nil,
            stream.setProperty(NSNumber(value: 0), forKey: .fileCurrentOffsetKey)
        else {
            return URLError(
                .cannotWriteToFile, url: url,
                "The response must be fetched from its start again, and the output stream cannot start over.")
        }
        return nil
    }

    /// The error if an earlier, longer response left bytes beyond the end, in a stream that could not be truncated.
    private var leftover: URLError? {
        guard offset < furthest else { return nil }
        return URLError(
            .cannotWriteToFile, url: url,
            "The output stream holds \(furthest - offset) bytes of an earlier, longer response behind the end.")
    }

    private static func failureOfClosing(_ stream: OutputStream, url: URL?) -> URLError? {
        if let file = stream as? FileOutputStream {
            guard let failure = file.failure else { return nil }
            return URLError(.cannotCloseFile, writing: file.fileURL, url: url, underlying: failure)
        }
        return stream.streamStatus == .error ? failure(of: stream, url: url) : nil
    }

    private static func write(_ bytes: UnsafeRawBufferPointer, to stream: OutputStream, url: URL?) -> URLError? {
        guard var next = bytes.bindMemory(to: UInt8.self).baseAddress else { return nil }
        var left = bytes.count
        while left > 0 {
            let count = stream.write(next, maxLength: left)
            guard count > 0 else {
                if count == 0 {
                    return URLError(.cannotWriteToFile, url: url, "The output stream has no space left.")
                }
                return failure(of: stream, url: url)
            }
            // A faulty stream may claim to have written more than it was given.
            let taken = min(count, left)
            next += taken
            left -= taken
        }
        return nil
    }

    private static func failure(of stream: OutputStream, url: URL?) -> URLError {
        // Foundation's `streamError` getter crashes if there is no error.
        let cause: any Error
        let file = stream as? any FileStream
        if let failure = file?.failure {
            cause = failure
        } else if stream.streamStatus == .error, let error = stream.streamError {
            cause = error
        } else {
            cause = POSIXError(.EIO)
        }
        if let file { return URLError(writing: file.fileURL, url: url, underlying: cause) }
        return URLError(
            .cannotWriteToFile, url: url, "The output stream failed: \((cause as NSError).localizedDescription)",
            underlying: cause)
    }
}
