import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// What a transfer waits for: a decision about its response, a delegate or a reader that has enough bytes, and a sink
/// that is busy.
extension OperationTransfer {
    /// Lets the connection wait, until the hold is lifted.
    private func hold(_ hold: TransferHolds, _ connection: any Connection) {
        if waiting == nil {
            connection.suspendReceiving()
            waiting = connection
        }
        carryOut(flow.handle(.hold(hold)))
        carryOut(flow.handle(.refused))
    }

    /// A block that lifts a hold of the current try, on any thread.
    private func lifting(
        _ hold: TransferHolds, of operation: URLConnectionOperation
    ) -> @Sendable () -> Void {
        let (number, transport) = (number, operation.core.withLock { $0.openCarrier() })
        return { [self] in
            transport.perform { [self] in
                if isLive(number) { carryOut(flow.handle(.lift(hold))) }
            }
        }
    }

    // MARK: Decisions about a response

    /// Lets the transfer wait until somebody has decided about the response.
    func wait(
        for delegate: any OperationDelegate, toDecideAbout response: ResponseHead, of operation: URLConnectionOperation,
        _ connection: any Connection
    ) {
        hold(.decision, connection)
        undecided = (connection, response)
        let (number, carrier) = (number, operation.core.withLock { $0.openCarrier() })
        delegate.operation(operation, didReceive: response) { [self] decision in
            carrier.perform { [self] in decided(decision, number) }
        }
    }

    private func decided(_ decision: ResponseDecision, _ number: Lifecycle.TryNumber) {
        // A try that was stopped meanwhile asks for the response again, and somebody decides about that one.
        guard isLive(number), let operation, let (connection, response) = undecided.take() else { return }
        switch decision {
        case .cancel:
            stop(
                connection, then: .fail(URLError(.cancelled, url: request?.url, "The response was refused by its handler.")))
        case .divert(let box) where isInMemory: return divert(box, response, connection, operation)
        case .allow, .divert:
            if isInMemory || operation.belongsIntoOutput(response) {
                startOver(with: response, connection)
            } else {
                setAside = MemoryBody()
            }
        }
        carryOut(flow.handle(.lift(.decision)))
    }

    /// Lets the body go into a stream. The transfer waits until it is open.
    private func divert(
        _ box: OutputStreamBox, _ response: ResponseHead, _ connection: any Connection,
        _ operation: URLConnectionOperation
    ) {
        let (number, carrier) = (number, operation.core.withLock { $0.openCarrier() })
        let sink = StreamSink(stream: box.stream, url: request?.url) { carrier.perform($0) }
        diverted = sink
        let old = operation.core.withLock { core in
            defer { core.outputStream = box }
            return core.outputStream
        }
        withExtendedLifetime(old) {}
        undecided = (connection, response)
        let call = BlockingCall()
        sink.willOpen(as: call)
        sink.open(as: call, on: { carrier.perform($0) }) { [self] failure in
            guard isLive(number), let (connection, response) = undecided.take() else { return }
            stream = diverted.take()
            if let failure { stop(connection, then: .fail(failure)) } else { startOver(with: response, connection) }
            carryOut(flow.handle(.lift(.decision)))
        }
    }

    /// The connection has ended before somebody has decided about its response. Whoever stops the try stops the waiting.
    func awaitDecision() {
        guard let operation else { return }
        let (number, carrier) = (number, operation.core.withLock { $0.openCarrier() })
        let handle = WorkHandle(request: operation.request) { [self] in
            carrier.perform { [self] in
                if isLive(number) { carryOut(flow.handle(.stop)) }
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
        let waits = delegate.operation(operation, didReceive: data, then: lifting(.delegate, of: operation))
        if waits { hold(.delegate, connection) }
    }

    // MARK: A slow reader

    /// Suspends the connection if the reader of the stream has enough for now.
    func waitForRoom(in stream: StreamSink, _ operation: URLConnectionOperation, _ connection: any Connection) {
        if stream.waitsForRoom(then: lifting(.reader, of: operation)) { hold(.reader, connection) }
    }

    // MARK: A slow sink

    /// Gives the sink a command, and suspends the connection until it is done.
    func command(
        _ sink: StreamSink, for connection: any Connection, _ give: (@escaping (URLError?) -> Void) -> Void
    ) {
        give { [self] failure in
            if let failure {
                stop(connection, then: .fail(failure))
                // However the transfer ended meanwhile, bytes are missing.
                afterCancel = .fail(failure)
            }
            if !sink.isBusy { carryOut(flow.handle(.lift(.sink))) }
        }
        if sink.isBusy { hold(.sink, connection) }
    }
}
