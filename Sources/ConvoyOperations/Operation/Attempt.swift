import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// One attempt of an operation: its connection, what it has received, and what it waits for. An operation has at most
/// one, the current or the last; a late callback reaches its own attempt, which is over.
///
/// Except for what the operation's lock guards, it is used by one thread at a time: the one that begins it, then the
/// network thread, then the one that begins the next attempt. The lifecycle orders them.
final class Attempt: URLConnectionDelegate, @unchecked Sendable {
    /// Identifies it in the lifecycle.
    let number: Lifecycle.AttemptNumber

    // MARK: Guarded by the operation's lock

    @exclusivity(unchecked) var phase = AttemptPhase.preparing(nil)
    /// The outcome of the next attempt, if that must not send the request.
    @exclusivity(unchecked) var settlement: Settlement?
    /// The wait before the next attempt.
    @exclusivity(unchecked) var wait: AttemptWait?
    /// The redirect that waits for a slot, or the last one that did.
    @exclusivity(unchecked) var unansweredRedirect: UnansweredRedirect?
    /// The transport of all attempts. Chosen before the connection is opened.
    @exclusivity(unchecked) var transport: (any Transport)?

    // MARK: Used by one thread at a time

    /// The operation's settings when the attempt began.
    @exclusivity(unchecked) var settings: PreparedSettings
    @exclusivity(unchecked) private var ownConfiguration: ConnectionConfiguration?
    /// Retained from the opening of the connection to the end, so that a paused operation can be released.
    @exclusivity(unchecked) private(set) var operation: URLConnectionOperation?
    @exclusivity(unchecked) var body: ReceivedBody
    /// Whether it may be sent with credentials, so that a server may prove that it knows the password.
    @exclusivity(unchecked) var isAuthorized = false
    @exclusivity(unchecked) private var memoryLimit = Int64.max
    /// Whether the connection has reported its end, or there is none.
    @exclusivity(unchecked) private(set) var hasConnectionEnded = false
    /// What to do after the attempt itself cancelled the connection, rather than the operation.
    @exclusivity(unchecked) var afterCancel: AfterCancel?
    /// Whether the response is given up where its body does not end, or is too long.
    @exclusivity(unchecked) private var mayCutBody = false
    /// What the connection waits for.
    @exclusivity(unchecked) var flow = TransferState()
    /// How the connection has ended, perhaps while it was held up.
    @exclusivity(unchecked) private var ending = ConnectionEnd.finished
    /// What few attempts have; made when its first member is set.
    @exclusivity(unchecked) private var rare: Rare?

    private let counts: TransferCounts

    private final class Rare {
        @exclusivity(unchecked) var redirection: (request: URLRequest, followed: Int)?
        @exclusivity(unchecked) var waiting: (any Connection)?
        @exclusivity(unchecked) var undecided: (connection: any Connection, response: ResponseHead)?
        @exclusivity(unchecked) var diverted: SinkQueue?
        @exclusivity(unchecked) var closing: URLConnectionOperation?
        @exclusivity(unchecked) var respondedHead: ResponseHead?
    }

    @inline(__always)
    private func set<Value>(_ member: ReferenceWritableKeyPath<Rare, Value?>, _ value: Value?) {
        if rare == nil {
            if value == nil { return }
            rare = Rare()
        }
        rare?[keyPath: member] = value
    }

    /// The request that redirects have led to, without a range, and their number; nil without any, or if they no longer
    /// matter.
    private(set) var redirection: (request: URLRequest, followed: Int)? {
        get { rare?.redirection }
        set { set(\.redirection, newValue) }
    }
    /// The connection while it is held up.
    var waiting: (any Connection)? {
        get { rare?.waiting }
        set { set(\.waiting, newValue) }
    }
    /// The response that a delegate must decide about, and its connection, which is held up.
    var undecided: (connection: any Connection, response: ResponseHead)? {
        get { rare?.undecided }
        set { set(\.undecided, newValue) }
    }
    /// The sink that a decision has chosen, while it is being opened.
    var diverted: SinkQueue? {
        get { rare?.diverted }
        set { set(\.diverted, newValue) }
    }
    /// The operation, while only closing its sink is left.
    private var closing: URLConnectionOperation? {
        get { rare?.closing }
        set { set(\.closing, newValue) }
    }
    /// The response that was reported to monitors, until the end of its request.
    private var respondedHead: ResponseHead? {
        get { rare?.respondedHead }
        set { set(\.respondedHead, newValue) }
    }

    enum AfterCancel {
        case askForWhole
        /// Nothing of the request was sent: the next attempt sends it, after the pause.
        case sendLater
        case succeed
        case fail(URLError)
        /// The response without the rest of its body.
        case cut(URLError)
    }

    enum ConnectionEnd: Sendable {
        case finished
        case failed(URLError)
        case cancelled
    }

    enum Settlement {
        case failure(any Error)
        /// The response with the challenge is the result.
        case heldResponse
    }

    /// An attempt that takes over what the previous one has received.
    init(_ number: Lifecycle.AttemptNumber, after earlier: Attempt?, _ settings: PreparedSettings) {
        (self.number, self.settings) = (number, settings)
        counts = TransferCounts(earlier?.progress)
        body = ReceivedBody()
        transport = earlier?.transport
        if let earlier { swap(&body, &earlier.body) }
    }

    /// The configuration of its connection: that of the settings, unless it needs its own.
    var configuration: ConnectionConfiguration {
        get { ownConfiguration ?? settings.configuration }
        set { ownConfiguration = newValue }
    }

    /// Its progress. Any thread.
    var progress: TransferProgress { counts.progress }

    /// Sets the number of bytes received and expected. Any thread.
    func report(total: Int64, expected: Int64?) {
        counts.bytesReceived.store(total, ordering: .relaxed)
        counts.bytesExpectedToReceive.store(expected ?? -1, ordering: .relaxed)
    }

    /// Sets the number of bytes that were sent, and of those that are to be. Any thread.
    func report(sent: Int64, expected: Int64?) {
        counts.bytesSent.store(sent, ordering: .relaxed)
        counts.bytesExpectedToSend.store(expected ?? -1, ordering: .relaxed)
    }

    // MARK: Beginning

    /// Prepares for opening the connection. Returns the request to send.
    func begin(
        of operation: URLConnectionOperation, sending request: TransferRequest, memoryLimit: Int
    ) -> TransferRequest {
        self.operation = operation
        self.memoryLimit = Int64(memoryLimit)
        return body.begin(sending: request)
    }

    /// Notes that no connection will be opened.
    func abandon() {
        operation = nil
        body.sink?.claim = nil
    }

    /// Delivers the response of the previous attempt, which was held back until a challenge was answered.
    func deliverHeldResponse(of operation: URLConnectionOperation) {
        self.operation = operation
        hasConnectionEnded = true
        // An earlier stop has found nothing to give up.
        if operation.lifecycle.value.isEnding { return carryOut(flow.handle(.stop)) }
        succeed(isFinal: true)
    }

    /// Notes that the sink is about to commit. Called under the operation's lock, so that discarding the attempt finds
    /// the call.
    func willCommit(as call: BlockingCall) { body.sink?.willCommit(as: call) }

    /// Puts the bytes in the sink in their final place. Any thread.
    ///
    /// - Parameter then: called on a worker thread, unless the call is given up.
    func commit(as call: BlockingCall, then: @escaping @Sendable ((any Error)?) -> Void) {
        body.sink?.commit(as: call, then: then)
    }

    /// Discards the sink and releases the operation, which has finished.
    func discard() {
        (operation, closing, waiting, undecided) = (nil, nil, nil, nil)
        diverted.take()?.discard()
        body.sink?.discard()
    }

    // MARK: The connection's delegate

    func connection(_ connection: any Connection, didReceive response: ResponseHead) {
        guard let operation, !hasConnectionEnded, afterCancel == nil else { return connection.cancel() }
        let isQuestion = response.asksForCredentials
        if isQuestion { noteRedirection(connection) }
        reportToEventLog(of: operation, response, connection)
        if isAuthorized, let error = operation.proofFailure(of: response) { return stop(connection, then: .fail(error)) }
        // A request to wait, with its duration, also closes the gate.
        // A stored response says nothing about the host.
        let isOfHost = response.cacheUse == nil || response.cacheUse == .validated
        if operation.reportsAnswer, isOfHost, response.statusCode != 429, response.statusCode != 503 {
            operation.hostDidAnswer(operation.hostKey(of: response.url))
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
                        "The server contradicts itself: a part is sent as the whole, or the same ETag has another length.")))
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
            // The body of a challenge is kept until it is certain that there is no answer, and not in a sink that may
            // be unable to start over.
            if body.isInMemory || !isQuestion && operation.belongsIntoOutput(response) {
                startOver(with: response, connection)
            } else {
                body.keepSeparately()
                // Who decides has cancelled it: the body would only fill memory until that is carried out.
                if operation.lifecycle.value.isEnding { connection.suspendReceiving() }
            }
        }
    }

    /// Does not wait for the whole body of a response that is an error, whatever it says, or that another request may
    /// answer.
    private func limitBody(of response: ResponseHead, _ operation: URLConnectionOperation, _ connection: any Connection) {
        mayCutBody =
            response.statusCode >= 300
            && (!operation.belongsIntoOutput(response) || !body.isQuestionResult && operation.mayAnswer(response))
        if mayCutBody { connection.limitBodyOfError() }
    }

    private func noteRedirection(_ connection: any Connection) {
        guard let redirected = (connection as? URLConnection)?.redirected else { return }
        var request = redirected.request
        if body.resumption != nil {
            for name in ["Range", "If-Range"] { request.setValue(nil, forHTTPHeaderField: name) }
        }
        redirection = (request, redirected.followed)
    }

    /// Makes the head of the whole body the response again, even if an error response came in between.
    private func noteHeadOfWhole(_ operation: URLConnectionOperation) {
        if let head = body.head { operation.note(head) }
    }

    func startOver(with response: ResponseHead, _ connection: any Connection) {
        body.startOver(with: response)
        guard let sink = body.sink else {
            // Before any of it is received in vain.
            if !mayCutBody, let total = body.total, total > memoryLimit {
                return stop(connection, then: .fail(tooLarge))
            }
            return body.startOverInMemory()
        }
        command(sink, for: connection) { sink.begin(response, then: $0) }
    }

    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {
        guard afterCancel == nil, !hasConnectionEnded, let operation else { return }
        let received = body.count + Int64(data.count)
        if let sink = body.sink, body.separateBody == nil {
            if body.exceedsRange(with: received) { return stop(connection, then: .askForWhole) }
            command(sink, for: connection) { sink.write(data, then: $0) }
            guard afterCancel == nil else { return }
            if sink.sink.isPaced { waitForRoom(in: sink.sink, connection) }
        } else {
            if received > memoryLimit { return exceedMemory(data, connection) }
            if body.separateBody == nil, body.exceedsRange(with: received) { return stop(connection, then: .askForWhole) }
            body.append(data)
        }
        counts.bytesReceived.store(received, ordering: .relaxed)
        if operation.flags.contains(.delegate) { tell(operation.delegate, of: data, received, operation, connection) }
        guard operation.flags.contains(.progress) else { return }
        operation.progressReport.noteDownload(
            Int64(data.count), total: received, expected: expectedTotal, of: operation)
        if body.isInMemory, body.separateBody == nil { operation.progressReport.noteBody { body.memory.data } }
    }

    /// More has come than may be kept: of an error as much is kept as there is room for.
    private func exceedMemory(_ data: UnsafeRawBufferPointer, _ connection: any Connection) {
        guard mayCutBody else { return stop(connection, then: .fail(tooLarge)) }
        body.append(UnsafeRawBufferPointer(rebasing: data.prefix(Int(max(0, memoryLimit - body.count)))))
        stop(connection, then: .cut(tooLarge))
    }

    func connection(
        _ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?
    ) {
        guard let operation, !hasConnectionEnded else { return }
        counts.bytesSent.store(total, ordering: .relaxed)
        counts.bytesExpectedToSend.store(totalExpected ?? -1, ordering: .relaxed)
        operation.delegate(interestedIn: .progress)?
            .operation(operation, didSend: Int64(count), total: total, expected: totalExpected)
        guard operation.flags.contains(.progress) else { return }
        operation.progressReport.noteUpload(Int64(count), total: total, expected: totalExpected, of: operation)
    }

    func connection(
        _ connection: any Connection, willFollow redirect: Redirect,
        decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        guard let operation, !hasConnectionEnded else { return decide(nil) }
        operation.decide(about: redirect, self, decide)
    }

    func connection(_ connection: any Connection, didReceiveInterim response: ResponseHead) {
        guard let operation, !hasConnectionEnded, afterCancel == nil else { return }
        operation.interimResponseHandler?(response)
    }

    func connection(_ connection: any Connection, didHandle redirect: RedirectEvent) {
        if !hasConnectionEnded { operation?.note(redirect) }
    }

    func connection(_ connection: any Connection, willSend request: RequestHead) {
        if !hasConnectionEnded { operation?.eventLog?.noteRequestStarted(request) }
    }

    func connection(_ connection: any Connection, didCollect metrics: TransactionMetrics) {
        guard let operation, !hasConnectionEnded else { return }
        operation.metricsRecord?.add(metrics)
        guard let eventLog = operation.eventLog else { return }
        if metrics.cacheUse != nil { eventLog.noteSecrets(of: operation.connectionConfiguration) }
        let head = respondedHead.take() ?? (connection as? URLConnection)?.latestHead ?? body.head
        eventLog.noteRequestEnded(metrics.statusCode == nil ? nil : head, metrics)
    }

    /// Reports a response that has begun to monitors.
    private func reportToEventLog(
        of operation: URLConnectionOperation, _ response: ResponseHead, _ connection: any Connection
    ) {
        guard let eventLog = operation.eventLog else { return }
        // A stored response is reported at its end.
        guard response.cacheUse == nil || response.cacheUse == .validated else { return }
        respondedHead = response
        eventLog.noteResponded(response, (connection as? URLConnection)?.phasesSoFar)
    }

    func connectionDidFinish(_ connection: any Connection) { connectionDidEnd(.finished) }

    func connection(_ connection: any Connection, didFailWith error: URLError) {
        if !hasConnectionEnded { noteRedirection(connection) }
        connectionDidEnd(.failed(error))
    }

    func connectionDidCancel(_ connection: any Connection) { connectionDidEnd(.cancelled) }

    // MARK: Ending

    /// Notes that the connection has ended. The end is processed when the sink is no longer busy, so that the offset is
    /// right, and after a decision about the response; at once if the operation is ending anyway.
    private func connectionDidEnd(_ ending: ConnectionEnd) {
        guard !hasConnectionEnded else { return }
        hasConnectionEnded = true
        waiting = nil
        if operation?.lifecycle.value.isEnding == true { return carryOut(flow.handle(.stop)) }
        self.ending = ending
        // After the end was processed, the body belongs to the next attempt.
        guard undecided != nil else { return carryOut(flow.handle(.end)) }
        _ = flow.handle(.end)
        // Nothing is left to decide, unless the response is complete.
        if case .finished = ending, afterCancel == nil { return awaitDecision() }
        undecided = nil
        diverted.take()?.discard()
        carryOut(flow.handle(.lift(.decision)))
    }

    /// Ends an attempt of an ending operation without waiting for user code. On the network thread.
    func giveUp() {
        // The end of a connection that is being cancelled will find the operation ending.
        guard hasConnectionEnded else { return }
        if let operation = closing.take() { operation.end(self, with: .stopped) } else { carryOut(flow.handle(.stop)) }
    }

    func carryOut(_ action: TransferState.Action) {
        switch action {
        case .nothing, .drain: return
        case .run: waiting.take()?.resumeReceiving()
        case .end: conclude(ending)
        case .stopped:
            (undecided, waiting) = (nil, nil)
            diverted.take()?.discard()
            end(with: .stopped)
        }
    }

    /// A decision made before (`afterCancel`) counts, even if the connection ended before it was cancelled.
    private func conclude(_ ending: ConnectionEnd) {
        switch (afterCancel, ending) {
        case (nil, .finished), (.succeed, _): succeed()
        case (nil, .failed(let error)) where error.leavesRest, (.cut(let error), _):
            body.cut = error
            succeed()
        case (nil, .failed(let error)), (.fail(let error), _): end(with: .failed(error, nil))
        case (nil, .cancelled): end(with: .stopped)
        case (.askForWhole, _):
            body.requestWhole()
            end(with: .unusable)
        case (.sendLater, _): end(with: .unusable)
        }
    }

    /// Reports the outcome to the operation, once.
    private func end(with outcome: AttemptOutcome) {
        guard let operation = operation.take() else { return }
        // What waits for its next attempt needs no descriptors.
        body.sink?.claim = nil
        operation.end(self, with: outcome)
    }

    func stop(_ connection: any Connection, then: AfterCancel) {
        guard afterCancel == nil else { return }
        afterCancel = then
        connection.cancel()
    }

    /// - Parameter isFinal: whether it was decided before that this response is the result.
    private func succeed(isFinal: Bool = false) {
        if let shortfall = body.shortfall { return end(with: .failed(shortfall, nil)) }
        let head = body.separateBody == nil ? body.head : operation?.currentHead
        end(with: .received(head, isFinal: isFinal || body.isQuestionResult && head?.asksForCredentials == true))
    }

    /// Closes the sink, or synchronizes one that is provisional until the response is accepted, and stores the response.
    func close(_ head: ResponseHead?, of operation: URLConnectionOperation) {
        if body.cut != nil, let head, operation.belongsIntoOutput(head) {
            // It was to be answered, and was not, so that all of it is wanted after all.
            body.requestQuestion()
            return operation.end(self, with: .unusable)
        }
        guard let sink = body.sink else {
            return operation.finish(self, with: head, data: body.separateBody?.data ?? body.memory.data)
        }
        var data = body.separateBody?.data
        // The operation accepts any status, so this body is its response, and replaces the partial body in the sink.
        if let bytes = data, let head, operation.belongsIntoOutput(head) {
            sink.begin(head) { _ in }
            bytes.withUnsafeBytes { sink.write($0) { _ in } }
            data = nil
        }
        closing = operation
        let body = data
        let then: (URLError?) -> Void = { [self] failure in
            guard let operation = closing.take() else { return }
            if let failure {
                operation.end(self, with: .failed(failure, nil))
            } else {
                operation.finish(self, with: head, data: body)
            }
        }
        guard sink.sink.isProvisional else { return sink.close(then: then) }
        // A body outside the sink is not committed.
        if body == nil { sink.synchronize(then: then) } else { sink.flush(then: then) }
    }

    private var tooLarge: URLError {
        let error = URLError(
            .dataLengthExceedsMaximum, url: body.request?.url,
            "The body is longer than the limit of \(memoryLimit) bytes in memory.")
        var userInfo = error.userInfo
        userInfo[URLResponseSerializationErrorKey.limit] = ResponseLimitExceeded.bodySize
        return URLError(error.code, describedBy: userInfo)
    }

    /// The length of the arriving body, as shown to the user.
    var expectedTotal: Int64? {
        guard body.separateBody != nil else { return body.total }
        guard let shown = operation?.currentHead, !shown.isEncoded else { return nil }
        return shown.contentLength
    }
}
