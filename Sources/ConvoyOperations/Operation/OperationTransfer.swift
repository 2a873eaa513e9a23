import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The work of an operation between its pauses: keeps the sink, asks for the rest after a pause, judges the answer.
///
/// It belongs to whoever has the operation's work: the thread that begins it, then the network thread. The
/// lifecycle passes it on, so no lock is needed.
final class OperationTransfer: URLConnectionDelegate, @unchecked Sendable {
    /// Held while a try is under way, and not in a pause: a paused operation may be let go of.
    @exclusivity(unchecked) private var operation: URLConnectionOperation?
    /// The try that is under way, and its connection. What another connection still has to say does not count.
    @exclusivity(unchecked) private var number: Lifecycle.TryNumber = 0
    @exclusivity(unchecked) private var connection: ObjectIdentifier?
    /// Where the body goes; in memory where there is none.
    private let stream: StreamSink?
    @exclusivity(unchecked) private var memory = MemoryBody()
    /// The body of a response that does not belong into the output stream, or not to what is there.
    @exclusivity(unchecked) private var setAside: MemoryBody?
    @exclusivity(unchecked) private var request: TransferRequest?
    /// The head that the bytes in the sink belong to.
    @exclusivity(unchecked) private var head: ResponseHead?
    /// How many bytes of body there are in all, as sent: from `head`, or from the answer to a range.
    @exclusivity(unchecked) private var total: Int64?
    @exclusivity(unchecked) private var memoryLimit = Int64.max
    /// What the present try was asked with.
    @exclusivity(unchecked) private var resumption: Resumption?
    /// Whether the server's answer to a range was of no use. Until the whole has begun to come, it is asked for that.
    @exclusivity(unchecked) private var asksForWhole = false
    /// Set when the connection is cancelled by us, and not because the operation was asked to stop.
    @exclusivity(unchecked) private var afterCancel: AfterCancel?
    /// The connection that waits for the sink.
    @exclusivity(unchecked) private var suspended: (any Connection)?
    /// What to do when the sink has done what it was asked for.
    @exclusivity(unchecked) private var endsAfterSink: (() -> Void)?

    private enum AfterCancel {
        case askForWhole
        case succeed
        case fail(URLError)
    }

    init(url: URL?, output: OutputStream?, transport: any Transport) {
        stream = output.map { StreamSink(stream: $0, url: url) { transport.perform($0) } }
    }

    var isInMemory: Bool { stream == nil }

    /// How many bytes of the body are kept so far.
    private var offset: Int64 { stream?.offset ?? memory.count }

    // MARK: Beginning a try

    /// Whether a try needs nothing that takes its time: no stream to be opened, no body to be read again.
    var beginsAtOnce: Bool { stream == nil && (request == nil || request?.bodyStream == nil) }

    /// Makes ready for a try. Returns the request to send.
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
        guard let head, !asksForWhole else { return request }
        let whole = request.urlRequest
        resumption = Resumption(after: head, of: whole, offset: offset, total: total)
        return .foundation(resumption?.request(whole) ?? whole)
    }

    /// Makes ready for a try: a body that can be read again, and an open stream.
    ///
    /// - Parameter then: hears of the request to send, at once or on a worker's thread, where no network is held up by
    ///   a stream of the user's.
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
                opens(.foundation(try operation.replayedRequest()))
            } catch {
                then(.failure(error))
            }
        }
    }

    /// Says whose callbacks count, before the connection is started.
    func expectCallbacks(of connection: any Connection) { self.connection = ObjectIdentifier(connection) }

    /// The operation, for the connection of the present try.
    private func operation(for connection: any Connection) -> URLConnectionOperation? {
        self.connection == ObjectIdentifier(connection) ? operation : nil
    }

    /// The try does not begin after all.
    func abandonTry() { operation = nil }

    /// The operation has finished: nothing of the work is needed any more.
    func discard() {
        operation = nil
        stream?.close { _ in }
    }

    // MARK: The connection's delegate

    func connection(_ connection: any Connection, didReceive response: ResponseHead) {
        guard let operation = operation(for: connection), afterCancel == nil else { return connection.cancel() }
        switch resumption?.evaluate(response) ?? .startOver {
        case .append(let whole):
            total = whole
            noteHeadOfWhole(operation)
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
            if isInMemory || operation.belongsIntoOutput(response) {
                startOver(with: response, connection)
            } else {
                setAside = MemoryBody()
            }
        }
    }

    /// The response is that of the whole body, also where an error's came in between.
    private func noteHeadOfWhole(_ operation: URLConnectionOperation) {
        if let head { operation.note(head) }
    }

    private func startOver(with response: ResponseHead, _ connection: any Connection) {
        head = response
        let hasBody = request?.method != "HEAD" && response.statusCode != 204 && response.statusCode != 304
        total = hasBody && !response.isEncoded ? response.contentLength : nil
        // Not a byte of it is fetched in vain.
        if isInMemory, let total, total > memoryLimit { return stop(connection, then: .fail(tooLarge)) }
        guard let stream else { return memory.startOver(expecting: total) }
        ask(of: connection) { stream.rewind(then: $0) }
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
            // More than the range says: what else it says is not to be trusted either.
            if resumption != nil, let total, received > total { return stop(connection, then: .askForWhole) }
            if let stream {
                ask(of: connection) { stream.write(data, then: $0) }
                guard afterCancel == nil else { return }
            } else {
                memory.append(data)
            }
        }
        guard operation.onlookers.contains(.progress) else { return }
        operation.progressReport.noteDownload(
            Int64(data.count), total: received, expected: expectedTotal, of: operation)
    }

    func connection(
        _ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?
    ) {
        guard let operation = operation(for: connection), operation.onlookers.contains(.progress) else { return }
        operation.progressReport.noteUpload(Int64(count), total: total, expected: totalExpected, of: operation)
    }

    func connection(
        _ connection: any Connection, willFollow redirect: Redirect,
        decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        guard let operation = operation(for: connection) else { return decide(nil) }
        let proposed = redirect.request
        let handler = operation.redirectHandler
        guard handler != nil || proposed.httpBodyStream is any ReplayableBodyStream else { return decide(proposed) }
        // The user's stream and the user's handler may both take their time.
        BlockingWorkers.shared.perform {
            var next = proposed
            if let stream = next.httpBodyStream as? any ReplayableBodyStream, let fresh = try? stream.replay() {
                next.httpBodyStream = fresh
            }
            guard let handler else { return decide(next) }
            let replayed = next
            let answer: @Sendable () -> Void = {
                decide(handler(operation, replayed, redirect.response.urlResponse))
            }
            if let queue = operation.completionQueue { queue.async(execute: answer) } else { answer() }
        }
    }

    func connectionDidFinish(_ connection: any Connection) { end(connection) { $0.succeed() } }

    func connection(_ connection: any Connection, didFailWith error: URLError) { end(connection) { $0.fail(error) } }

    func connectionDidCancel(_ connection: any Connection) {
        end(connection) { $0.takeOperation()?.transferDidStop() }
    }

    // MARK: Ending

    /// The connection has ended. What was decided before counts, even where its end came first. The sink finishes
    /// what it was asked for: the offset is read after that.
    private func end(_ connection: any Connection, _ otherwise: @escaping (OperationTransfer) -> Void) {
        guard self.connection == ObjectIdentifier(connection) else { return }
        self.connection = nil
        // A cancelled operation waits for no pipe that nobody reads; nobody asks for its bytes either.
        if stream?.isBusy == true, operation?.isCancelled != true {
            endsAfterSink = { [self] in conclude(otherwise) }
        } else {
            conclude(otherwise)
        }
    }

    private func conclude(_ otherwise: (OperationTransfer) -> Void) {
        switch afterCancel {
        case nil: otherwise(self)
        case .succeed: succeed()
        case .fail(let error): fail(error)
        case .askForWhole:
            asksForWhole = true
            takeOperation()?.transferMustRepeat()
        }
    }

    /// Whom to tell of the end of the try. Once.
    private func takeOperation() -> OperationTry? {
        operation.take().map { OperationTry(operation: $0, number: number) }
    }

    private func stop(_ connection: any Connection, then: AfterCancel) {
        guard afterCancel == nil else { return }
        afterCancel = then
        connection.cancel()
    }

    private func succeed() {
        if setAside == nil, let total, offset != total {
            return fail(
                URLError(.networkConnectionLost, url: request?.url, "\(offset) of \(total) bytes have arrived."))
        }
        guard let current = takeOperation() else { return }
        let head = setAside == nil ? self.head : current.operation.currentHead
        // While the stream is open: a try that follows goes on with it.
        if current.retriesInstead(of: head) { return }
        guard let stream else {
            return current.conclude(data: setAside?.data ?? memory.data, head: head, error: nil)
        }
        guard let setAside, let head, current.operation.belongsIntoOutput(head) else {
            return close(stream, current, head, data: self.setAside?.data)
        }
        // The operation takes any status: the error's body is its response, and not behind a part of another.
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
        // It stays open until the response is accepted.
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
        return URLError(error.code, userInfo: userInfo)
    }

    private func fail(_ error: URLError) {
        takeOperation()?.conclude(data: nil, head: nil, error: error)
    }

    /// The whole length of what is arriving, as the user sees it.
    private var expectedTotal: Int64? {
        guard setAside != nil else { return total }
        guard let shown = operation?.currentHead, !shown.isEncoded else { return nil }
        return shown.contentLength
    }

    // MARK: A sink that takes its time

    /// Asks something of the sink, and lets the connection rest until it is done.
    private func ask(of connection: any Connection, _ request: (@escaping (URLError?) -> Void) -> Void) {
        request { [self] failure in
            if let failure { stop(connection, then: .fail(failure)) }
            sinkDidFinish(failure)
        }
        guard stream?.isBusy == true else { return }
        connection.suspendReceiving()
        suspended = connection
    }

    private func sinkDidFinish(_ failure: URLError?) {
        let connection = suspended.take()
        if let end = endsAfterSink.take() {
            // However the transfer ended meanwhile: bytes are missing.
            if let failure { fail(failure) } else { end() }
        } else if failure == nil {
            connection?.resumeReceiving()
        }
    }
}
