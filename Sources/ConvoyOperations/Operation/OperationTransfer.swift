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
    /// The range that the current try asked for.
    @exclusivity(unchecked) private var resumption: Resumption?
    /// Whether an answer to a range was unusable. Tries then request the whole body, until it begins to arrive.
    @exclusivity(unchecked) private var asksForWhole = false
    /// What to do after the connection was cancelled from here, and not because the operation was asked to stop.
    @exclusivity(unchecked) var afterCancel: AfterCancel?
    /// The request that the redirects of the current try have led to, and how many there were; nil without any, or where
    /// they do not matter any more. Without the range of a resumption.
    @exclusivity(unchecked) private(set) var redirection: (request: URLRequest, followed: Int)?
    /// The connection that waits for the sink.
    @exclusivity(unchecked) var suspended: (any Connection)?
    /// How to end the try once the sink is no longer busy.
    @exclusivity(unchecked) var endsAfterSink: (() -> Void)?

    /// The connection that waits for the delegate.
    @exclusivity(unchecked) var delayed: (any Connection)?
    /// The connection that waits for the reader of the stream.
    @exclusivity(unchecked) var crowded: (any Connection)?
    /// The response about which somebody is to decide, and its connection, which waits.
    @exclusivity(unchecked) var undecided: (connection: any Connection, response: ResponseHead)?

    /// The response that monitors know of, until the end of its request.
    @exclusivity(unchecked) var respondedHead: ResponseHead?

    private let counts = TransferCounts()

    enum AfterCancel {
        case askForWhole
        case succeed
        case fail(URLError)
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
        resumption = nil
        setAside = nil
        afterCancel = nil
        redirection = nil
        (delayed, crowded, undecided) = (nil, nil, nil)
        guard let head, !asksForWhole else { return request }
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
            guard let stream else { return begins() }
            stream.open { failure in
                if let failure { then(.failure(failure)) } else { begins() }
            }
        }
        guard self.request != nil, request.bodyStream != nil else { return opens(request) }
        BlockingWorkers.shared.perform {
            do throws(URLError) {
                // Only the body is new: the rest may have a token that the operation's own request has not.
                var again = request.urlRequest
                again.httpBodyStream = try operation.replayedRequest().httpBodyStream
                opens(.foundation(again))
            } catch {
                then(.failure(error))
            }
        }
    }

    /// Sets whose callbacks count, before the connection is started.
    func expectCallbacks(of connection: any Connection) { self.connection = ObjectIdentifier(connection) }

    /// The operation, if the connection is that of the current try.
    func operation(for connection: any Connection) -> URLConnectionOperation? {
        self.connection == ObjectIdentifier(connection) ? operation : nil
    }

    /// Forgets a try that does not begin after all.
    func abandonTry() { operation = nil }

    /// Delivers the response of the last try, which was held back until somebody had answered.
    func deliverHeldResponse(_ number: Lifecycle.TryNumber, of operation: URLConnectionOperation) {
        self.operation = operation
        self.number = number
        succeed(isFinal: true)
    }

    /// Lets the next tries run over another transport.
    func use(_ transport: any Transport) { stream?.perform = { transport.perform($0) } }

    /// Closes the stream and releases the operation, which has finished.
    func discard() {
        operation = nil
        stream?.close { _ in }
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
        switch resumption?.evaluate(response) ?? .startOver {
        case .append(let whole):
            total = whole
            noteHeadOfWhole(operation)
            operation.delegate(interestedIn: .progress)?.operation(operation, didResumeAt: offset, expected: whole)
        case .alreadyComplete:
            noteHeadOfWhole(operation)
            stop(connection, then: .succeed)
        case .askForWhole: stop(connection, then: .askForWhole)
        case .unrelated:
            setAside = MemoryBody()
            operation.note(response)
        case .startOver:
            resumption = nil
            asksForWhole = false
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
        total = hasBody && !response.isEncoded ? response.contentLength : nil
        // So that no byte of it is fetched in vain.
        if isInMemory, let total, total > memoryLimit { return stop(connection, then: .fail(tooLarge)) }
        guard let stream else { return memory.startOver(expecting: total) }
        ask(of: connection) { then in
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
            if resumption != nil, let total, received > total { return stop(connection, then: .askForWhole) }
            if let stream {
                ask(of: connection) { stream.write(data, then: $0) }
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

    func connectionDidFinish(_ connection: any Connection) {
        guard self.connection == ObjectIdentifier(connection), undecided != nil, afterCancel == nil else {
            return end(connection) { $0.succeed() }
        }
        self.connection = nil
        endsUndecided { $0.succeed() }
    }

    func connection(_ connection: any Connection, didFailWith error: URLError) {
        if self.connection == ObjectIdentifier(connection) { noteRedirection(connection) }
        end(connection) { $0.fail(error) }
    }

    func connectionDidCancel(_ connection: any Connection) {
        end(connection) { $0.takeOperation()?.transferDidStop() }
    }

    // MARK: Ending

    /// Handles the end of the connection. A decision made before (`afterCancel`) counts, even if the connection ended
    /// before it was cancelled. The offset is read after the sink has finished its pending write.
    private func end(_ connection: any Connection, _ otherwise: @escaping (OperationTransfer) -> Void) {
        guard self.connection == ObjectIdentifier(connection) else { return }
        self.connection = nil
        undecided = nil
        // A cancelled operation does not wait for a pipe that nobody reads; its bytes are not needed.
        if stream?.isBusy == true, operation?.lifecycle.value.isCancelled != true {
            endsAfterSink = { [self] in conclude(otherwise) }
        } else {
            conclude(otherwise)
        }
    }

    func conclude(_ otherwise: (OperationTransfer) -> Void) {
        switch afterCancel {
        case nil: otherwise(self)
        case .succeed: succeed()
        case .fail(let error): fail(error)
        case .askForWhole:
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
        stream.rewind { [self] failure in
            if let failure { return current.conclude(data: nil, head: nil, error: failure) }
            setAside.data.withUnsafeBytes { bytes in
                stream.write(bytes) { [self] failure in
                    if let failure { return current.conclude(data: nil, head: nil, error: failure) }
                    close(stream, current, head, data: nil)
                }
            }
        }
    }

    private func close(_ stream: StreamSink, _ current: OperationTry, _ head: ResponseHead?, data: Data?) {
        // The stream stays open until the response is accepted.
        if stream.commits { return current.conclude(data: data, head: head, error: nil) }
        stream.close { failure in
            if let failure {
                current.conclude(data: nil, head: nil, error: failure)
            } else {
                current.conclude(data: data, head: head, error: nil)
            }
        }
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
