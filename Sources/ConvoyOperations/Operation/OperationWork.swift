import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Does the work of operations that consist of more than one transfer.
package protocol OperationWorker: AnyObject, Sendable {
    /// The library's class whose work it does. A user's subclass of it may override `start()`.
    var workedClass: ObjectIdentifier { get }

    /// Whether its operations use slots of their queue and host while they execute. True by default.
    var takesSlot: Bool { get }

    /// Does the work of an attempt. Called on any thread; must not block.
    func begin(_ work: OperationWork, of operation: URLConnectionOperation)

    /// Whether another attempt goes on where this one has ended, so that it may follow whatever the request's method is.
    /// False by default.
    var isResumable: Bool { get }

    /// Releases what the work of all attempts has kept. Called once, when the operation ends, before that is reported,
    /// on any thread.
    func end(_ operation: URLConnectionOperation)
}

extension OperationWorker {
    package var takesSlot: Bool { true }
    package var isResumable: Bool { false }
}

/// One attempt of an operation that works through other operations instead of one transfer. It reports the attempt's
/// outcome; all members can be used from any thread.
package struct OperationWork: Sendable {
    private let attempt: Attempt
    private let operation: URLConnectionOperation

    init(_ attempt: Attempt, of operation: URLConnectionOperation) {
        (self.attempt, self.operation) = (attempt, operation)
    }

    /// Sets how to stop the attempt: `stop` is called at most once, on any thread, and must be answered by `didStop()`
    /// unless the attempt has ended by then. False if the attempt must stop already: that must be answered as well, and
    /// the next attempt may begin before the answer returns.
    package func begin(stop: @escaping @Sendable () -> Void) -> Bool { operation.advance(attempt, to: .working(stop: stop)) }

    /// Whether the operation has been cancelled or has expired, so that no other attempt will follow.
    package var isEnding: Bool { operation.lifecycle.value.isEnding }

    /// Reports that the work was stopped, and can continue in another attempt.
    package func didStop() { operation.end(attempt, with: .stopped) }

    /// Sets the response of the operation, and the redirects of its latest attempt.
    package func note(_ head: ResponseHead, redirects: [RedirectEvent]) {
        operation.core.withLock { core in
            core.head = head
            core.redirects = redirects
        }
    }

    /// Ends the attempt with an error of the transport, unless the operation is retried.
    package func fail(with error: any Error, head: ResponseHead?) { operation.end(attempt, with: .failed(error, head)) }

    /// Ends the attempt with a final error.
    package func fail(finally error: any Error) { operation.end(attempt, with: .settled(error)) }

    /// Ends the attempt with an unacceptable response, unless the operation is retried.
    package func fail(with error: any Error, response head: ResponseHead, data: Data?, object: Any?) {
        operation.note(head)
        operation.end(attempt, with: .refused(error, head, data: data, object: object))
    }

    /// Begins a step that cannot be undone. Its outcome is the operation's: a cancellation or a timeout waits for it
    /// for a second, and has no effect if it ends in that time.
    ///
    /// False if the operation has ended instead, so that nothing remains to be reported.
    package func beginCommit() -> Bool {
        operation.handle(.workCanCommit(attempt.number))
        let life = operation.lifecycle.value
        return life.work == .committing && life.attemptNumber == attempt.number
    }

    /// Ends the attempt with success.
    ///
    /// - Parameter data: the body of the response, if it is to be the operation's.
    package func succeed(with object: Any?, data: Data? = nil) {
        operation.end(attempt, with: .succeeded(object, data: data))
    }

    /// Reports how many bytes there are, and how many are expected.
    package func report(bytes: Int64, total: Int64, expected: Int64?) {
        attempt.report(total: total, expected: expected)
        guard bytes > 0 else { return }
        operation.delegate(interestedIn: .progress)?
            .operation(operation, didReceive: bytes, total: total, expected: expected)
        guard operation.flags.contains(.progress) else { return }
        operation.progressReport.noteDownload(bytes, total: total, expected: expected, of: operation)
    }

    /// Reports how many bytes of the upload the server has confirmed, and how many there are.
    ///
    /// - Parameter bytes: how many more than the last time; below 0 where the server has lost some.
    package func reportSent(bytes: Int64, total: Int64, expected: Int64?) {
        attempt.report(sent: total, expected: expected)
        guard bytes != 0 else { return }
        operation.delegate(interestedIn: .progress)?
            .operation(operation, didSend: bytes, total: total, expected: expected)
        guard operation.flags.contains(.progress) else { return }
        operation.progressReport.noteUpload(bytes, total: total, expected: expected, of: operation)
    }

    /// Reports that the body continues after existing bytes.
    package func didResume(at offset: Int64, expected: Int64?) {
        operation.delegate(interestedIn: .progress)?.operation(operation, didResumeAt: offset, expected: expected)
    }

    /// Reports that the host has answered: its gate need not stay closed.
    package func hostDidAnswer() {
        if operation.reportsAnswer { operation.hostDidAnswer(operation.hostKey) }
    }

    /// Waits until there are descriptors for files, or the attempt must stop; then calls `then`, once. At once if there
    /// are descriptors.
    ///
    /// - Parameter earlier: a claim with which a file could not be opened.
    package func awaitDescriptors(
        _ count: Int, after earlier: DescriptorClaim? = nil, then: @escaping @Sendable (DescriptorClaim) -> Void
    ) {
        if earlier == nil, let claim = NetworkThread.claimDescriptors(count) { return then(claim) }
        operation.core.withLock { $0.openTransport(for: attempt) }
            .awaitDescriptors(count, after: earlier, while: { operation.isRunning(attempt) }, then: then)
    }

    /// Runs a block on the thread of the operation's connections.
    package func perform(_ block: @escaping @Sendable () -> Void) {
        operation.core.withLock { $0.openTransport(for: attempt) }.perform(block)
    }
}

extension URLConnectionOperation {
    /// Does the work of the operation; nil, the default, for one transfer. Set it before the operation starts.
    package final var worker: (any OperationWorker)? {
        get { core.withLock { $0.worker } }
        set {
            set(newValue) { swap(&$0.worker, &$1) }
            guard let newValue else { return }
            if newValue.workedClass == ObjectIdentifier(type(of: self)) { declare([.ofLibrary, .startedDirectly]) }
            if !newValue.takesSlot { declare([.slotless, .looksUpHost]) }
        }
    }

    /// Makes the operation a part of another one: it gets the other's settings, and the other's handlers decide about
    /// redirects and challenges. It is not retried unless nothing was sent, uses no cache, shares no transfer, and
    /// posts no notifications. A part for another origin gets none of the parent's secrets, as after a redirect.
    ///
    /// - Parameters:
    ///   - decoding: whether a body is decoded if it is encoded without having been requested so.
    ///   - identity: whether the body is requested without an encoding.
    package final func adoptSettings(of parent: URLConnectionOperation, decoding: Bool, identity: Bool = false) {
        let (common, redirect, challenge, context) = parent.core.withLock { core in
            core.common.makeShared()
            return (core.common, core.rareHandlers?.redirect, core.rareHandlers?.challenge, core.traceContext)
        }
        let settings = common.ofPart(decoding: decoding, identity: identity)
        let old = core.withLock { core in
            // It has the trace context of the whole.
            core.traceContext = context
            defer { core.common = settings }
            return core.common
        }
        withExtendedLifetime(old) {}
        addMetrics(to: parent)
        addEventLog(to: parent)
        if let base = parent.request.url, let own = request.url, base != own, !Target.isSame(base, own) {
            change { values in
                (values.credential, values.authenticator, values.connectionConfiguration.clientIdentity) = (nil, nil, nil)
            }
            var request = request
            connectionConfiguration.removeSecrets(of: &request, madeFor: base)
            let cleared = request
            replaceRequest(with: cleared)
        }
        if parent.delegate != nil { setDelegate(PartDelegate(parent)) }
        if let redirect {
            redirectHandler = { [weak parent] _, request, response in
                guard let parent else { return request }
                return redirect(parent, request, response)
            }
        }
        if let challenge {
            authenticationChallengeHandler = { [weak parent] _, asked, answer in
                guard let parent else { return answer(.cancel) }
                challenge(parent, asked, answer)
            }
        }
    }

    /// Allows the server to be silent: once the head of its response has arrived, the transfer may be without a byte
    /// for this many seconds, or for ever with nil, and arbitrarily slow. The head has the usual idle limit.
    package final func allowSilence(for limit: TimeInterval?) {
        let request = core.withLock { $0.request.urlRequest }
        change { values in
            values.connectionConfiguration.stallLimit = nil
            let usual = values.idleTimeout ?? request.timeoutInterval
            values.connectionConfiguration.timeoutIntervalForHead =
                values.connectionConfiguration.timeoutIntervalForHead ?? usual
            values.idleTimeout = limit ?? 0
        }
    }

    /// Called on the network thread with each interim response (1xx) but 100. It must not block.
    package final var interimResponseHandler: (@Sendable (ResponseHead) -> Void)? {
        get { core.withLock { $0.rareHandlers?.interim } }
        set { setHandler(\.interim, newValue) }
    }

    /// The head of the response; nil until it has arrived.
    package final var responseHead: ResponseHead? { core.withLock { $0.head } }
}
