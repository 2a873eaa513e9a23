import ConvoyTransport
import Foundation
import FoundationNetworking

/// Methods that derive the outcome of the attempt from the end of its connection.
extension Attempt {
    /// Records that the connection has ended. If the operation is ending, the end is processed immediately. Otherwise
    /// the end is processed as soon as no decision about the response is pending and the sink is idle, so that the
    /// offset is correct.
    func connectionDidEnd(_ end: AttemptState.End) {
        guard state.finish(end) else { return }
        rare.waiting = nil
        if operation?.lifecycle.value.isEnding == true { return carryOut(state.flow.handle(.stop)) }
        // After the end has been processed, the body belongs to the next attempt.
        guard rare.undecided != nil else { return carryOut(state.flow.handle(.end)) }
        _ = state.flow.handle(.end)
        // Unless the response is complete, no decision about it is needed.
        if case .finished = end, state.intent == nil { return awaitDecision() }
        rare.undecided = nil
        rare.diverted.take()?.discard()
        carryOut(state.flow.handle(.lift(.decision)))
    }

    /// Ends the attempt of an ending operation without waiting for user code. Called on the network thread.
    func giveUp() {
        // If the connection has not ended yet, `connectionDidEnd` will end the attempt.
        guard state.hasEnded else { return }
        if let operation = rare.finishing.take() {
            operation.decide(.stopped, after: self)
        } else {
            carryOut(state.flow.handle(.stop))
        }
    }

    func carryOut(_ action: TransferState.Action) {
        switch action {
        case .nothing, .drain: return
        case .run: rare.waiting.take()?.resumeReceiving()
        case .end: report(outcome)
        case .stopped:
            rare.undecided = nil
            rare.waiting = nil
            rare.diverted.take()?.discard()
            report(.stopped)
        }
    }

    /// The outcome of the connection.
    private var outcome: AttemptOutcome {
        switch state.conclusion {
        case .received(let reason):
            body.cut = reason
            return receivedOutcome()
        case .failed(let error): return .failed(error, nil)
        case .stopped: return .stopped
        case .repeated(let whole):
            if whole { body.requestWhole() }
            return .unusable
        }
    }

    /// - Parameter isFinal: Whether the response was already chosen as the result.
    func receivedOutcome(isFinal: Bool = false) -> AttemptOutcome {
        if let shortfall = body.shortfall { return .failed(shortfall, nil) }
        let head = body.separateBody == nil ? body.head : operation?.currentHead
        return .received(head, isFinal: isFinal || body.isQuestionResult && head?.asksForCredentials == true)
    }

    /// Reports the outcome to the operation, once.
    func report(_ outcome: AttemptOutcome) {
        guard let operation = operation.take() else { return }
        operation.decide(outcome, after: self)
    }

    /// Cancels the connection, unless an earlier decision already has.
    func stop(_ connection: any Connection, then intent: AttemptState.Intent) {
        if state.decide(intent) { connection.cancel() }
    }

    /// Closes the sink of the body, or synchronizes it if the body is provisional until the response is accepted. Then
    /// lets the operation process the response.
    func finishBody(_ head: ResponseHead?, of operation: URLConnectionOperation) {
        if body.cut != nil, let head, operation.belongsIntoOutput(head) {
            // The body was truncated because the challenge could have been answered. It was not answered, so the
            // complete body is needed.
            body.requestQuestion()
            return operation.decide(.unusable, after: self)
        }
        guard let sink = body.sink else {
            return operation.process(head, data: body.separateBody?.data ?? body.memory.data, of: self)
        }
        var data = body.separateBody?.data
        // The operation accepts any status code, so this body is its response and replaces the partial body in the
        // sink.
        if let bytes = data, let head, operation.belongsIntoOutput(head) {
            sink.begin(head) { _ in }
            bytes.withUnsafeBytes { sink.write($0) { _ in } }
            data = nil
        }
        rare.finishing = operation
        let body = data
        let then: (URLError?) -> Void = { [self] failure in
            guard let operation = rare.finishing.take() else { return }
            if let failure {
                operation.decide(.failed(failure, nil), after: self)
            } else {
                operation.process(head, data: body, of: self)
            }
        }
        guard sink.sink.isProvisional else { return sink.close(then: then) }
        // If the body is in memory, the sink has nothing to commit.
        if body == nil { sink.synchronize(then: then) } else { sink.flush(then: then) }
    }
}
