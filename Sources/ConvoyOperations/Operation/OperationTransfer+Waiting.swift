import ConvoyTransport
import Foundation
import FoundationNetworking

/// What a transfer waits for: a decision about its response, a delegate or a reader that has enough bytes, and a sink
/// that is busy.
extension OperationTransfer {
    // MARK: Decisions about a response

    /// Lets the transfer wait until somebody has decided about the response.
    func wait(
        for delegate: any OperationDelegate, toDecideAbout response: ResponseHead, of operation: URLConnectionOperation,
        _ connection: any Connection
    ) {
        connection.suspendReceiving()
        undecided = (connection, response)
        let (number, carrier) = (number, operation.core.withLock { $0.openCarrier() })
        delegate.operation(operation, didReceive: response) { [self] decision in
            carrier.perform { [self] in decided(decision, number) }
        }
    }

    private func decided(_ decision: ResponseDecision, _ number: Lifecycle.TryNumber) {
        // A try that was stopped meanwhile asks for the response again, and somebody decides about that one.
        guard self.number == number, let operation, let (connection, response) = undecided.take() else { return }
        switch decision {
        case .cancel:
            refuse(connection, URLError(.cancelled, url: request?.url, "The response was refused by its handler."))
        case .divert(let box) where isInMemory: divert(box, response, connection, operation)
        case .allow, .divert:
            if isInMemory || operation.belongsIntoOutput(response) {
                startOver(with: response, connection)
            } else {
                setAside = MemoryBody()
            }
            goOn(connection)
        }
    }

    /// Lets the body go into a stream. The transfer waits until it is open.
    private func divert(
        _ box: OutputStreamBox, _ response: ResponseHead, _ connection: any Connection,
        _ operation: URLConnectionOperation
    ) {
        let (number, carrier) = (number, operation.core.withLock { $0.openCarrier() })
        let opening = OpeningSink(
            sink: StreamSink(stream: box.stream, url: request?.url) { carrier.perform($0) })
        operation.core.withLock { $0.outputStream = box }
        undecided = (connection, response)
        opening.sink.open { [self] failure in
            carrier.perform { [self] in
                guard self.number == number, let (connection, response) = undecided.take() else { return }
                stream = opening.sink
                if let failure { return refuse(connection, failure) }
                startOver(with: response, connection)
                goOn(connection)
            }
        }
    }

    /// Passes a sink on to the thread that opens it, and back to the network thread.
    private struct OpeningSink: @unchecked Sendable { let sink: StreamSink }

    private func refuse(_ connection: any Connection, _ error: URLError) {
        stop(connection, then: .fail(error))
        // One that has ended already tells nothing any more.
        endsAfterSink.take()?()
    }

    /// Lets a transfer go on that waited for a decision, or ends it, if it has ended meanwhile. One that waits for its sink
    /// goes on after that.
    private func goOn(_ connection: any Connection) {
        guard stream?.isBusy != true else { return }
        if let end = endsAfterSink.take() { end() } else { resume(connection) }
    }

    /// Lets a transfer go on, if nobody else has it wait.
    private func resume(_ connection: any Connection) {
        if stream?.isBusy != true, delayed == nil, crowded == nil { connection.resumeReceiving() }
    }

    /// The connection has ended before somebody has decided about its response. Whoever stops the try stops the waiting.
    func endsUndecided(_ end: @escaping (OperationTransfer) -> Void) {
        guard let operation else { return }
        endsAfterSink = { [self] in conclude(end) }
        let (number, carrier) = (number, operation.core.withLock { $0.openCarrier() })
        let handle = WorkHandle(request: operation.request) { [self] in
            carrier.perform { [self] in
                guard self.number == number, undecided.take() != nil else { return }
                endsAfterSink = nil
                takeOperation()?.transferDidStop()
            }
        }
        if !operation.core.withLock({ $0.workSlot.reconnect(number, handle) }) { handle.cancel() }
    }

    // MARK: A slow receiver

    /// Tells the delegate of bytes, and suspends the connection if it has enough of them.
    func tell(
        _ delegate: (any OperationDelegate)?, of data: UnsafeRawBufferPointer, _ received: Int64,
        _ operation: URLConnectionOperation, _ connection: any Connection
    ) {
        guard let delegate else { return }
        let interests = delegate.interests(in: operation)
        if interests.contains(.progress) {
            delegate.operation(operation, didReceive: Int64(data.count), total: received, expected: expectedTotal)
        }
        guard interests.contains(.data) else { return }
        let (number, carrier) = (number, operation.core.withLock { $0.openCarrier() })
        let waits = delegate.operation(operation, didReceive: data) { [self] in
            carrier.perform { [self] in
                if self.number == number, let connection = delayed.take() { resume(connection) }
            }
        }
        guard waits else { return }
        connection.suspendReceiving()
        delayed = connection
    }

    // MARK: A slow reader

    /// Suspends the connection if the reader of the stream has enough for now.
    func waitForRoom(in stream: StreamSink, _ operation: URLConnectionOperation, _ connection: any Connection) {
        let (number, carrier) = (number, operation.core.withLock { $0.openCarrier() })
        crowded = connection
        let waits = stream.waitsForRoom { [self] in
            carrier.perform { [self] in
                if self.number == number, let connection = crowded.take() { resume(connection) }
            }
        }
        if waits { connection.suspendReceiving() } else { crowded = nil }
    }

    // MARK: A slow sink

    /// Calls the sink, and suspends the connection until it is done.
    func ask(of connection: any Connection, _ request: (@escaping (URLError?) -> Void) -> Void) {
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
            // However the transfer ended meanwhile, bytes are missing.
            if let failure { fail(failure) } else { end() }
        } else if failure == nil, let connection {
            resume(connection)
        }
    }
}
