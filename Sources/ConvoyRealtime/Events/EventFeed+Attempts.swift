import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// The attempts of the operation. A pause ends an attempt, and the next one connects again. If the request must not be
/// sent again, its connection is paused instead, and the next attempt continues with it.
extension EventFeed {
    /// Begins an attempt of the operation, at its start or after a pause. Can be called on any thread.
    func begin(_ work: AttemptContext) {
        state.withLock { ($0.work, $0.isStopping) = (work, false) }
        guard work.begin(stop: { [weak self] in self?.stop() }) else {
            // Clear `work` first, because `didStop` may start the next attempt.
            state.withLock { $0.work = nil }
            return work.didStop()
        }
        // The source was closed while it was paused.
        let (isClosing, isHeld) = state.withLock { state in
            if state.isClosing { state.work = nil }
            return (state.isClosing, state.phase == .held)
        }
        if isClosing {
            work.finish(with: nil)
        } else if isHeld {
            release(work)
        } else {
            connect()
        }
    }

    /// Stops the attempt when the operation is paused or cancelled. Can be called on any thread.
    private func stop() {
        let mayRepeat = reconnects
        let (work, stopped) = state.withLock {
            state -> (held: AttemptContext?, (HTTPRequestOperation?, AttemptContext?, Wait)) in
            if !mayRepeat, let work = state.hold() {
                // Change the state under the lock, in the same order as the change to `open`.
                states.change(to: .connecting)
                return (work, (nil, nil, Wait()))
            }
            state.isStopping = true
            // A connection that is still held from an earlier pause stays held; the attempt ends where it would
            // continue.
            let connection = state.phase == .held ? nil : state.connection
            return (nil, (connection, state.takeWaitingWork(), state.takeWait()))
        }
        if let work {
            pauseOrResumeConnection(work)
            return work.didStop()
        }
        let (connection, waitingWork, wait) = stopped
        wait.end()
        connection?.cancel()
        waitingWork?.didStop()
    }

    /// Ends the source successfully. Can be called on any thread.
    ///
    /// - Returns: Whether the source had started.
    func close() -> Bool {
        let (hasBegun, connection, work, wait) = state.withLock {
            state -> (Bool, HTTPRequestOperation?, AttemptContext?, Wait) in
            guard state.number > 0 || state.work != nil else { return (false, nil, nil, Wait()) }
            state.isClosing = true
            return (true, state.connection, state.takeWaitingWork(), state.takeWait())
        }
        guard hasBegun else { return false }
        wait.end()
        states.change(to: .closed)
        delivery.drop()
        connection?.cancel()
        work?.finish(with: nil)
        return true
    }

    /// Resumes the held connection.
    private func release(_ work: AttemptContext) {
        let held = state.withLock { state -> (number: Int, connection: HTTPRequestOperation, hasEnded: Bool)? in
            // The source may have been paused or cancelled in the meantime.
            guard let connection = state.connection, !state.isStopping else {
                state.work = nil
                return nil
            }
            state.phase = .connected
            if state.end.wasOpen { states.change(to: .open) }
            return (state.number, connection, state.end.cameDuringPause)
        }
        guard let held else { return work.didStop() }
        if let head = held.connection.responseHead { work.note(head, redirects: held.connection.redirects) }
        if held.hasEnded { conclude(held.number, held.connection) } else { pauseOrResumeConnection(work) }
    }

    /// Pauses the connection if it is held, otherwise resumes it. Runs on one thread, so that the last change takes
    /// effect.
    private func pauseOrResumeConnection(_ work: AttemptContext) {
        work.perform { [self] in
            let (connection, isHeld) = state.withLock { ($0.connection, $0.phase == .held) }
            if isHeld { connection?.pause() } else { connection?.resume() }
        }
    }

    /// Ends a connection that is still held, and releases it. Can be called on any thread.
    func dropConnection() { state.withLock { $0.connection.take() }?.cancel() }
}

extension EventFeed.State {
    /// Keeps the connection for the next attempt, and returns the current attempt, which must end. Returns nil if the
    /// source has no connection, or if no attempt will follow.
    mutating func hold() -> AttemptContext? {
        guard phase == .connected, connection != nil, let work, !work.isEnding else { return nil }
        phase = .held
        self.work = nil
        return work
    }
}
