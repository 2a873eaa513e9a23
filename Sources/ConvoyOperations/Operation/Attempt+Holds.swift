import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// What an attempt's transfer waits for: a decision about its response, a delegate or a reader that has enough bytes, and
/// a sink that is busy.
extension Attempt {
    /// Lets the connection wait, until the hold is lifted.
    private func hold(_ hold: TransferHolds, _ connection: any Connection) {
        if waiting == nil {
            connection.suspendReceiving()
            waiting = connection
        }
        carryOut(flow.handle(.hold(hold)))
        carryOut(flow.handle(.refused))
    }

    /// A block that lifts a hold, on any thread.
    private func lifting(_ hold: TransferHolds) -> @Sendable () -> Void {
        let carrier = carrier
        return { [self] in
            carrier?.perform { [self] in
                if isLive { carryOut(flow.handle(.lift(hold))) }
            }
        }
    }

    /// Whether what it waits for may be lifted. On the network thread.
    private var isLive: Bool { !flow.isOver }

    // MARK: Decisions about a response

    /// Lets the transfer wait until a delegate has decided about the response.
    func wait(
        for delegate: any OperationDelegate, toDecideAbout response: ResponseHead, of operation: URLConnectionOperation,
        _ connection: any Connection
    ) {
        hold(.decision, connection)
        undecided = (connection, response)
        let carrier = carrier
        delegate.operation(operation, didReceive: response) { [self] decision in
            carrier?.perform { [self] in decided(decision) }
        }
    }

    private func decided(_ decision: ResponseDecision) {
        // When an attempt was stopped meanwhile, the next one asks for the response again, and that is decided about.
        guard isLive, let operation, let (connection, response) = undecided.take() else { return }
        switch decision {
        case .cancel:
            let error = URLError(.cancelled, url: body.request?.url, "The response was refused by its handler.")
            stop(connection, then: .fail(error))
        case .divert(let sink) where body.isInMemory: return divert(to: sink, response, connection, operation)
        case .allow, .divert:
            if body.isInMemory || operation.belongsIntoOutput(response) {
                startOver(with: response, connection)
            } else {
                body.putAside()
            }
        }
        carryOut(flow.handle(.lift(.decision)))
    }

    /// Lets the body go into a sink. The transfer waits until it is open.
    private func divert(
        to sink: any BodySink, _ response: ResponseHead, _ connection: any Connection,
        _ operation: URLConnectionOperation
    ) {
        let carrier = carrier
        let queue = SinkQueue(sink, url: body.request?.url, on: carrier)
        diverted = queue
        operation.setBodySink(sink)
        undecided = (connection, response)
        let call = BlockingCall()
        queue.willOpen(as: call)
        queue.open(as: call, on: { carrier?.perform($0) }) { [self] failure in
            guard isLive, let (connection, response) = undecided.take() else { return }
            body.place(in: diverted.take())
            if let failure { stop(connection, then: .fail(failure)) } else { startOver(with: response, connection) }
            carryOut(flow.handle(.lift(.decision)))
        }
    }

    /// The connection has ended before the decision about its response. What stops the attempt stops the waiting.
    func awaitDecision() {
        guard let operation else { return }
        let carrier = carrier
        let stop: @Sendable () -> Void = { [self] in
            carrier?.perform { [self] in
                if isLive { carryOut(flow.handle(.stop)) }
            }
        }
        if !operation.advance(self, to: .working(stop: stop)) { stop() }
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
        let waits = delegate.operation(operation, didReceive: data, then: lifting(.delegate))
        if waits { hold(.delegate, connection) }
    }

    // MARK: A slow reader

    /// Suspends the connection if the reader of the sink has enough for now.
    func waitForRoom(in sink: any BodySink, _ connection: any Connection) {
        if sink.waitsForRoom(then: lifting(.reader)) { hold(.reader, connection) }
    }

    // MARK: A slow sink

    /// Gives the sink a command, and suspends the connection until it is done.
    func command(
        _ sink: SinkQueue, for connection: any Connection, _ give: (@escaping (URLError?) -> Void) -> Void
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
