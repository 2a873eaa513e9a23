import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The reasons to hold an attempt's transfer: a pending decision about its response, a delegate or reader that cannot
/// accept more bytes, and a busy sink.
extension Attempt {
    /// Suspends the connection until the given hold is lifted.
    private func hold(_ hold: TransferHolds, _ connection: any Connection) {
        if rare.waiting == nil {
            connection.suspendReceiving()
            rare.waiting = connection
        }
        carryOut(state.flow.handle(.hold(hold)))
        carryOut(state.flow.handle(.refused))
    }

    /// Returns a closure that lifts a hold. The closure may be called on any thread.
    private func lifting(_ hold: TransferHolds) -> @Sendable () -> Void {
        let transport = transport
        return { [self] in
            transport?.perform { [self] in
                if isLive { carryOut(state.flow.handle(.lift(hold))) }
            }
        }
    }

    /// Whether holds can still be lifted. Called on the network thread.
    private var isLive: Bool { !state.flow.isOver }

    // MARK: Pauses

    /// Holds a transfer whose request must not be sent twice, or ends the transfer if nothing was sent. Called on the
    /// network thread.
    func hold(_ connection: any Connection) {
        guard state.isReceiving else { return }
        // `pause` may report the end of the connection before it returns.
        _ = state.decide(.sendLater)
        if connection.pause() { state.withdraw() }
    }

    /// Continues a held transfer. Called on the network thread.
    func release(_ connection: any Connection, of operation: URLConnectionOperation) {
        connection.resume()
        operation.waitAgainAfterRedirect(of: self)
    }

    // MARK: Response decisions

    /// Holds the transfer until a delegate has decided about the response.
    func wait(
        for delegate: any OperationDelegate, toDecideAbout response: ResponseHead, of operation: URLConnectionOperation,
        _ connection: any Connection
    ) {
        hold(.decision, connection)
        rare.undecided = (connection, response)
        let transport = transport
        delegate.operation(operation, didReceive: response) { [self] decision in
            transport?.perform { [self] in decided(decision) }
        }
    }

    private func decided(_ decision: ResponseDecision) {
        // If the attempt was stopped in the meantime, the next attempt requests the response again, and the delegate
        // decides about the new response.
        guard isLive, let operation, let (connection, response) = rare.undecided.take() else { return }
        switch decision {
        case .cancel:
            let error = URLError(.cancelled, url: body.request?.url, "The response handler cancelled the request.")
            stop(connection, then: .fail(error))
        case .divert(let sink) where body.isInMemory: return divert(to: sink, response, connection, operation)
        case .allow, .divert:
            if body.isInMemory || operation.belongsIntoOutput(response) {
                startOver(with: response, connection)
            } else {
                body.keepSeparately()
            }
        }
        carryOut(state.flow.handle(.lift(.decision)))
    }

    /// Redirects the body to a sink, and holds the transfer until the sink is open.
    private func divert(
        to sink: any BodySink, _ response: ResponseHead, _ connection: any Connection,
        _ operation: URLConnectionOperation
    ) {
        let transport = transport
        let queue = SinkQueue(sink, url: body.request?.url, on: transport)
        rare.diverted = queue
        operation.setBodySink(sink)
        rare.undecided = (connection, response)
        let call = BlockingCall()
        queue.willOpen(as: call)
        queue.open(as: call, on: { transport?.perform($0) }) { [self] failure in
            guard isLive, let (connection, response) = rare.undecided.take() else { return }
            body.place(in: rare.diverted.take())
            if let failure { stop(connection, then: .fail(failure)) } else { startOver(with: response, connection) }
            carryOut(state.flow.handle(.lift(.decision)))
        }
    }

    /// Records that the connection ended before the decision about its response. Stopping the attempt ends the wait.
    func awaitDecision() {
        guard let operation else { return }
        let transport = transport
        let stop: @Sendable () -> Void = { [self] in
            transport?.perform { [self] in
                if isLive { carryOut(state.flow.handle(.stop)) }
            }
        }
        if !operation.advance(self, to: .working(stop: stop)) { stop() }
    }

    // MARK: A slow receiver

    /// Passes bytes to the delegate, and suspends the connection if the delegate cannot accept more.
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

    /// Suspends the connection if the sink's reader must first read the bytes already stored.
    func waitForRoom(in sink: any BodySink, _ connection: any Connection) {
        if sink.waitsForRoom(then: lifting(.reader)) { hold(.reader, connection) }
    }

    // MARK: A slow sink

    /// Sends a command to the sink, and suspends the connection until the command has completed.
    func command(
        _ sink: SinkQueue, for connection: any Connection, _ give: (@escaping (URLError?) -> Void) -> Void
    ) {
        give { [self] failure in
            if let failure {
                stop(connection, then: .fail(failure))
                // The sink has lost bytes, even if the transfer has succeeded in the meantime.
                state.loseBytes(failure)
            }
            if !sink.isBusy { carryOut(state.flow.handle(.lift(.sink))) }
        }
        if sink.isBusy { hold(.sink, connection) }
    }
}
