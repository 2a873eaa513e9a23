import CEpoll
import ConvoySupport
import Foundation

extension ServerCore {
    /// Handles epoll events of a connection.
    func handle(_ events: UInt32, _ connection: ClientConnection) {
        if events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 {
            // A client that rejects the certificate may send an alert with the reason and then reset the connection.
            if connection.phase == .handshaking { _ = receive(connection) }
            return lose(connection)
        }
        if events & (EPOLLIN.rawValue | EPOLLRDHUP.rawValue) != 0, !receive(connection) { return lose(connection) }
        advance(connection)
    }

    /// Reads from the socket. Returns false if the connection is lost.
    private func receive(_ connection: ClientConnection) -> Bool {
        // Limit the number of reads, so that one fast upload does not starve the other connections.
        for _ in 0..<8 {
            guard connection.wantsInput || connection.inputCount < 1 << 16 else { return true }
            let count = scratch.withUnsafeMutableBytes { recv(connection.descriptor, $0.baseAddress, $0.count, 0) }
            if count > 0 {
                if connection.phase == .draining { continue }
                if let session = connection.tls {
                    guard decrypt(count, session, connection) else { return false }
                } else {
                    scratch.withUnsafeBytes { connection.input.append(contentsOf: $0[..<count]) }
                }
                if connection.phase == .reading { read(connection) }
                if count < scratch.count { return true }
            } else if count == 0 {
                connection.peerHasClosed = true
                return true
            } else if errno != EINTR {
                return errno == EAGAIN
            }
        }
        return true
    }

    /// Advances the connection as far as possible without waiting for the socket, a timer, a gate or a handler.
    func advance(_ connection: ClientConnection) {
        while true {
            switch connection.phase {
            case .closed: return
            case .handshaking:
                guard flush(connection), !connection.peerHasClosed else { return lose(connection) }
                return updateInterest(connection)
            case .reading:
                read(connection)
                if connection.phase == .reading {
                    guard flush(connection) else { return close(connection) }
                    if connection.peerHasClosed {
                        if connection.tls?.sendCloseNotify() ?? false { _ = flush(connection) }
                        return close(connection)
                    }
                    return updateInterest(connection)
                }
            case .answering:
                guard flush(connection) else { return close(connection) }
                return updateInterest(connection)
            case .writing:
                guard write(connection) else { return updateInterest(connection) }
            case .pausing:
                // Flush TLS messages such as alerts. Everything before the pause in the response has already been sent.
                if connection.hasOutput, !flush(connection) { return close(connection) }
                // The server is not sending, so a client that has closed its side is gone.
                if connection.peerHasClosed { return close(connection) }
                return updateInterest(connection)
            case .draining:
                if connection.peerHasClosed { return close(connection) }
                return updateInterest(connection)
            }
        }
    }

    /// Parses requests until one must be answered or all received bytes have been parsed.
    private func read(_ connection: ClientConnection) {
        while connection.phase == .reading {
            let before = connection.bodyLength
            switch connection.nextEvent() {
            case .needsMore: return
            case .body:
                let count = connection.bodyLength - before
                if count > 0 { state.update { $0.statistics.receivedBodyBytes += count } }
            case .head(let head): began(head, connection)
            case .end(let trailers): received(trailers, connection)
            case .failed(let failure): refuse(failure, connection)
            }
        }
    }

    private func began(_ head: RequestHead, _ connection: ClientConnection) {
        connection.head = head
        connection.arrivedAt = now
        connection.arrivalDate = Date()
        connection.isActive = true
        connection.route = state.match(method: head.method, path: head.pathAndQuery.path)
        state.update { log in
            log.statistics.activeRequestCount += 1
            log.statistics.peakActiveRequestCount = max(
                log.statistics.peakActiveRequestCount, log.statistics.activeRequestCount)
        }
        var options: TestServer.RouteOptions = []
        if case .route(let route) = connection.route { options = route.options }
        connection.discardsBody = options.contains(.discardsBody)
        guard head.framing != .none else { return }
        if options.contains(.answersEarly) {
            connection.head?.keepsAlive = false
            received([:], connection)
        } else if head.expectsContinue, connection.inputCount == 0, !options.contains(.withholdsContinue) {
            connection.output.append(contentsOf: "HTTP/1.1 100 Continue\r\n\r\n".utf8)
        }
    }

    /// Records and answers a complete request.
    private func received(_ trailers: TestServer.Headers, _ connection: ClientConnection) {
        guard let head = connection.head else { return }
        let request = connection.recorded(head, trailers: trailers, now: now)
        connection.body = Data()
        switch connection.route {
        case .none:
            state.record(request, isExpected: false)
            begin(.text("No route for \(request.method) \(request.path).\n", status: 404), on: connection)
        case .otherMethods(let methods):
            state.record(request, isExpected: false)
            let response = TestServer.Response.text("No route for this method.\n", status: 405)
            begin(response.header("Allow", methods.joined(separator: ", ")), on: connection)
        case .route(let route):
            state.record(request, isExpected: true)
            perform(route.action, request, connection)
        }
    }

    private func perform(_ action: RouteAction, _ request: RecordedRequest, _ connection: ClientConnection) {
        let inbox = inbox, id = connection.id, exchange = connection.exchange
        switch action {
        case .fixed(let response): begin(response, on: connection)
        case .inTurn(let turns): begin(turns.take(), on: connection)
        case .computed(let answer): begin(answer(request), on: connection)
        case .handler(let handler):
            connection.phase = .answering
            state.handlers.perform {
                let response: TestServer.Response
                do { response = try handler(request) } catch { response = .failure(of: request, error) }
                inbox.post(.answer(connection: id, exchange: exchange, response))
            }
        case .asyncHandler(let handler):
            connection.phase = .answering
            Task(executorPreference: state.handlers) {
                let response: TestServer.Response
                do { response = try await handler(request) } catch { response = .failure(of: request, error) }
                inbox.post(.answer(connection: id, exchange: exchange, response))
            }
        }
    }

    private func refuse(_ failure: RequestFailure, _ connection: ClientConnection) {
        state.update { $0.statistics.malformedRequestCount += 1 }
        begin(.text(failure.reason + "\n", status: failure.status).closing(), on: connection)
    }
}

extension TestServer.Response {
    fileprivate static func failure(of request: RecordedRequest, _ error: any Error) -> Self {
        .text("The handler of \(request.method) \(request.path) threw: \(error)\n", status: 500)
    }
}

extension ServerCore {
    /// Starts a response; `advance` sends it.
    func begin(_ response: TestServer.Response, on connection: ClientConnection) {
        connection.writer = ResponseWriter(
            response, method: connection.head?.method ?? "GET", isHTTP10: connection.head?.isHTTP10 ?? false,
            clientKeepsAlive: connection.head?.keepsAlive ?? false)
        connection.phase = .writing
    }

    /// Sends as much as the socket accepts. Returns true if the phase has changed and the connection can advance
    /// immediately, and false to wait for the socket.
    func write(_ connection: ClientConnection) -> Bool {
        // The budget prevents a client that receives a large body quickly from starving the others. epoll reports the
        // socket again immediately.
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
            // Send the head and the first bytes of the body in one segment if possible.
            if case .more = step, connection.output.count - connection.outputStart < 1 << 16 { continue }
            connection.pendingStep = step
        }
        return false
    }

    /// Performs a step of the writer. Returns true if the phase has changed.
    private func perform(_ step: ResponseWriter.Step, _ connection: ClientConnection) -> Bool {
        switch step {
        case .more: return false
        case .wait(let deadline):
            connection.phase = .pausing
            wake(connection, at: deadline)
        case .hold(let gate):
            connection.phase = .pausing
            // The timer of an earlier pause must not end this one.
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
            // RST discards bytes that the client's system has not acknowledged, which would violate
            // `Fault.reset(afterBytes:)`.
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

    /// Ends the response, and continues with the next request or closes the connection.
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

    /// Sends output until the socket accepts no more. Returns false if the connection is lost.
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
