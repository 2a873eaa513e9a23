import CEpoll
import ConvoySupport
import Foundation

extension ServerCore {
    /// Starts a response; `advance` sends it.
    func begin(_ response: TestServer.Response, on connection: ClientConnection) {
        connection.writer = ResponseWriter(
            response, method: connection.head?.method ?? "GET", isHTTP10: connection.head?.isHTTP10 ?? false,
            clientKeepsAlive: connection.head?.keepsAlive ?? false)
        connection.phase = .writing
    }

    /// Sends what the socket accepts. True if the phase has changed, so that there may be more to do at once; false if
    /// the socket must be waited for.
    func write(_ connection: ClientConnection) -> Bool {
        // The budget keeps a fast client of a large body from starving the others; epoll reports the socket again at
        // once.
        var budget = 1 << 21
        while budget > 0 {
            if connection.hasOutput {
                let before = connection.output.count - connection.outputStart
                guard flush(connection) else { close(connection); return true }
                budget -= before
                if connection.hasOutput { return false }
            }
            if let step = connection.pendingStep {
                connection.pendingStep = nil
                if perform(step, connection) { return true }
                continue
            }
            guard let step = connection.writer?.fill(&connection.output, room: 1 << 17, now: MonotonicClock.now) else {
                close(connection)
                return true
            }
            // The head and the first bytes of the body are sent in one segment if possible.
            if case .more = step, connection.output.count - connection.outputStart < 1 << 16 { continue }
            connection.pendingStep = step
        }
        return false
    }

    /// Acts on a step of the writer. True if the phase has changed.
    private func perform(_ step: ResponseWriter.Step, _ connection: ClientConnection) -> Bool {
        switch step {
        case .more: return false
        case .wait(let deadline):
            connection.phase = .pausing
            wake(connection, at: deadline)
        case .hold(let gate):
            connection.phase = .pausing
            // The wake-up of an earlier pause must not end this one.
            cancelWake(connection)
            let inbox = inbox, id = connection.id, exchange = connection.exchange
            gate.whenOpen { inbox.post(.proceed(connection: id, exchange: exchange)) }
        case .stall:
            connection.phase = .pausing
            cancelWake(connection)
        case .close:
            if sendCloseNotify(connection, before: step) { return false }
            finish(connection, keepsAlive: false)
        case .finished:
            let keepsAlive = connection.writer?.keepsAlive ?? false
            if !keepsAlive, sendCloseNotify(connection, before: step) { return false }
            finish(connection, keepsAlive: keepsAlive)
        case .reset:
            // RST discards bytes that the client's system has not acknowledged, which would break "after n bytes".
            if Sockets.unacknowledgedBytes(connection.descriptor) > 0, connection.resetAttempts < 2000 {
                connection.resetAttempts += 1
                connection.pendingStep = .reset
                connection.phase = .pausing
                wake(connection, at: now + 1_000_000)
            } else {
                completed(connection)
                close(connection, resetting: true)
            }
        }
        return true
    }

    /// Ends the response, and continues with the next request or the end of the connection.
    private func finish(_ connection: ClientConnection, keepsAlive: Bool) {
        let readToEnd = !connection.parser.isInsideRequest
        completed(connection)
        connection.clearRequest()
        if keepsAlive {
            connection.phase = .reading
        } else if readToEnd, connection.inputCount == 0 {
            close(connection)
        } else {
            connection.phase = .draining
            connection.input = []
            connection.inputStart = 0
            shutdown(connection.descriptor, Int32(SHUT_WR))
            wake(connection, at: now + 2_000_000_000)
        }
    }

    private func completed(_ connection: ClientConnection) {
        let wasActive = connection.isActive
        connection.isActive = false
        state.update { log in
            log.statistics.responseCount += 1
            if wasActive { log.statistics.activeRequestCount -= 1 }
        }
    }

    /// Sends the output, as far as the socket accepts it. False if the connection is lost.
    func flush(_ connection: ClientConnection) -> Bool {
        if let session = connection.tls { return flush(connection, session) }
        while connection.hasOutput {
            let count = connection.output.withUnsafeBytes { bytes in
                send(
                    connection.descriptor, bytes.baseAddress.map { $0 + connection.outputStart },
                    bytes.count - connection.outputStart, Int32(MSG_NOSIGNAL))
            }
            if count < 0 {
                if errno == EINTR { continue }
                return errno == EAGAIN
            }
            connection.outputStart += count
        }
        connection.clearOutput()
        return true
    }
}
