import ConvoySupport
import ConvoyTransport
import Foundation

/// An object that performs the work of operations that consist of more than one transfer.
package protocol AttemptRunner: AnyObject, Sendable {
    /// The library class of the operations whose work the runner performs. A user's subclass of that class may override
    /// `start()`.
    var workedClass: ObjectIdentifier { get }

    /// Whether the runner's operations use slots of their queue and host while they execute. True by default.
    var takesSlot: Bool { get }

    /// Performs the work of an attempt. Called on any thread; must not block.
    func begin(_ work: AttemptContext, of operation: URLConnectionOperation)

    /// Whether the next attempt resumes where the previous one ended, so that a retry is allowed for any request
    /// method. False by default.
    var isResumable: Bool { get }

    /// Releases everything kept from the attempts. Called once on any thread when the operation ends, before the end is
    /// reported.
    func release(_ operation: URLConnectionOperation)
}

extension AttemptRunner {
    package var takesSlot: Bool { true }
    package var isResumable: Bool { false }
}

/// One attempt of an operation whose work is done by an ``AttemptRunner`` instead of a single transfer. The runner uses
/// it to report the attempt's outcome. All members can be used from any thread.
package struct AttemptContext: Sendable {
    private let attempt: Attempt
    private let operation: URLConnectionOperation

    init(_ attempt: Attempt, of operation: URLConnectionOperation) {
        self.attempt = attempt
        self.operation = operation
    }

    /// Sets the closure that stops the attempt. `stop` is called at most once, on any thread; afterwards `didStop()`
    /// must be called unless the attempt has ended. Returns false if the attempt must already stop. In that case,
    /// `didStop()` must be called as well, and the next attempt may begin before that call returns.
    package func begin(stop: @escaping @Sendable () -> Void) -> Bool { operation.advance(attempt, to: .working(stop: stop)) }

    /// Whether the operation has been cancelled or has expired, so that no further attempt follows.
    package var isEnding: Bool { operation.lifecycle.value.isEnding }

    /// Reports that the work was stopped and can continue in another attempt.
    package func didStop() { operation.decide(.stopped, after: attempt) }

    /// Sets the response of the operation, and the redirects of its latest attempt.
    package func note(_ head: ResponseHead, redirects: [RedirectEvent]) {
        operation.note(head, redirects: redirects)
    }

    /// Ends the attempt with a transport error. The operation fails with that error unless it is retried.
    package func fail(with error: any Error, head: ResponseHead?) { operation.decide(.failed(error, head), after: attempt) }

    /// Ends the attempt with an error that is not retried.
    package func fail(finally error: any Error) { operation.decide(.settled(error), after: attempt) }

    /// Ends the attempt with an unacceptable response. The operation fails with the given error unless it is retried.
    package func fail(with error: any Error, response head: ResponseHead, data: Data?, object: Any?) {
        operation.note(head)
        operation.decide(.refused(error, head, data: data, object: object), after: attempt)
    }

    /// Begins a step that cannot be undone and whose outcome becomes the operation's. A cancellation or a timeout waits
    /// up to one second for the step, and has no effect if the step ends in that time.
    ///
    /// Returns false if the operation has already ended, in which case the caller must not begin the step.
    package func beginCommit() -> Bool {
        operation.handle(.workCanCommit(attempt.number))
        let life = operation.lifecycle.value
        return life.work == .committing && life.attemptNumber == attempt.number
    }

    /// Ends the attempt with success.
    ///
    /// - Parameter data: The body of the response, which becomes the operation's `responseData`.
    package func finish(with object: Any?, data: Data? = nil) {
        operation.decide(.succeeded(object, data: data), after: attempt)
    }

    /// Reports the number of bytes received since the last call, the total number received, and the number expected.
    package func report(bytes: Int64, total: Int64, expected: Int64?) {
        attempt.report(total: total, expected: expected)
        guard bytes > 0 else { return }
        operation.delegate(interestedIn: .progress)?
            .operation(operation, didReceive: bytes, total: total, expected: expected)
        guard operation.has(.progress) else { return }
        operation.progressReport.noteDownload(bytes, total: total, expected: expected, of: operation)
    }

    /// Reports the number of upload bytes confirmed by the server.
    ///
    /// - Parameter bytes: The change since the last call; negative if the server has lost bytes.
    package func reportSent(bytes: Int64, total: Int64, expected: Int64?) {
        attempt.reportSent(bytes, total: total, expected: expected, of: operation)
    }

    /// Reports that the body continues after the first `offset` bytes, which are already stored.
    package func didResume(at offset: Int64, expected: Int64?) {
        operation.delegate(interestedIn: .progress)?.operation(operation, didResumeAt: offset, expected: expected)
    }

    /// Reports that the host has answered, so that its gate can open.
    package func hostDidAnswer() {
        if operation.reportsAnswer { operation.hostDidAnswer(operation.schedulingHost) }
    }

    /// Waits until file descriptors may be available or the attempt must stop, then calls `then` once.
    ///
    /// - Parameter earlier: An earlier wait after which a file could not be opened.
    package func awaitDescriptors(after earlier: DescriptorWait?, then: @escaping @Sendable (DescriptorWait) -> Void) {
        transport.awaitDescriptors(after: earlier, while: { operation.isRunning(attempt) }, then: then)
    }

    /// Runs a block on the thread of the operation's connections.
    package func perform(_ block: @escaping @Sendable () -> Void) {
        transport.perform(block)
    }

    private var transport: any Transport { operation.core.withLock { $0.openTransport(for: attempt) } }
}
