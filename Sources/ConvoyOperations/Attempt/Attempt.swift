import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// One attempt of an operation: its connection, the received data, and the reasons why it is held. An operation refers
/// to at most one attempt, the current or the last one. A late callback reaches its own attempt, which has already
/// ended and ignores the call.
///
/// Except for the members guarded by the operation's lock, an attempt is used by one thread after another: the thread
/// that begins it, the network thread, and the thread that begins the next attempt. The lifecycle guarantees this
/// order.
final class Attempt: ConnectionDelegate, @unchecked Sendable {
    /// The number that identifies the attempt in the lifecycle.
    let number: Lifecycle.AttemptNumber

    // MARK: Guarded by the operation's lock

    @exclusivity(unchecked) var phase = AttemptPhase.preparing(nil)
    /// The outcome of the next attempt, decided in advance, if that attempt must not send the request.
    @exclusivity(unchecked) var settlement: PresetOutcome?
    /// The wait before the next attempt.
    @exclusivity(unchecked) var wait: RetryDelay?
    /// The redirect that is waiting for a slot, or the last redirect that waited for one.
    @exclusivity(unchecked) var unansweredRedirect: UnansweredRedirect?
    /// The transport of all attempts of the operation, chosen before the first connection is opened.
    @exclusivity(unchecked) var transport: (any Transport)?

    // MARK: Used by one thread only

    /// The operation's settings when the attempt began.
    @exclusivity(unchecked) var settings: AttemptSettings
    @exclusivity(unchecked) private var ownConfiguration: ConnectionConfiguration?
    /// The operation, retained only while the connection is open, so that a paused operation can be released.
    @exclusivity(unchecked) var operation: URLConnectionOperation?
    @exclusivity(unchecked) var body: ReceivedBody
    /// Whether the transfer may be shared with identical requests.
    @exclusivity(unchecked) var sharesTransfer = false
    @exclusivity(unchecked) private var memoryLimit = Int64.max
    @exclusivity(unchecked) var state = AttemptState()
    @exclusivity(unchecked) var rare = OnDemand<Rare>()

    private let counts: TransferCounts

    /// State that few attempts need.
    final class Rare: OnDemandState {
        /// The request at the end of the followed redirects, without a range, and the number of redirects; nil without
        /// redirects, or if they no longer matter.
        @exclusivity(unchecked) var redirection: (request: URLRequest, followed: Int)?
        /// The connection while it is held.
        @exclusivity(unchecked) var waiting: (any Connection)?
        /// The response that is waiting for a delegate's decision, and its connection, which is held.
        @exclusivity(unchecked) var undecided: (connection: any Connection, response: ResponseHead)?
        /// The sink chosen by a decision, while it is being opened.
        @exclusivity(unchecked) var diverted: SinkQueue?
        /// The operation, while the sink finishes the body.
        @exclusivity(unchecked) var finishing: URLConnectionOperation?
        /// The response reported to monitors, until its request ends.
        @exclusivity(unchecked) fileprivate var respondedHead: ResponseHead?
    }

    enum PresetOutcome {
        case failure(any Error)
        /// The result is the response that contains the challenge.
        case heldResponse
    }

    /// Creates an attempt that takes over the bytes received by the previous attempt.
    init(_ number: Lifecycle.AttemptNumber, after earlier: Attempt?, _ settings: AttemptSettings) {
        self.number = number
        self.settings = settings
        counts = TransferCounts(earlier?.progress)
        body = ReceivedBody()
        transport = earlier?.transport
        if let earlier { swap(&body, &earlier.body) }
    }

    /// The configuration of the connection, which is that of `settings` unless the attempt has modified it.
    var configuration: ConnectionConfiguration {
        get { ownConfiguration ?? settings.configuration }
        set { ownConfiguration = newValue }
    }

    /// The progress of the attempt. Available from any thread.
    var progress: TransferProgress { counts.progress }

    /// Sets the number of bytes received and expected. May be called on any thread.
    func report(total: Int64, expected: Int64?) {
        counts.bytesReceived.store(total, ordering: .relaxed)
        counts.bytesExpectedToReceive.store(expected ?? -1, ordering: .relaxed)
    }

    /// Reports the number of bytes sent since the last call, the total number sent, and the number to send. May be
    /// called on any thread.
    func reportSent(_ bytes: Int64, total: Int64, expected: Int64?, of operation: URLConnectionOperation) {
        counts.bytesSent.store(total, ordering: .relaxed)
        counts.bytesExpectedToSend.store(expected ?? -1, ordering: .relaxed)
        guard bytes != 0 else { return }
        operation.delegate(interestedIn: .progress)?
            .operation(operation, didSend: bytes, total: total, expected: expected)
        guard operation.has(.progress) else { return }
        operation.progressReport.noteUpload(bytes, total: total, expected: expected, of: operation)
    }

    // MARK: Beginning

    /// Prepares the attempt for opening its connection. Returns the request to send.
    func begin(
        of operation: URLConnectionOperation, sending request: TransferRequest, memoryLimit: Int
    ) -> TransferRequest {
        self.operation = operation
        self.memoryLimit = Int64(memoryLimit)
        return body.begin(sending: request)
    }

    /// Records that no connection will be opened.
    func abandon() { operation = nil }

    /// Delivers the response of the previous attempt, which was held back while its challenge was being answered.
    func deliverHeldResponse(of operation: URLConnectionOperation) {
        self.operation = operation
        _ = state.finish(.finished)
        // An earlier stop had no connection to cancel.
        if operation.lifecycle.value.isEnding { return carryOut(state.flow.handle(.stop)) }
        report(receivedOutcome(isFinal: true))
    }

    /// Discards the sink and releases the operation, which has finished.
    func discard() {
        operation = nil
        rare.finishing = nil
        rare.waiting = nil
        rare.undecided = nil
        rare.diverted.take()?.discard()
        body.sink?.discard()
    }

    // MARK: The connection's delegate

    func connection(_ connection: any Connection, didReceive response: ResponseHead, after phases: TransactionPhases?) {
        guard let operation, state.isReceiving else { return connection.cancel() }
        let isQuestion = response.asksForCredentials
        if isQuestion { noteRedirection(connection) }
        reportToEventLog(of: operation, response, phases)
        if state.isAuthorized, let error = operation.proofFailure(of: response) {
            return stop(connection, then: .fail(error))
        }
        // A 429 or 503, which asks the client to wait, is handled with the retry. A cached response does not show that
        // the host is reachable.
        let isOfHost = response.cacheUse == nil || response.cacheUse == .validated
        if operation.reportsAnswer, isOfHost, response.statusCode != 429, response.statusCode != 503 {
            operation.hostDidAnswer(Target.place(of: response.url))
        }
        defer { report(total: body.count, expected: expectedTotal) }
        switch body.evaluate(response) {
        case .append(let whole):
            body.goOn(to: whole)
            noteHeadOfWhole(operation)
            operation.delegate(interestedIn: .progress)?
                .operation(operation, didResumeAt: body.offset, expected: whole)
        case .alreadyComplete:
            noteHeadOfWhole(operation)
            stop(connection, then: .succeed)
        case .askForWhole: stop(connection, then: .askForWhole)
        case .contradiction:
            stop(
                connection,
                then: .fail(
                    URLError(
                        .badServerResponse, url: response.url,
                        "The response to the full request is partial, or its length differs for the same ETag."
                    )))
        case .unrelated:
            body.keepSeparately()
            operation.note(response)
            limitBody(of: response, operation, connection)
        case .startOver:
            body.willStartOver(with: response)
            operation.note(response)
            limitBody(of: response, operation, connection)
            if !isQuestion, let delegate = operation.delegate(interestedIn: .responses) {
                return wait(for: delegate, toDecideAbout: response, of: operation, connection)
            }
            // Keep the body of a challenge until it is certain that the challenge will not be answered. Do not write it
            // to a sink, which may be unable to start over.
            if body.isInMemory || !isQuestion && operation.belongsIntoOutput(response) {
                startOver(with: response, connection)
            } else {
                body.keepSeparately()
                // If the delegate has cancelled the operation, receiving more of the body would only fill memory until
                // the cancellation takes effect.
                if operation.lifecycle.value.isEnding { connection.suspendReceiving() }
            }
        }
    }

    /// Limits how much of an error body is received, regardless of its declared length. The same limit applies to a
    /// challenge that another request may answer.
    private func limitBody(of response: ResponseHead, _ operation: URLConnectionOperation, _ connection: any Connection) {
        state.mayCutBody =
            response.statusCode >= 300
            && (!operation.belongsIntoOutput(response) || !body.isQuestionResult && operation.mayAnswer(response))
        if state.mayCutBody { connection.limitBodyOfError() }
    }

    private func noteRedirection(_ connection: any Connection) {
        guard let redirected = connection.redirected else { return }
        var request = redirected.request
        if body.resumption != nil {
            for name in ["Range", "If-Range"] { request.setValue(nil, forHTTPHeaderField: name) }
        }
        rare.redirection = (request, redirected.followed)
    }

    /// Restores the head of the complete body as the current response, even after an error response.
    private func noteHeadOfWhole(_ operation: URLConnectionOperation) {
        if let head = body.head { operation.note(head) }
    }

    func startOver(with response: ResponseHead, _ connection: any Connection) {
        body.startOver(with: response)
        guard let sink = body.sink else {
            // Fail now instead of receiving a body that will be rejected.
            if !state.mayCutBody, let total = body.total, total > memoryLimit {
                return stop(connection, then: .fail(tooLarge))
            }
            return body.startOverInMemory()
        }
        command(sink, for: connection) { sink.begin(response, then: $0) }
    }

    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {
        guard state.isReceiving, let operation else { return }
        let received = body.count + Int64(data.count)
        if let sink = body.sink, body.separateBody == nil {
            if body.exceedsRange(with: received) { return stop(connection, then: .askForWhole) }
            command(sink, for: connection) { sink.write(data, then: $0) }
            guard state.intent == nil else { return }
            if sink.sink.isPaced { waitForRoom(in: sink.sink, connection) }
        } else {
            if received > memoryLimit { return exceedMemory(data, connection) }
            if body.separateBody == nil, body.exceedsRange(with: received) { return stop(connection, then: .askForWhole) }
            body.append(data)
        }
        counts.bytesReceived.store(received, ordering: .relaxed)
        if operation.has(.delegate) { tell(operation.delegate, of: data, received, operation, connection) }
        guard operation.has(.progress) else { return }
        operation.progressReport.noteDownload(
            Int64(data.count), total: received, expected: expectedTotal, of: operation)
        if body.isInMemory, body.separateBody == nil { operation.progressReport.noteBody { body.memory.data } }
    }

    /// Handles a body that exceeds the memory limit. An error body is kept up to the limit.
    private func exceedMemory(_ data: UnsafeRawBufferPointer, _ connection: any Connection) {
        guard state.mayCutBody else { return stop(connection, then: .fail(tooLarge)) }
        body.append(UnsafeRawBufferPointer(rebasing: data.prefix(Int(max(0, memoryLimit - body.count)))))
        stop(connection, then: .cut(tooLarge))
    }

    func connection(
        _ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?
    ) {
        guard let operation, !state.hasEnded else { return }
        reportSent(Int64(count), total: total, expected: totalExpected, of: operation)
    }

    func connection(
        _ connection: any Connection, willFollow redirect: Redirect,
        decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        guard let operation, !state.hasEnded else { return decide(nil) }
        operation.decide(about: redirect, self, decide)
    }

    func connection(_ connection: any Connection, didReceiveInterim response: ResponseHead) {
        guard let operation, state.isReceiving else { return }
        operation.interimResponseHandler?(response)
    }

    func connection(_ connection: any Connection, didHandle redirect: RedirectEvent) {
        if !state.hasEnded { operation?.note(redirect) }
    }

    func connection(_ connection: any Connection, willSend request: RequestHead) {
        if !state.hasEnded { operation?.eventLog?.noteRequestStarted(request) }
    }

    func connection(_ connection: any Connection, didCollect metrics: TransactionMetrics, of head: ResponseHead?) {
        guard let operation, !state.hasEnded, let eventLog = operation.eventLog else { return }
        if metrics.cacheUse != nil { eventLog.noteSecrets(of: operation.connectionConfiguration) }
        let head = rare.respondedHead.take() ?? head ?? body.head
        eventLog.noteRequestEnded(metrics.statusCode == nil ? nil : head, metrics)
    }

    /// Reports the start of a response to monitors.
    private func reportToEventLog(
        of operation: URLConnectionOperation, _ response: ResponseHead, _ phases: TransactionPhases?
    ) {
        guard let eventLog = operation.eventLog else { return }
        // A cached response is reported at its end.
        guard response.cacheUse == nil || response.cacheUse == .validated else { return }
        rare.respondedHead = response
        eventLog.noteResponded(response, phases)
    }

    func connectionDidFinish(_ connection: any Connection) { connectionDidEnd(.finished) }

    func connection(_ connection: any Connection, didFailWith error: URLError) {
        if !state.hasEnded { noteRedirection(connection) }
        connectionDidEnd(.failed(error))
    }

    func connectionDidCancel(_ connection: any Connection) { connectionDidEnd(.cancelled) }

    private var tooLarge: URLError {
        let error = URLError(
            .dataLengthExceedsMaximum, url: body.request?.url,
            "The body exceeds the limit of \(memoryLimit) bytes in memory.")
        var userInfo = error.userInfo
        userInfo[URLResponseSerializationErrorKey.limit] = ResponseLimitExceeded.bodySize
        return URLError(error.code, describedBy: userInfo)
    }

    /// The length of the body being received, as reported to the user.
    var expectedTotal: Int64? {
        guard body.separateBody != nil else { return body.total }
        guard let shown = operation?.currentHead, !shown.isEncoded else { return nil }
        return shown.contentLength
    }
}
