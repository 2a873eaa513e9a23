import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A queue that passes commands to a ``BodySink``, one after another.
///
/// A sink may be user code, a pipe that is not read, or a file on an unreachable server. Therefore it is opened,
/// written and closed on a worker thread, while the transfer waits. Only a command that does not block is executed
/// immediately, which saves two thread hops per block.
///
/// A command's `then` is called synchronously if the command did not have to wait, otherwise later on the network
/// thread. When a command fails, the following commands fail with the same error. ``discard()`` ends the queue even
/// while a command is running; afterwards no `then` is called.
///
/// The queue is used first by the thread that begins an attempt, then by the network thread, then by the thread that
/// discards it. The operation guarantees this order.
final class SinkQueue {
    /// A closure that executes a command, given the number of bytes in the sink, and returns the new number.
    private typealias Job = @Sendable (any BodySink, Int64) throws(URLError) -> Int64

    private struct Command {
        let job: Job
        var closes = false
        /// The closure called with the error of the command; nil if the command succeeded.
        let then: (URLError?) -> Void
    }

    let sink: any BodySink
    private let url: URL?
    /// The transport that provides the network thread. It is set only while no attempt is in progress.
    var transport: (any Transport)?
    /// The last wait for the descriptor of the sink's file, if the file has not been opened since.
    var wait: DescriptorWait?
    /// The number of body bytes written so far.
    private(set) var offset: Int64 = 0
    /// The commands that wait until the running command has completed.
    private var commands = Backlog<Command>()
    /// The running call of a worker thread, if any.
    private var call: BlockingCall?
    /// The error of the first command that failed.
    private var failure: URLError?
    private var isDiscarded = false
    /// Whether `call` is the commit.
    private var hasCommitted = false
    private(set) var isOpen: Bool
    /// Whether any command has not completed yet.
    var isBusy: Bool { call != nil || !commands.isEmpty }

    /// - Parameters:
    ///   - url: The URL from which the bytes are received, for errors.
    ///   - transport: The transport that provides the network thread.
    init(_ sink: any BodySink, url: URL?, on transport: (any Transport)?) {
        self.sink = sink
        self.url = url
        self.transport = transport
        isOpen = sink.isOpen
    }

    // MARK: Opening and committing

    /// A closure that runs the code that follows a call, either immediately on the worker thread that made the call, or
    /// on another thread.
    typealias Executor = @Sendable (@escaping @Sendable () -> Void) -> Void

    /// Records the call that is about to open the sink; nil if the sink will not be opened.
    func willOpen(as call: BlockingCall?) { self.call = call }

    /// Opens the sink. Called before an attempt if the sink is not open, and before every other command.
    ///
    /// - Parameters:
    ///   - call: The call with which the opening can be abandoned, as passed to ``willOpen(as:)``.
    ///   - executor: The closure that runs code on the thread that uses the queue next.
    ///   - then: The closure called with the result, by the executor.
    func open(
        as call: BlockingCall, on executor: @escaping Executor = { $0() }, then: @escaping @Sendable (URLError?) -> Void
    ) {
        let owner = Owner(queue: self)
        BlockingWorkers.shared.perform(call) { [sink, url, wait] in
            let failure = Self.failure(url) { () throws(URLError) in
                guard sink.opensFile, !sink.isProvisional else { return try sink.open() }
                try DescriptorLimit.openFiles(1, after: wait, else: URLError(lackingDescriptorFor: url)) {
                    _ throws(URLError) in try sink.open()
                }
            }
            guard call.finish() else { return sink.discard() }
            executor { owner.queue.didOpen(failure, then) }
        }
    }

    private func didOpen(_ failure: URLError?, _ then: (URLError?) -> Void) {
        call = nil
        isOpen = failure?.lacksDescriptor != true
        if isOpen { wait = nil }
        if isDiscarded { return discardUnused() }
        then(failure)
    }

    /// Records the call that is about to commit the sink. No other command may be running, and only ``discard()`` may
    /// follow.
    func willCommit(as call: BlockingCall) {
        self.call = call
        hasCommitted = true
    }

    /// Commits the sink. May be called on any thread.
    ///
    /// - Parameters:
    ///   - call: The call with which the commit can be abandoned.
    ///   - then: The closure called with the result, on a worker thread.
    func commit(as call: BlockingCall, then: @escaping @Sendable ((any Error)?) -> Void) {
        BlockingWorkers.shared.perform(call) { [sink] in
            var failure: (any Error)?
            do { try sink.commit() } catch { failure = error }
            if call.finish() { then(failure) } else { sink.discard() }
        }
    }

    // MARK: Commands

    /// Begins the body of a response, and discards the bytes of an earlier body.
    func begin(_ response: ResponseHead, then: @escaping (URLError?) -> Void) {
        let begin: Job = { (sink, offset) throws(URLError) in
            try sink.begin(response, discarding: offset)
            return 0
        }
        if offset == 0, !isBusy { carryOut(begin, then) } else { append(Command(job: begin, then: then)) }
    }

    /// Appends bytes to the sink.
    func write(_ bytes: UnsafeRawBufferPointer, then: @escaping (URLError?) -> Void) {
        var mustWait = false
        if !isBusy, failure == nil, sink.isImmediate {
            let failed = Self.failure(url) { () throws(URLError) in try sink.write(bytes) }
            mustWait = mayTryAgain(after: failed)
            if !mustWait {
                failure = failed
                if failed == nil { offset += Int64(bytes.count) }
                return then(failed)
            }
        }
        let copy = Data(bytes)
        let command = Command(
            job: { (sink, offset) throws(URLError) in
                try copy.withUnsafeBytes { bytes in Result { () throws(URLError) in try sink.write(bytes) } }.get()
                return offset + Int64(copy.count)
            }, then: then)
        if mustWait { begin(command, waits: true) } else { append(command) }
    }

    /// Returns whether a command must be repeated, because its file could not be opened for lack of a descriptor, and a
    /// descriptor may become available.
    func mayTryAgain(after failure: URLError?) -> Bool {
        sink.opensFile && failure?.lacksDescriptor == true && transport != nil && wait?.isLast != true
    }

    /// Calls `then` after all earlier commands, with the first failure, if any.
    func flush(then: @escaping (URLError?) -> Void) {
        if isBusy { commands.append(Command(job: { $1 }, then: then)) } else { then(failure) }
    }

    /// Synchronizes the sink after all earlier commands, then calls `then` with the first failure, if any.
    func synchronize(then: @escaping (URLError?) -> Void) {
        append(
            Command(
                job: { (sink, offset) throws(URLError) in
                    try sink.synchronize()
                    return offset
                }, then: then))
    }

    /// Closes the sink after all earlier commands, then calls `then` with the first failure, if any.
    func close(then: @escaping (URLError?) -> Void) {
        guard isOpen, failure == nil else { return then(failure) }
        // Closing may fail, because a stream that compresses or encrypts writes its last bytes when it is closed.
        let close: Job = { (sink, offset) throws(URLError) in
            try sink.close()
            return offset
        }
        append(Command(job: close, closes: true, then: then))
    }

    /// Ends the queue. Discards the sink as soon as it is unused, that is, immediately or when the running command
    /// returns.
    func discard() {
        guard !isDiscarded else { return }
        isDiscarded = true
        commands = Backlog()
        if let call {
            if call.giveUp() { BlockingWorkers.shared.replaceThread(of: call) }
            // In other cases, the thread that uses the sink discards it.
            guard call.isWithdrawn || hasCommitted && !call.isAbandoned else { return }
        }
        discardUnused()
    }

    private func discardUnused() {
        guard isOpen else { return }
        isOpen = false
        // Closing a user's stream or a file may take a long time.
        if sink.closesImmediately { sink.discard() } else { BlockingWorkers.shared.perform { [sink] in sink.discard() } }
    }

    private struct Owner: @unchecked Sendable { let queue: SinkQueue }

    /// Executes a command after all earlier commands, immediately if it does not block, otherwise on a worker thread.
    /// The command's `then` runs on the network thread.
    private func append(_ command: Command) {
        guard !isDiscarded else { return }
        if !isBusy, command.closes ? sink.closesImmediately : sink.isImmediate {
            if command.closes { isOpen = false }
            return carryOut(command.job, command.then)
        }
        commands.append(command)
        if call == nil { beginNext() }
    }

    /// Executes a command that does not block.
    private func carryOut(_ job: Job, _ then: (URLError?) -> Void) {
        if failure == nil {
            failure = Self.failure(url) { () throws(URLError) in offset = try job(sink, offset) }
        }
        then(failure)
    }

    private func beginNext() {
        while call == nil, let command = commands.popFirst() {
            guard let failure else { return begin(command) }
            let isLast = commands.isEmpty
            command.then(failure)
            // After the last command, the queue may belong to another thread.
            if isLast { return }
        }
    }

    /// - Parameter waits: Whether the command must first wait for a descriptor.
    private func begin(_ command: Command, waits: Bool = false) {
        struct Step: @unchecked Sendable {
            let queue: SinkQueue
            let command: Command
        }
        let call = BlockingCall()
        self.call = call
        let step = Step(queue: self, command: command)
        let run: @Sendable (DescriptorWait?) -> Void = { [sink, url, offset, transport] wait in
            BlockingWorkers.shared.perform(call) {
                var after = offset
                let failure = Self.failure(url) { () throws(URLError) in after = try step.command.job(sink, offset) }
                if call.finish() {
                    transport?.perform { [after] in step.queue.didEnd(failure, after, step.command, wait) }
                } else if !step.command.closes {
                    sink.discard()
                }
            }
        }
        guard waits, let transport else { return run(wait) }
        transport.awaitDescriptors(after: wait, while: { !call.isWithdrawn }, then: run)
    }

    private func didEnd(_ failure: URLError?, _ offset: Int64, _ command: Command, _ wait: DescriptorWait?) {
        call = nil
        self.wait = wait
        // The queue was discarded while the command was returning, so the command was not abandoned.
        if isDiscarded {
            if command.closes { isOpen = false }
            return discardUnused()
        }
        if self.failure == nil, mayTryAgain(after: failure) { return begin(command, waits: true) }
        self.wait = nil
        self.offset = offset
        if command.closes { isOpen = false }
        if self.failure == nil { self.failure = failure }
        let isLast = commands.isEmpty
        command.then(failure)
        // If the queue was empty, a command added by `then` is already running.
        if !isLast { beginNext() }
    }

    /// Returns the error of a command, with the URL of the body unless it has its own; nil if the command succeeds.
    private static func failure(_ url: URL?, _ command: () throws(URLError) -> Void) -> URLError? {
        do throws(URLError) {
            try command()
            return nil
        } catch {
            return error.about(url)
        }
    }
}
