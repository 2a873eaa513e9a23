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

/// Writes the body to an `OutputStream`: a queue of commands, each of which begins when the one before has ended.
///
/// A stream may be a user's code, a pipe that nobody reads, or a file on an unreachable server. So it is opened,
/// written, rewound and closed on a worker thread, while the transfer waits. Only a file on a local disk is written on
/// the network thread, which saves two thread hops per block.
///
/// `then` of a command is called synchronously if there was nothing to wait for, otherwise later on the network thread.
/// A command that fails takes the ones behind it along: they end with its error. ``discard()`` ends the sink, whatever the
/// stream is doing, and no `then` is called any more.
///
/// The sink belongs to the thread that begins a try, then to the network thread, then to the one that discards it; the
/// operation orders them.
final class StreamSink {
    /// The stream is used by one thread at a time: the one that the sink belongs to, or the one worker it waits for.
    private struct Box: @unchecked Sendable { let stream: OutputStream }

    private struct Command {
        let job: @Sendable (OutputStream, URL?) -> URLError?
        var closes = false
        /// Called with the error of the command; nil if it has succeeded.
        let then: (URLError?) -> Void
    }

    private let box: Box
    private let url: URL?
    /// Set while no try is under way.
    var perform: @Sendable (@escaping @Sendable () -> Void) -> Void
    /// Whether the stream must be told that the response was accepted before it is closed.
    let commits: Bool
    /// How many bytes of the body have been written so far.
    private(set) var offset: Int64 = 0
    /// The commands that wait for the one that a worker carries out.
    private var commands = Backlog<Command>()
    /// What a worker carries out.
    private var call: BlockingCall?
    /// What the first command has failed with.
    private var failure: URLError?
    private var isDiscarded = false
    /// Whether the stream was told to commit, by `call`.
    private var hasCommitted = false
    /// The furthest position ever written: bytes beyond the end of the final body must not remain.
    private var furthest: Int64 = 0
    private(set) var isOpen = false
    /// The stream, if it can say that it does not block.
    private var direct: (any DirectOutputStream)?
    /// The stream, if its reader may have enough for now.
    private let paced: (any PacedOutputStream)?
    /// Whether the stream is written on the network thread.
    private var isDirect: Bool { direct?.isOnLocalDisk ?? false }
    /// Whether a command has not ended yet.
    var isBusy: Bool { call != nil || !commands.isEmpty }

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

    /// Runs what is left to do after a call: at once, on the worker thread that has made it, or on another thread.
    typealias Executor = @Sendable (@escaping @Sendable () -> Void) -> Void

    /// Notes that the stream is about to be opened by a call, or is not after all, with nil.
    func willOpen(as call: BlockingCall?) { self.call = call }

    /// Opens the stream without truncating it. Called before each try, and before every other command.
    ///
    /// - Parameters:
    ///   - call: whoever has it can give up the opening; announced by ``willOpen(as:)``.
    ///   - executor: where the sink is used next.
    ///   - then: called there.
    func open(
        as call: BlockingCall, on executor: @escaping Executor = { $0() }, then: @escaping @Sendable (URLError?) -> Void
    ) {
        let owner = Owner(sink: self)
        BlockingWorkers.shared.perform(call) { [box, url] in
            let stream = box.stream
            if stream.streamStatus == .notOpen {
                (stream as? FileOutputStream)?.keepsContentsAtOpening = true
                stream.open()
            }
            let failure: URLError? =
                switch stream.streamStatus {
                case .error: Self.failure(of: stream, url: url)
                case .closed: URLError(.cannotWriteToFile, url: url, "The output stream is closed.")
                default: nil
                }
            guard call.finish() else { return stream.close() }
            executor { owner.sink.didOpen(failure, then) }
        }
    }

    private func didOpen(_ failure: URLError?, _ then: (URLError?) -> Void) {
        call = nil
        isOpen = true
        if isDiscarded { return closeUnused() }
        direct = box.stream as? any DirectOutputStream
        then(failure)
    }

    /// Notes that the stream is about to commit: nothing else is under way, and only ``discard()`` follows.
    func willCommit(as call: BlockingCall) {
        self.call = call
        hasCommitted = true
    }

    /// Tells the stream that the response was accepted. Any thread.
    ///
    /// - Parameters:
    ///   - call: whoever has it can give up the commit.
    ///   - then: called on a worker thread.
    func commit(as call: BlockingCall, then: @escaping @Sendable ((any Error)?) -> Void) {
        BlockingWorkers.shared.perform(call) { [box] in
            var failure: (any Error)?
            do {
                try (box.stream as? any CommittingOutputStream)?.commit()
            } catch {
                failure = error
            }
            if call.finish() { then(failure) } else { box.stream.close() }
        }
    }

    /// Writes bytes.
    func write(_ bytes: UnsafeRawBufferPointer, then: @escaping (URLError?) -> Void) {
        let count = Int64(bytes.count)
        if isDirect, !isBusy, failure == nil {
            let failure = Self.write(bytes, to: box.stream, url: url)
            if failure == nil { note(count) } else { self.failure = failure }
            return then(failure)
        }
        let copy = Data(bytes)
        append(
            Command(job: { stream, url in copy.withUnsafeBytes { Self.write($0, to: stream, url: url) } }) {
                [self] failure in
                if failure == nil { note(count) }
                then(failure)
            })
    }

    /// A response was accepted, and its body comes next.
    func accept(_ response: ResponseHead) { paced?.accept(response) }

    /// Whether the transfer is to wait for the stream's reader; `then` is called when it need not any more, on any thread.
    func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool { paced?.waitsForRoom(then: then) ?? false }

    /// Whether the stream has a reader for whom the transfer may have to wait.
    var isPaced: Bool { paced != nil }

    /// Discards all bytes, to start over.
    func rewind(then: @escaping (URLError?) -> Void) {
        guard isBusy || offset > 0 || (box.stream as? FileOutputStream)?.hasOldContents == true else {
            return then(failure)
        }
        append(
            Command(job: { stream, url in Self.rewind(stream, url: url) }) { [self] failure in
                if failure == nil {
                    offset = 0
                    if box.stream is any RewindableOutputStream { furthest = 0 }
                }
                then(failure)
            })
    }

    /// Waits for everything that was asked for. `then` is told whether all of it succeeded.
    func flush(then: @escaping (URLError?) -> Void) {
        if isBusy { commands.append(Command(job: { _, _ in nil }, then: then)) } else { then(failure) }
    }

    /// Closes the stream behind everything that was asked for. `then` is told whether all of it succeeded.
    func close(then: @escaping (URLError?) -> Void) {
        guard isOpen, failure == nil else { return then(failure) }
        if isDirect, !isBusy {
            isOpen = false
            box.stream.close()
            return then(leftover ?? Self.failureOfClosing(box.stream, url: url))
        }
        // A stream that compresses or encrypts writes its last bytes when it is closed.
        let close = Command(
            job: { stream, url in
                stream.close()
                return Self.failureOfClosing(stream, url: url)
            }, closes: true
        ) { [self] failure in then(failure ?? leftover) }
        append(close)
    }

    /// Ends the sink, and closes the stream once it is not in use: at once, or when what was begun returns.
    func discard() {
        guard !isDiscarded else { return }
        isDiscarded = true
        commands = Backlog()
        if let call {
            if call.giveUp() { BlockingWorkers.shared.replaceThread(of: call) }
            // Otherwise the one who uses the stream closes it.
            guard call.isWithdrawn || hasCommitted && !call.isAbandoned else { return }
        }
        closeUnused()
    }

    private func closeUnused() {
        guard isOpen else { return }
        isOpen = false
        // The stream of a user may take its time, and say nothing.
        if isDirect { box.stream.close() } else { BlockingWorkers.shared.perform { [box] in box.stream.close() } }
    }

    // MARK: Commands

    private struct Owner: @unchecked Sendable { let sink: StreamSink }

    /// Does something with the stream on a worker thread, behind everything that was asked for before, and continues on
    /// the network thread.
    private func append(_ command: Command) {
        guard !isDiscarded else { return }
        commands.append(command)
        if call == nil { beginNext() }
    }

    private func beginNext() {
        while call == nil, let command = commands.popFirst() {
            guard let failure else { return begin(command) }
            let isLast = commands.isEmpty
            command.then(failure)
            // With the end of the last one, the sink may belong to another thread.
            if isLast { return }
        }
    }

    private func begin(_ command: Command) {
        struct Step: @unchecked Sendable {
            let sink: StreamSink
            let then: (URLError?) -> Void
        }
        let call = BlockingCall()
        self.call = call
        let step = Step(sink: self, then: command.then)
        BlockingWorkers.shared.perform(call) { [box, url, perform, job = command.job, closes = command.closes] in
            let failure = job(box.stream, url)
            if call.finish() {
                perform { step.sink.didEnd(failure, hasClosed: closes, step.then) }
            } else if !closes {
                box.stream.close()
            }
        }
    }

    private func didEnd(_ failure: URLError?, hasClosed: Bool, _ then: (URLError?) -> Void) {
        call = nil
        if hasClosed { isOpen = false }
        // It has returned just before it would have been given up.
        if isDiscarded { return closeUnused() }
        if self.failure == nil { self.failure = failure }
        let isLast = commands.isEmpty
        then(failure)
        // What `then` has asked for has begun already.
        if !isLast { beginNext() }
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
