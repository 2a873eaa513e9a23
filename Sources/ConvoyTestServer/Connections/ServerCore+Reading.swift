import CEpoll
import Foundation

extension ServerCore {
    /// Handles what epoll reports about a connection.
    func handle(_ events: UInt32, _ connection: ClientConnection) {
        if events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 {
            // A client that refuses the certificate may send an alert with the reason and then reset the connection.
            if connection.phase == .handshaking { _ = receive(connection) }
            return lose(connection)
        }
        if events & (EPOLLIN.rawValue | EPOLLRDHUP.rawValue) != 0, !receive(connection) { return lose(connection) }
        advance(connection)
    }

    /// Reads from the socket. False if the connection is lost.
    private func receive(_ connection: ClientConnection) -> Bool {
        // At most a few reads, so that one fast upload does not starve the other connections.
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

    /// Continues as far as possible without waiting for the socket, a timer, a gate or a handler.
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
                // TLS messages such as alerts; all of the response so far has been sent.
                if connection.hasOutput, !flush(connection) { return close(connection) }
                // The server is not sending, so a client that has closed its side has gone.
                if connection.peerHasClosed { return close(connection) }
                return updateInterest(connection)
            case .draining:
                if connection.peerHasClosed { return close(connection) }
                return updateInterest(connection)
            }
        }
    }

    /// Reads requests until one is to be answered or the bytes are used up.
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
            begin(.text("There is no route for \(request.method) \(request.path).\n", status: 404), on: connection)
        case .otherMethods(let methods):
            state.record(request, isExpected: false)
            let response = TestServer.Response.text("There is no route for this method.\n", status: 405)
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
