import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// The transfer of an operation's body, across its pauses: keeps the sink, requests the rest after a pause, and checks
/// the answer.
///
/// It is used by one thread at a time: the one that begins a try, then the network thread. The lifecycle orders them,
/// so no lock is needed.
final class OperationTransfer: URLConnectionDelegate, @unchecked Sendable {
    /// Retained during a try, but not in a pause, so that a paused operation can be released.
    @exclusivity(unchecked) var operation: URLConnectionOperation?
    /// The current try and its connection. Late callbacks of other connections are ignored.
    @exclusivity(unchecked) var number: Lifecycle.TryNumber = 0
    /// The number of the try whose connection has not told its end, for blocks that come late: the next try may begin on
    /// another thread at the same time.
    private let liveNumber = Atomic<Int>(-1)
    @exclusivity(unchecked) private var connection: ObjectIdentifier?
    /// Whether the current try may say who the client is, so that a server may prove who it is.
    @exclusivity(unchecked) var isAuthorized = false
    /// The output stream for the body; nil if the body goes to memory.
    @exclusivity(unchecked) var stream: StreamSink?
    @exclusivity(unchecked) private var memory = MemoryBody()
    /// The body of a response that does not go into the output stream, or does not continue the bytes already received.
    @exclusivity(unchecked) var setAside: MemoryBody?
    @exclusivity(unchecked) var request: TransferRequest?
    /// The head that the bytes in the sink belong to.
    @exclusivity(unchecked) private(set) var head: ResponseHead?
    /// The length of the whole body as sent: from `head`, or from the answer to a range.
    @exclusivity(unchecked) private var total: Int64?
    @exclusivity(unchecked) private var memoryLimit = Int64.max
    /// The range that the current try asked for, or an earlier one whose answer was unusable.
    @exclusivity(unchecked) private var resumption: Resumption?
    /// Whether an answer to a range was unusable. Tries then request the whole body, until it begins to arrive with its
    /// length, and `resumption` stays for what is known of it.
    @exclusivity(unchecked) private var asksForWhole = false
    /// What earlier answers have told of the body that arrives anew: its length, and how many bytes it has at least.
    @exclusivity(unchecked) private var knownTotal: Int64?
    @exclusivity(unchecked) private var leastTotal: Int64 = 0
    /// What to do after the connection was cancelled from here, and not because the operation was asked to stop.
    @exclusivity(unchecked) var afterCancel: AfterCancel?
    /// The request that the redirects of the current try have led to, and how many there were; nil without any, or where
    /// they do not matter any more. Without the range of a resumption.
    @exclusivity(unchecked) private(set) var redirection: (request: URLRequest, followed: Int)?
    /// What the connection waits for.
    @exclusivity(unchecked) var flow = TransferState()
    /// How it has ended, perhaps while it waited.
    @exclusivity(unchecked) private var ending = Ending.finished
    /// The connection, while it waits.
    @exclusivity(unchecked) var waiting: (any Connection)?
    /// The response about which somebody is to decide, and its connection, which waits.
    @exclusivity(unchecked) var undecided: (connection: any Connection, response: ResponseHead)?
    /// The sink that a decision has chosen, while it is being opened.
    @exclusivity(unchecked) var diverted: StreamSink?
    /// The try whose sink is being closed: all but that is done.
    @exclusivity(unchecked) private var closing: OperationTry?

    /// The response that monitors know of, until the end of its request.
    @exclusivity(unchecked) var respondedHead: ResponseHead?

    private let counts = TransferCounts()

    enum AfterCancel {
        case askForWhole
        case succeed
        case fail(URLError)
    }

    /// How a connection has ended.
    enum Ending: Sendable {
        case finished
        case failed(URLError)
        case cancelled
    }

    init(url: URL?, output: OutputStream?, transport: any Transport) {
        stream = output.map { StreamSink(stream: $0, url: url) { transport.perform($0) } }
    }

    var isInMemory: Bool { stream == nil }

    /// Whether somebody reads the body while it comes.
    var isRead: Bool { stream?.isPaced ?? false }

    /// How far it is. Any thread.
    var progress: TransferProgress { counts.progress }

    /// How many bytes of the body are kept so far.
    private var offset: Int64 { stream?.offset ?? memory.count }

    // MARK: Beginning a try

    /// Whether a try can begin without blocking: there is no stream to open, and no body to replay.
    var beginsAtOnce: Bool { stream?.isOpen != false && (request == nil || request?.bodyStream == nil) }

    /// Prepares for a try. Returns the request to send.
    func begin(
        _ number: Lifecycle.TryNumber, of operation: URLConnectionOperation, sending request: TransferRequest,
        memoryLimit: Int
    ) -> TransferRequest {
        self.operation = operation
        self.number = number
        self.request = request
        self.memoryLimit = Int64(memoryLimit)
        setAside = nil
        afterCancel = nil
        redirection = nil
        (flow, waiting, undecided, diverted) = (TransferState(), nil, nil, nil)
        liveNumber.store(Int(number), ordering: .releasing)
        if asksForWhole { return request }
        resumption = nil
        guard let head else { return request }
        let whole = request.urlRequest
        resumption = Resumption(after: head, of: whole, offset: offset, total: total)
        return .foundation(resumption?.request(whole) ?? whole)
    }

    /// Prepares for a try that may block: replays the request's body, and opens the output stream.
    ///
    /// - Parameter then: called with the request to send, synchronously or on a worker thread, so that a user's stream
    ///   does not block the network thread.
    func prepareForTry(
        _ number: Lifecycle.TryNumber, of operation: URLConnectionOperation, sending request: TransferRequest,
        memoryLimit: Int, then: @escaping @Sendable (Result<TransferRequest, URLError>) -> Void
    ) {
        let opens: @Sendable (TransferRequest) -> Void = { [self] request in
            let begins: @Sendable () -> Void = { [self] in
                then(.success(begin(number, of: operation, sending: request, memoryLimit: memoryLimit)))
            }
            guard let stream, !stream.isOpen else { return begins() }
            let call = BlockingCall()
            stream.willOpen(as: call)
            guard operation.mayCall(number, call) else {
                stream.willOpen(as: nil)
                return operation.handle(.workStopped(number))
            }
            stream.open(as: call) { failure in
                if let failure { then(.failure(failure)) } else { begins() }
            }
        }
        guard self.request != nil, request.bodyStream != nil else { return opens(request) }
        operation.callUserCode(number) { () -> Result<TransferRequest, URLError> in
            do throws(URLError) {
                // Only the body is new: the rest may have a token that the operation's own request has not.
                var again = request.urlRequest
                again.httpBodyStream = try operation.replayedRequest().httpBodyStream
                return .success(.foundation(again))
            } catch {
                return .failure(error)
            }
        } then: { result in
            switch result {
            case .success(let request): opens(request)
            case .failure(let error): then(.failure(error))
            }
        }
    }

    /// Sets whose callbacks count, before the connection is started.
    func expectCallbacks(of connection: any Connection) { self.connection = ObjectIdentifier(connection) }

    /// The operation, if the connection is that of the current try.
    func operation(for connection: any Connection) -> URLConnectionOperation? {
        self.connection == ObjectIdentifier(connection) ? operation : nil
    }

    /// Whether the try is under way, so that what it waits for may be lifted. On the network thread.
    func isLive(_ number: Lifecycle.TryNumber) -> Bool { liveNumber.load(ordering: .acquiring) == Int(number) }

    /// Forgets a try that does not begin after all.
    func abandonTry() {
        liveNumber.store(-1, ordering: .releasing)
        operation = nil
    }

    /// Delivers the response of the last try, which was held back until somebody had answered.
    func deliverHeldResponse(_ number: Lifecycle.TryNumber, of operation: URLConnectionOperation) {
        self.operation = operation
        self.number = number
        // A stop that came first has found nothing to give up.
        if operation.lifecycle.value.isEnding { return carryOut(.stopped) }
        succeed(isFinal: true)
    }

    /// Lets the next tries run over another transport.
    func use(_ transport: any Transport) { stream?.perform = { transport.perform($0) } }

    /// Notes that the stream is about to commit. Called under the operation's lock, so that whoever discards the transfer
    /// finds the call.
    func willCommit(as call: BlockingCall) { stream?.willCommit(as: call) }

    /// Puts the bytes in the stream in their final place. Any thread.
    ///
    /// - Parameter then: called on a worker thread, unless the call is given up.
    func commit(as call: BlockingCall, then: @escaping @Sendable ((any Error)?) -> Void) {
        stream?.commit(as: call, then: then)
    }

    /// Closes the stream and releases the operation, which has finished.
    func discard() {
        (operation, closing, waiting, undecided) = (nil, nil, nil, nil)
        diverted.take()?.discard()
        stream?.discard()
    }

    // MARK: The connection's delegate

    func connection(_ connection: any Connection, didReceive response: ResponseHead) {
        guard let operation = operation(for: connection), afterCancel == nil else { return connection.cancel() }
        let isQuestion = response.asksForCredentials
        if isQuestion { noteRedirection(connection) }
        tellStory(of: operation, response, connection)
        if isAuthorized, let error = operation.proofFailure(of: response) { return stop(connection, then: .fail(error)) }
        // One that asks to be left alone closes the gate, too: it says for how long.
        // What the cache says, says nothing of the host.
        let isOfHost = response.cacheUse == nil || response.cacheUse == .validated
        if operation.reportsAnswer, isOfHost, response.statusCode != 429, response.statusCode != 503 {
            operation.hostDidAnswer(operation.hostKey(of: response.url))
        }
        defer {
            counts.bytesReceived.store(setAside?.count ?? offset, ordering: .relaxed)
            counts.bytesExpectedToReceive.store(expectedTotal ?? -1, ordering: .relaxed)
        }
        switch resumption.map({ asksForWhole ? $0.evaluateWhole(response) : $0.evaluate(response) }) ?? .startOver {
        case .append(let whole):
            total = whole
            noteHeadOfWhole(operation)
            operation.delegate(interestedIn: .progress)?.operation(operation, didResumeAt: offset, expected: whole)
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
            setAside = MemoryBody()
            operation.note(response)
        case .startOver:
            let known = resumption?.known(of: response)
            (knownTotal, leastTotal) = (known?.length, known?.received ?? 0)
            // One that tells no length may be a part that calls itself the whole: nothing is added to what it sends.
            asksForWhole = resumption != nil && (!(200..<300).contains(response.statusCode) || response.contentLength == nil)
            if !asksForWhole { resumption = nil }
            operation.note(response)
            if !isQuestion, let delegate = operation.delegate(interestedIn: .responses) {
                return wait(for: delegate, toDecideAbout: response, of: operation, connection)
            }
            // What comes with a question is kept, until it is clear that there is no answer, out of a stream that may not
            // be able to start over.
            if isInMemory || !isQuestion && operation.belongsIntoOutput(response) {
                startOver(with: response, connection)
            } else {
                setAside = MemoryBody()
            }
        }
    }

    private func noteRedirection(_ connection: any Connection) {
        guard let redirected = (connection as? URLConnection)?.redirected else { return }
        var request = redirected.request
        if resumption != nil {
            for name in ["Range", "If-Range"] { request.setValue(nil, forHTTPHeaderField: name) }
        }
        redirection = (request, redirected.followed)
    }

    /// Makes the head of the whole body the response again, even if an error response came in between.
    private func noteHeadOfWhole(_ operation: URLConnectionOperation) {
        if let head { operation.note(head) }
    }

    func startOver(with response: ResponseHead, _ connection: any Connection) {
        head = response
        let hasBody = request?.method != "HEAD" && response.statusCode != 204 && response.statusCode != 304
        total = hasBody && !response.isEncoded ? response.contentLength ?? knownTotal : nil
        // So that no byte of it is fetched in vain.
        if isInMemory, let total, total > memoryLimit { return stop(connection, then: .fail(tooLarge)) }
        guard let stream else { return memory.startOver(expecting: total) }
        command(stream, for: connection) { then in
            stream.rewind { failure in
                if failure == nil { stream.accept(response) }
                then(failure)
            }
        }
    }

    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {
        guard afterCancel == nil, let operation = operation(for: connection) else { return }
        let received = (setAside?.count ?? offset) + Int64(data.count)
        if isInMemory || setAside != nil, received > memoryLimit {
            return stop(connection, then: .fail(tooLarge))
        }
        if setAside != nil {
            setAside?.append(data)
        } else {
            // More bytes than the range announced: nothing that the response says can be trusted.
            if resumption != nil, !asksForWhole, let total, received > total { return stop(connection, then: .askForWhole) }
            if let stream {
                command(stream, for: connection) { stream.write(data, then: $0) }
                guard afterCancel == nil else { return }
                if stream.isPaced { waitForRoom(in: stream, operation, connection) }
            } else {
                memory.append(data)
            }
        }
        counts.bytesReceived.store(received, ordering: .relaxed)
        if operation.onlookers.contains(.delegate) { tell(operation.delegate, of: data, received, operation, connection) }
        guard operation.onlookers.contains(.progress) else { return }
        operation.progressReport.noteDownload(
            Int64(data.count), total: received, expected: expectedTotal, of: operation)
    }

    func connection(
        _ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?
    ) {
        guard let operation = operation(for: connection) else { return }
        counts.bytesSent.store(total, ordering: .relaxed)
        counts.bytesExpectedToSend.store(totalExpected ?? -1, ordering: .relaxed)
        operation.delegate(interestedIn: .progress)?
            .operation(operation, didSend: Int64(count), total: total, expected: totalExpected)
        guard operation.onlookers.contains(.progress) else { return }
        operation.progressReport.noteUpload(Int64(count), total: total, expected: totalExpected, of: operation)
    }

    func connection(
        _ connection: any Connection, willFollow redirect: Redirect,
        decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        guard let operation = operation(for: connection) else { return decide(nil) }
        operation.decide(about: redirect, number, decide)
    }

    func connection(_ connection: any Connection, didHandle redirect: RedirectEvent) {
        operation(for: connection)?.note(redirect)
    }

    func connectionDidFinish(_ connection: any Connection) { end(connection, .finished) }

    func connection(_ connection: any Connection, didFailWith error: URLError) {
        if self.connection == ObjectIdentifier(connection) { noteRedirection(connection) }
        end(connection, .failed(error))
    }

    func connectionDidCancel(_ connection: any Connection) { end(connection, .cancelled) }

    // MARK: Ending

    /// The connection has ended. That is told when its sink is no longer busy, so that the offset is right, and after a
    /// decision about its response; at once if the operation is ending anyway.
    private func end(_ connection: any Connection, _ ending: Ending) {
        guard self.connection == ObjectIdentifier(connection) else { return }
        self.connection = nil
        waiting = nil
        if operation?.lifecycle.value.isEnding == true { return carryOut(flow.handle(.stop)) }
        self.ending = ending
        // Once its end is told, the transfer belongs to whoever begins the next try.
        guard undecided != nil else { return carryOut(flow.handle(.end)) }
        _ = flow.handle(.end)
        // There is nothing left to decide about, unless the response is whole.
        if case .finished = ending, afterCancel == nil { return awaitDecision() }
        undecided = nil
        diverted.take()?.discard()
        carryOut(flow.handle(.lift(.decision)))
    }

    /// Ends a try of an operation that is ending, though somebody's code is still at work. On the network thread.
    func giveUp(_ number: Lifecycle.TryNumber) {
        // The end of a connection that is being cancelled finds the operation ending.
        guard self.number == number, connection == nil else { return }
        if let current = closing.take() { current.transferDidStop() } else { carryOut(flow.handle(.stop)) }
    }

    func carryOut(_ action: TransferState.Action) {
        switch action {
        case .nothing, .drain: return
        case .run: waiting.take()?.resumeReceiving()
        case .end:
            liveNumber.store(-1, ordering: .releasing)
            conclude(ending)
        case .stopped:
            liveNumber.store(-1, ordering: .releasing)
            (undecided, waiting) = (nil, nil)
            diverted.take()?.discard()
            takeOperation()?.transferDidStop()
        }
    }

    /// Ends the try. A decision made before (`afterCancel`) counts, even if the connection ended before it was cancelled.
    private func conclude(_ ending: Ending) {
        switch (afterCancel, ending) {
        case (nil, .finished), (.succeed, _): succeed()
        case (nil, .failed(let error)), (.fail(let error), _): fail(error)
        case (nil, .cancelled): takeOperation()?.transferDidStop()
        case (.askForWhole, _):
            asksForWhole = true
            takeOperation()?.transferMustRepeat()
        }
    }

    /// The receiver of the end of the try; nil after the first call.
    func takeOperation() -> OperationTry? {
        operation.take().map { OperationTry(operation: $0, number: number) }
    }

    func stop(_ connection: any Connection, then: AfterCancel) {
        guard afterCancel == nil else { return }
        afterCancel = then
        connection.cancel()
    }

    /// - Parameter isFinal: whether it was decided before that this response is the result.
    private func succeed(isFinal: Bool = false) {
        if setAside == nil, let total, offset != total {
            return fail(
                URLError(.networkConnectionLost, url: request?.url, "\(offset) of \(total) bytes have arrived."))
        }
        if setAside == nil, offset < leastTotal {
            return fail(
                URLError(.networkConnectionLost, url: request?.url, "Fewer bytes have arrived than before."))
        }
        guard let current = takeOperation() else { return }
        let head = setAside == nil ? self.head : current.operation.currentHead
        // Before the stream is closed: a retry continues with it.
        if !isFinal, current.retriesInstead(of: head) { return }
        guard let stream else {
            return current.conclude(data: setAside?.data ?? memory.data, head: head, error: nil)
        }
        guard let setAside, let head, current.operation.belongsIntoOutput(head) else {
            return close(stream, current, head, data: self.setAside?.data)
        }
        // The operation accepts any status, so this body is its response, and replaces the partial body in the stream.
        stream.rewind { _ in }
        setAside.data.withUnsafeBytes { stream.write($0) { _ in } }
        close(stream, current, head, data: nil)
    }

    /// Closes the stream, or waits for it if it stays open until the response is accepted, and ends the try.
    private func close(_ stream: StreamSink, _ current: OperationTry, _ head: ResponseHead?, data: Data?) {
        closing = current
        let then: (URLError?) -> Void = { [self] failure in
            guard let current = closing.take() else { return }
            if let failure {
                current.conclude(data: nil, head: nil, error: failure)
            } else {
                current.conclude(data: data, head: head, error: nil)
            }
        }
        if stream.commits { stream.flush(then: then) } else { stream.close(then: then) }
    }

    private var tooLarge: URLError {
        let error = URLError(
            .dataLengthExceedsMaximum, url: request?.url,
            "The body is longer than the limit of \(memoryLimit) bytes in memory.")
        var userInfo = error.userInfo
        userInfo[URLResponseSerializationErrorKey.limit] = ResponseLimitExceeded.bodySize
        return URLError(error.code, describedBy: userInfo)
    }

    func fail(_ error: URLError) {
        takeOperation()?.conclude(data: nil, head: nil, error: error)
    }

    /// The length of the arriving body, as shown to the user.
    var expectedTotal: Int64? {
        guard setAside != nil else { return total }
        guard let shown = operation?.currentHead, !shown.isEncoded else { return nil }
        return shown.contentLength
    }
}
