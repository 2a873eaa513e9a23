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
    private var operation: URLConnectionOperation?
    private let sink: any BodySink
    let isInMemory: Bool
    /// The body of a response that does not belong into the output stream.
    private var aside: MemorySink?
    private var request: URLRequest?
    /// The head that the bytes in the sink belong to.
    private var head: ResponseHead?
    private var memoryLimit = Int64.max
    /// What the present try was asked with.
    private var resumption: Resumption?
    private var asksForWhole = false
    /// Set when the connection is cancelled by us, and not because the operation was asked to stop.
    private var afterCancel: AfterCancel?
    private var endsAfterWrite: (() -> Void)?

    private enum AfterCancel {
        case askForWhole
        case succeed
        case fail(URLError)
    }

    init(url: URL?, output: OutputStream?, transport: any Transport) {
        isInMemory = output == nil
        if let output {
            sink = StreamSink(stream: output, url: url) { transport.perform($0) }
        } else {
            sink = MemorySink()
        }
    }

    // MARK: Beginning a try

    func prepareForTry(of operation: URLConnectionOperation) throws(URLError) {
        let request = try operation.requestForTry(isFirst: self.request == nil)
        self.operation = operation
        self.request = request
        memoryLimit = Int64(operation.memoryLimit)
        try sink.open()
        (sink as? StreamSink)?.whenReady = { [weak self] in self?.written($0) }
        resumption =
            asksForWhole ? nil : Resumption(after: head, of: request, offset: sink.offset)
        aside = nil
        afterCancel = nil
    }

    /// The request of this try: for the rest of the body, or for the whole.
    func nextRequest(_ given: URLRequest) -> URLRequest {
        let request = self.request ?? given
        return resumption?.request(request) ?? request
    }

    /// The try does not begin after all.
    func abandonTry() { operation = nil }

    /// The operation has finished: nothing of the work is needed any more.
    func discard() {
        operation = nil
        sink.close { _ in }
    }

    // MARK: The connection's delegate

    func connection(_ connection: any Connection, didReceive response: ResponseHead) {
        guard let operation else { return connection.cancel() }
        let verdict = resumption?.judge(response) ?? .startOver
        switch verdict {
        case .append: return  // the head stays that of the whole
        case .alreadyComplete: return stop(connection, then: .succeed)
        case .askForWhole: return stop(connection, then: .askForWhole)
        case .unrelated:
            aside = MemorySink()
            operation.note(response)
        case .startOver:
            resumption = nil
            operation.note(response)
            guard isInMemory || operation.belongsIntoOutput(response) else {
                aside = MemorySink()
                return
            }
            do throws(URLError) {
                try sink.rewind()
                head = response
                guard let length = response.contentLength, !response.isEncoded else { return }
                // Not a byte of it is fetched in vain.
                if isInMemory, length > memoryLimit { return stop(connection, then: .fail(tooLarge)) }
                sink.expect(length)
            } catch {
                stop(connection, then: .fail(error))
            }
        }
    }

    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {
        guard afterCancel == nil, let operation else { return }
        if isInMemory || aside != nil, (aside ?? sink).offset + Int64(data.count) > memoryLimit {
            return stop(connection, then: .fail(tooLarge))
        }
        do throws(URLError) {
            if let aside {
                _ = aside.write(data)
            } else if try sink.write(data) == .later {
                connection.suspendReceiving()
                suspended = connection
            }
        } catch {
            return stop(connection, then: .fail(error))
        }
        operation.progressReport.noteDownload(
            Int64(data.count), total: aside?.offset ?? sink.offset, expected: expectedTotal, of: operation)
    }

    func connection(
        _ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?
    ) {
        guard let operation else { return }
        operation.progressReport.noteUpload(Int64(count), total: total, expected: totalExpected, of: operation)
    }

    func connection(
        _ connection: any Connection, willFollow redirect: Redirect,
        decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        guard let operation else { return decide(nil) }
        var next = redirect.request
        if let stream = next.httpBodyStream as? any ReplayableBodyStream, let fresh = try? stream.replay() {
            next.httpBodyStream = fresh
        }
        guard let handler = operation.redirectHandler else { return decide(next) }
        let queue = operation.completionQueue ?? OperationQueues.processing
        let proposed = next
        queue.async { decide(handler(operation, proposed, redirect.response.urlResponse)) }
    }

    func connectionDidFinish(_ connection: any Connection) { end { $0.succeed() } }

    func connection(_ connection: any Connection, didFailWith error: URLError) { end { $0.fail(error) } }

    func connectionDidCancel(_ connection: any Connection) {
        end { $0.takeOperation()?.transferDidStop() }
    }

    // MARK: Ending

    /// The connection has ended. What was decided before counts, even where its end came first.
    private func end(_ otherwise: @escaping (OperationTransfer) -> Void) {
        whenWritten { [self] in
            switch afterCancel {
            case nil: otherwise(self)
            case .succeed: succeed()
            case .fail(let error): fail(error)
            case .askForWhole:
                asksForWhole = true
                takeOperation()?.transferMustRepeat()
            }
        }
    }

    private func takeOperation() -> URLConnectionOperation? { operation.take() }

    private func stop(_ connection: any Connection, then: AfterCancel) {
        guard afterCancel == nil else { return }
        afterCancel = then
        connection.cancel()
    }

    private func succeed() {
        if let total = resumption?.total, aside == nil, sink.offset != total {
            return fail(
                URLError(
                    .networkConnectionLost, url: request?.url, "\(sink.offset) of \(total) bytes have arrived."))
        }
        let data = aside?.data ?? sink.data
        let head = aside == nil ? self.head : operation?.currentHead
        let operation = takeOperation()
        sink.close { failure in
            if let failure {
                operation?.conclude(data: nil, head: nil, error: failure)
            } else {
                operation?.conclude(data: data, head: head, error: nil)
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
        guard let shown = aside == nil ? head : operation?.currentHead, !shown.isEncoded else { return nil }
        return shown.contentLength
    }

    // MARK: Slow streams

    private var suspended: (any Connection)?

    private func written(_ failure: URLError?) {
        let connection = suspended
        suspended = nil
        if let failure, afterCancel == nil {
            afterCancel = .fail(failure)
            connection?.cancel()
        }
        if let end = endsAfterWrite {
            endsAfterWrite = nil
            // However the transfer ended meanwhile: bytes are missing.
            if let failure { fail(failure) } else { end() }
        } else if failure == nil {
            connection?.resumeReceiving()
        }
    }

    /// Ends the try when the last bytes are where they belong: the offset is read after that.
    private func whenWritten(_ end: @escaping () -> Void) {
        guard let stream = sink as? StreamSink, stream.isBusy else { return end() }
        endsAfterWrite = end
    }
}
