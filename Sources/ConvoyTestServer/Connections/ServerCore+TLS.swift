import CEpoll
import ConvoySupport
import Foundation

extension ServerCore {
    /// Waits for the client's part of a handshake on a new connection, but not for ever.
    func beginHandshake(_ connection: ClientConnection, _ session: TLSSession) {
        connection.tls = session
        connection.phase = .handshaking
        wake(connection, at: Nanoseconds.deadline(state.configuration.handshakeTimeout, after: now))
    }

    /// Decrypts the first `count` bytes of `scratch` to the connection's input. False if the connection is lost.
    func decrypt(_ count: Int, _ session: TLSSession, _ connection: ClientConnection) -> Bool {
        scratch.withUnsafeBytes { session.receive(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        if connection.phase == .handshaking {
            switch session.handshake() {
            case .waiting: return true
            case .done: established(connection, session)
            case .failed(let reason):
                refuse(connection, reason)
                return true
            }
        }
        var total = 0
        defer { if total > 0 { state.update { $0.statistics.plaintextByteCount += total } } }
        while true {
            switch scratch.withUnsafeMutableBytes({ session.read(into: $0) }) {
            case .bytes(let count):
                total += count
                scratch.withUnsafeBytes { connection.input.append(contentsOf: $0[..<count]) }
            case .waiting: return true
            case .ended:
                connection.peerHasClosed = true
                return true
            case .failed: return false
            }
        }
    }

    private func established(_ connection: ClientConnection, _ session: TLSSession) {
        cancelWake(connection)
        connection.phase = .reading
        state.update { log in
            log.statistics.handshakeCount += 1
            if session.details?.isResumed ?? false { log.statistics.resumedHandshakeCount += 1 }
        }
    }

    /// Sends the alert that says why, and waits until the client has read it.
    private func refuse(_ connection: ClientConnection, _ reason: String) {
        handshakeFailed(reason)
        _ = flush(connection)
        connection.phase = .draining
        shutdown(connection.descriptor, Int32(SHUT_WR))
        wake(connection, at: now + 2_000_000_000)
    }

    private func handshakeFailed(_ reason: String) {
        let limit = state.configuration.recordingLimit
        state.update { log in
            log.statistics.failedHandshakeCount += 1
            log.handshakeFailures.append(reason)
            if log.handshakeFailures.count > limit { log.handshakeFailures.removeFirst() }
        }
    }

    /// Closes a connection that the client has ended or that is broken, which may be in the middle of its handshake.
    func lose(_ connection: ClientConnection, _ reason: String = "the client closed the connection") {
        if connection.phase == .handshaking { handshakeFailed(reason) }
        close(connection)
    }

    /// Says that nothing follows, before a step that ends the connection. True if there is something to be sent before
    /// that step.
    func sayGoodbye(_ connection: ClientConnection, before step: ResponseWriter.Step) -> Bool {
        guard let session = connection.tls, session.sayGoodbye() else { return false }
        connection.pendingStep = step
        return true
    }

    /// Encrypts and sends the output, as far as the socket accepts it. False if the connection is lost.
    func flush(_ connection: ClientConnection, _ session: TLSSession) -> Bool {
        while true {
            let isOpen = scratch.withUnsafeMutableBytes { session.send(to: connection.descriptor, scratch: $0) }
            guard isOpen else { return false }
            if session.hasOutput { return true }
            let rest = connection.output.count - connection.outputStart
            guard rest > 0 else { return true }
            // Only what is sent at once or nearly so, as a slow client must not make the server hold two copies.
            let count = min(rest, 1 << 16)
            let start = connection.outputStart
            let isEncrypted = connection.output.withUnsafeBytes {
                session.write(UnsafeRawBufferPointer(rebasing: $0[start..<(start + count)]))
            }
            guard isEncrypted else { return false }
            connection.outputStart += count
            if connection.outputStart == connection.output.count { connection.forgetOutput() }
        }
    }
}
