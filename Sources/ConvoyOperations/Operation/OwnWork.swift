import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Does the work of operations that are not one transfer.
package protocol OperationWorker: AnyObject, Sendable {
    /// The class of the library's own whose work it does. A user's subclass of it may override `start()`.
    var workedClass: ObjectIdentifier { get }

    /// Whether its operations use one of their queue's slots, and one of their host's, while they execute. True by default.
    var takesSlot: Bool { get }

    /// Does the work of an attempt. Called on any thread; must not block.
    func begin(_ work: OwnWork, of operation: URLConnectionOperation)

    /// Lets go of what the work of all attempts has kept. Called once, when the operation ends, before anybody is told, on any
    /// thread.
    func end(_ operation: URLConnectionOperation)
}

extension OperationWorker {
    package var takesSlot: Bool { true }
}

/// One attempt of an operation that does its work with other operations, in place of one transfer. It reports what becomes
/// of the attempt; all members can be used from any thread.
package struct OwnWork: Sendable {
    private let attempt: Attempt
    private let operation: URLConnectionOperation

    init(_ attempt: Attempt, of operation: URLConnectionOperation) {
        (self.attempt, self.operation) = (attempt, operation)
    }

    /// Says how the attempt is stopped: `stop` is called at most once, on any thread, and is to be answered by `didStop()`
    /// unless the attempt has ended by then. False if the attempt was asked to stop already: that is to be answered as well,
    /// and may begin the next attempt before the answer returns.
    package func begin(stop: @escaping @Sendable () -> Void) -> Bool { operation.advance(attempt, to: .working(stop: stop)) }

    /// The work was stopped, and can go on in another attempt.
    package func didStop() { operation.end(attempt, with: .stopped) }

    /// Makes a head the response of the operation, and redirects those of its latest attempt.
    package func note(_ head: ResponseHead, redirects: [RedirectEvent]) {
        operation.core.withLock { core in
            core.head = head
            core.redirects = redirects
        }
    }

    /// Ends the attempt with an error of the transport, unless the operation is to be retried.
    package func fail(with error: any Error, head: ResponseHead?) { operation.end(attempt, with: .failed(error, head)) }

    /// Ends the attempt with an error that is final.
    package func fail(finally error: any Error) { operation.end(attempt, with: .settled(error)) }

    /// Ends the attempt with a response that is not acceptable, unless the operation is to be retried.
    package func fail(with error: any Error, response head: ResponseHead, data: Data?, object: Any?) {
        operation.note(head)
        operation.end(attempt, with: .refused(error, head, data: data, object: object))
    }

    /// Begins what cannot be undone. From here on the outcome of the attempt is that of the operation: a cancellation, or the end
    /// of its time, waits for it for a second, and has no effect if it comes in that time.
    ///
    /// False if the operation has ended instead, because it was cancelled or its time was over: then there is nothing to
    /// report any more.
    package func beginCommit() -> Bool {
        operation.handle(.workCanCommit(attempt.number))
        let life = operation.lifecycle.value
        return life.work == .committing && life.tryNumber == attempt.number
    }

    /// Ends the attempt with success.
    package func succeed(with object: Any?) { operation.end(attempt, with: .succeeded(object)) }

    /// Tells how many bytes are there, and how many there will be.
    package func report(bytes: Int64, total: Int64, expected: Int64?) {
        attempt.report(total: total, expected: expected)
        guard bytes > 0 else { return }
        operation.delegate(interestedIn: .progress)?
            .operation(operation, didReceive: bytes, total: total, expected: expected)
        guard operation.onlookers.contains(.progress) else { return }
        operation.progressReport.noteDownload(bytes, total: total, expected: expected, of: operation)
    }

    /// Tells that the body goes on behind bytes that were there already.
    package func didResume(at offset: Int64, expected: Int64?) {
        operation.delegate(interestedIn: .progress)?.operation(operation, didResumeAt: offset, expected: expected)
    }

    /// The host has answered: its gate need not stay closed.
    package func hostDidAnswer() {
        if operation.reportsAnswer { operation.hostDidAnswer(operation.hostKey) }
    }

    /// Waits until there are descriptors for files, or the attempt is to stop; then calls `then`, once. At once where there
    /// are some.
    ///
    /// - Parameter earlier: a claim with which a file could not be opened.
    package func awaitDescriptors(
        _ count: Int, after earlier: DescriptorClaim? = nil, then: @escaping @Sendable (DescriptorClaim) -> Void
    ) {
        if earlier == nil, let claim = NetworkThread.claimDescriptors(count) { return then(claim) }
        operation.core.withLock { $0.openCarrier(for: attempt) }
            .awaitDescriptors(count, after: earlier, while: { operation.isRunning(attempt) }, then: then)
    }

    /// Runs a block on the thread on which the operation's connections are called back.
    package func perform(_ block: @escaping @Sendable () -> Void) {
        operation.core.withLock { $0.openCarrier(for: attempt) }.perform(block)
    }
}

extension URLConnectionOperation {
    /// What does the work of the operation; nil, the default, for one transfer. To be set before it starts.
    package final var worker: (any OperationWorker)? {
        get { core.withLock { $0.worker } }
        set { set(newValue) { swap(&$0.worker, &$1) } }
    }

    /// Decides, on the network thread, whether the body of a response goes into the output stream; otherwise it is kept as
    /// `responseData`. To be set before it starts.
    package final func setBodyAcceptance(_ accepts: @escaping @Sendable (ResponseHead) -> Bool) {
        setHandler(\.acceptsBody, accepts)
    }

    /// Makes the operation do a part of another's work: it gets the settings of that one, whose handlers decide about
    /// redirects and challenges. It is not retried, except where nothing was sent, uses no cache, shares nothing, and
    /// tells nobody else of its end. One for another origin than the parent's gets none of its secrets, as after a redirect.
    ///
    /// - Parameter decoding: whether a body that came encoded, though nobody has asked for that, is decoded.
    package final func adoptSettings(of parent: URLConnectionOperation, decoding: Bool) {
        // One for the whole: what one part was told, the others know.
        if parent.shouldUseCredentialStorage { _ = parent.credentialStore }
        let (common, redirect, challenge, context) = parent.core.withLock { core in
            // All parts travel over the same.
            core.common.values.holder.transports.pin()
            return (core.common.values, core.rareHandlers?.redirect, core.rareHandlers?.challenge, core.traceContext)
        }
        // It goes out under that of the whole.
        core.withLock { $0.traceContext = context }
        let facts = SerializerFacts(HTTPResponseSerializer(statusesOf: common.serializer.serializer))
        change { values in
            values = common
            values.serializer = facts
            values.connectionConfiguration.decodesUnaskedEncodings = decoding
            (values.retryPolicy, values.totalTimeout, values.completionGroup, values.storedResponses) = (nil, nil, nil, nil)
            (values.postsNotifications, values.coalescesIdenticalRequests, values.holder.awaitedValue) = (false, false, nil)
            (values.waitsForConnectivity, values.holder.isPart) = (false, true)
        }
        addMetrics(to: parent)
        addStory(to: parent)
        if let base = parent.request.url, let own = request.url, !Target.isSame(base, own) {
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

    /// Lets the server be silent: once the head of its response has come, the transfer may be without a byte for so many
    /// seconds, or for ever with nil, and as slow as it likes. The head has the time that else is for any byte.
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

    /// The head of the response; nil until it has arrived.
    package final var responseHead: ResponseHead? { core.withLock { $0.head } }
}
