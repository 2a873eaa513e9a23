import CCurl
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// The callbacks of libcurl, all called on the network thread.
extension URLConnection: EasyHandleOwner {
    // MARK: The head

    func easyHandle(_ handle: EasyHandle, didReceiveHeaderLine line: UnsafeRawBufferPointer) -> Bool {
        let isFirst = !exchange.head.hasBegun
        if isFirst { handle.clock?.noteFirstLine() }
        switch exchange.response.head.take(line) {
        case .more:
            noteHeadLine(isFirst: isFirst)
            return !isCancelled
        case .interim:
            noteHeadLine(isFirst: isFirst)
            if case .loading = phase, exchange.head.statusCode != 100 {
                delegate?.connection(self, didReceiveInterim: receivedHead)
            }
            return !isCancelled
        case .trailer: return !isCancelled
        case .refused(let reason):
            exchange.response.failure = failure(.badServerResponse, reason)
            return false
        case .whole:
            noteActivity()
            defer { if exchange.stallMeter != nil { noteFlow() } }
            let mayContinue = receiveHead()
            endIfComplete(handle)
            return mayContinue
        }
    }

    /// The complete response head that has arrived.
    var receivedHead: ResponseHead {
        let head = exchange.head
        return ResponseHead(
            place: ResponseHead.Place(exchange.request), statusCode: head.statusCode, contentLength: head.contentLength,
            isEncoded: !ContentCoding.codings(in: head.contentEncodings).isEmpty, bytes: head.bytes)
    }

    private func receiveHead() -> Bool {
        let response = receivedHead
        // libcurl stops sending after such a head, or when the response is complete and the connection will be closed.
        // However, it does not detect the end of the response while it waits for bytes of the request's body.
        if exchange.flow.isStarved, mayEndWithoutBody {
            thread.perform { self.goOnWithoutBody() }
            // Check again once the holds are removed.
            if let handle, let runLoop = thread.runLoop {
                handle.schedule(at: runLoop.turnTime + Self.starvationCheckInterval, on: runLoop)
            }
        }
        // The server has not processed the request (RFC 9110, section 15.5.20).
        if response.statusCode == 421, mayLoadOverAnotherConnection {
            exchange.response.isMisdirected = true
            return false
        }
        if response.statusCode == 206, exchange.header?.asksForRange != true {
            exchange.response.failure = failure(
                .badServerResponse, "The server sent a partial response (206), but no range was requested.")
            return false
        }
        // The response may be an attempt at response splitting (RFC 9112, section 6.3).
        if exchange.head.deniesItsChunks, exchange.request.method != "HEAD" {
            exchange.response.failure = failure(
                .badServerResponse, "The response specifies a Content-Length of 0 and chunked coding.")
            return false
        }
        if exchange.head.isEndedByConnection, exchange.request.method != "HEAD" {
            exchange.response.closure = handle?.handshakeOfConnection
        }
        if exchange.head.foldsClose { handle?.closeConnectionAtEnd() }
        if configuration.routing.hsts != nil { noteStrictTransportSecurity(in: response) }
        if exchange.head.setsCookies, !takesCookies(of: response) { return true }
        return evaluate(response)
    }

    /// Evaluates a response. Returns false to abort the transfer with the pending failure.
    func evaluate(_ response: ResponseHead) -> Bool {
        if exchange.cache != nil {
            switch react(to: response) {
            case .deliver: break
            case .replace(let stored):
                phase = .replacing(stored)
                return awaitsRest(of: response) && !isCancelled
            }
        }
        do throws(URLError) {
            if let redirect = try redirect(of: response) { return ask(about: redirect) }
            if response.isEncoded {
                try prepareToDecode(ContentCoding.codings(in: exchange.head.contentEncodings), of: response)
            }
        } catch {
            exchange.response.failure = error
            return false
        }
        if exchange.negotiation != nil || exchange.isExpectationRefused {
            // libcurl may be about to send the request again.
            exchange.response.heldHead = response
            limitRestOfHeldHead(response)
            return !isCancelled
        }
        delegate?.connection(self, didReceive: response)
        return !isCancelled
    }

    /// Creates a decoder for an encoded body. Partial bodies cannot be decoded. If the user set `Accept-Encoding`, the
    /// encoded bytes are delivered.
    func prepareToDecode(_ codings: [ContentCoding], of response: ResponseHead) throws(URLError) {
        guard !codings.isEmpty, response.statusCode != 206,
            exchange.header?.setsAcceptEncoding != true || configuration.decodesUnaskedEncodings,
            exchange.request.method != "HEAD", response.statusCode != 304
        else { return }
        if let unknown = codings.first(where: { !$0.isKnown }) {
            guard configuration.refusesUnknownEncodings else { return }
            throw failure(.cannotDecodeContentData, "Unsupported content encoding: \(unknown).")
        }
        do {
            exchange.response.decoder = try ContentDecoder(codings, maximumExpansion: configuration.maximumExpansion)
        } catch {
            throw decodingFailure(error)
        }
    }

    func tellHeldHead() {
        guard let response = exchange.response.heldHead else { return }
        (exchange.response.heldHead, exchange.response.rest) = (nil, nil)
        delegate?.connection(self, didReceive: response)
    }

    // MARK: Bodies

    func easyHandle(_ handle: EasyHandle, didReceive bytes: UnsafeRawBufferPointer) -> EasyHandle.Reception {
        guard !isCancelled, exchange.response.failure == nil else { return .abort }
        switch phase {
        case .deciding, .askingAboutCookies: return refuse()
        case .following, .replacing:
            // Reading a short remainder is cheaper than opening a new connection.
            exchange.response.cacheWriter?.write(bytes)
            receiveThrottle?.charge(bytes.count)
            exchange.stallMeter?.value.add(bytes.count)
            exchange.response.received += Int64(bytes.count)
            endIfComplete(handle)
            return exchange.response.rest?.value.take(bytes.count) == false ? .abort : .taken
        case .loading:
            tellHeldHead()
            guard exchange.flow.isFree, !exchange.flow.hasKept, mayReceive(bytes.count) else { return refuse() }
            if exchange.response.rest?.value.take(bytes.count) == false { return .abort }
            noteActivity()
            exchange.stallMeter?.value.add(bytes.count)
            exchange.response.received += Int64(bytes.count)
            endIfComplete(handle)
            exchange.response.cacheWriter?.write(bytes)
            guard let decoder = exchange.response.decoder else {
                delegate?.connection(self, didReceive: bytes)
                return .taken
            }
            deliver(with: decoder) { try $0.decode(bytes, into: $1) }
            return exchange.response.failure == nil ? .taken : .abort
        case .initial, .waitingForDescriptor, .preparingTLS, .consulting, .held, .storing, .ended: return .abort
        }
    }

    /// Ends the transfer at the end of this turn if the response is complete, even if the request's body has not been
    /// sent: the server need not read the body (RFC 9113, section 8.1). libcurl would wait until it is sent.
    private func endIfComplete(_ handle: EasyHandle) {
        guard exchange.body != nil, exchange.isResponseComplete else { return }
        thread.multi?.endAfterTurn(handle)
    }

    /// Leaves the bytes with libcurl until the holds are removed.
    private func refuse() -> EasyHandle.Reception {
        updateFlow(.refused)
        return .notNow
    }

    func easyHandle(_ handle: EasyHandle, fill buffer: UnsafeMutableRawBufferPointer) -> EasyHandle.Supply {
        guard let body = exchange.body, !isCancelled else { return .abort }
        if exchange.flow.isPaused { return .notNow }
        guard let allowance = sendingAllowance(atMost: buffer.count) else { return starve(handle) }
        switch body.fill(UnsafeMutableRawBufferPointer(rebasing: buffer[..<allowance])) {
        case .failed(let error):
            exchange.response.failure = error
            return .abort
        case .notNow: return starve(handle)
        case .bytes(let count):
            noteSending()
            noteSent(count, of: body.length)
            if count == 0, let clock = handle.clock, clock.bodySent == nil { clock.bodySent = NetworkRunLoop.now }
            if count > 0 {
                exchange.sentBytes += Int64(count)
                if let clock = handle.clock, exchange.sentBytes == body.length { clock.bodySent = NetworkRunLoop.now }
                delegate?.connection(
                    self, didSendBodyData: count, total: exchange.sentBytes, totalExpected: body.length)
            }
            return .bytes(count)
        }
    }

    /// Pauses sending until more bytes are available.
    private func starve(_ handle: EasyHandle) -> EasyHandle.Supply {
        updateFlow(.starved)
        if mayEndWithoutBody, let runLoop = thread.runLoop {
            handle.schedule(at: runLoop.turnTime + Self.starvationCheckInterval, on: runLoop)
        }
        return .notNow
    }

    func easyHandleMustRewind(_ handle: EasyHandle) -> Bool {
        guard let body = exchange.body, body.rewind() else { return false }
        exchange.sentBytes = 0
        exchange.isSendingBody = false
        return true
    }

    /// Whether the received head has not been delivered yet.
    private var isHeadHeld: Bool {
        if case .askingAboutCookies = phase { true } else { exchange.response.heldHead != nil }
    }

    /// Discards the response, because libcurl is sending the same request again.
    private func forgetResponse() {
        exchange.response.cacheWriter?.abandon()
        exchange.response = Exchange.Response()
        guard case .askingAboutCookies = phase else { return }
        // Continue without the decision, which concerns only cookies.
        phase = .loading
        updateFlow(.lift(.cookies))
    }

    func easyHandleMaySendAgain(_ handle: EasyHandle) -> Bool {
        if exchange.head.isWhole {
            if exchange.negotiation != nil {
                forgetResponse()
                return true
            }
            // After a 417, libcurl sends the request again, including the user's `Expect` header.
            exchange.response.dropsExpectation = exchange.isExpectationRefused && isHeadHeld
            return false
        }
        let refusal = exchange.head.hasBegun ? nil : handle.refusal
        // libcurl 8.14 does not rewind the body before it sends the request over HTTP/1.1.
        if refusal == .requiresHTTP1, mayLoadOverAnotherConnection {
            exchange.response.isMisdirected = true
            exchange.needsHTTP1 = true
            return false
        }
        guard RequestRules.isIdempotent(exchange.request.method) || refusal != nil else {
            var error = failure(
                .networkConnectionLost,
                "The connection was lost before the response. The request was not sent again because it is not idempotent.")
            if handle.long(CURLINFO_REQUEST_SIZE) == 0 {
                error = URLError(error.code, describedBy: error.userInfo.merging([URLError.nothingWasSentKey: true]) { $1 })
            }
            exchange.response.failure = error
            return false
        }
        forgetResponse()
        return true
    }

    /// Whether the request can be sent over a dedicated connection: it has not been sent over one yet, and its body can
    /// be sent again.
    private var mayLoadOverAnotherConnection: Bool { !exchange.isAlone && canRepeatBody }

    private var canRepeatBody: Bool { exchange.request.bodyStream == nil || exchange.sentBytes == 0 }

    /// Sends the request again, either without its expectation (RFC 9110, section 10.1.1) or over a dedicated
    /// connection.
    private func loadAgain() {
        guard canRepeatBody else {
            return fail(
                failure(.requestBodyStreamExhausted, "The body must be sent again, but its stream cannot be read twice."))
        }
        finishTransaction(exchange.head.isWhole ? nil : "The server did not process the request.")
        var again = Exchange(again: exchange)
        if exchange.response.dropsExpectation {
            var request = exchange.request.urlRequest
            request.setValue(nil, forHTTPHeaderField: "Expect")
            again.request = TransferRequest(request)
        }
        if exchange.response.isMisdirected { again.isAlone = true }
        load(again)
    }

    // MARK: The end

    func easyHandle(_ handle: EasyHandle, didFinishWith code: CURLcode) {
        switch phase {
        case .initial, .waitingForDescriptor, .preparingTLS, .consulting, .held, .storing, .ended: return
        case .loading where code != CURLE_OK || exchange.response.failure != nil || isCancelled: end(with: code, handle)
        case .loading, .deciding, .askingAboutCookies, .following, .replacing:
            exchange.heldResult = code
            if exchange.head.isEndedByStream, CurlQuirks.hidesResets { exchange.response.isUnproven = mayHideReset }
            carryOut(updateFlow(.end))
        }
    }

    /// Ends the transfer or continues with the next step, now that nothing is held back.
    func end(with code: CURLcode, _ handle: EasyHandle) {
        switch phase {
        case .following, .replacing: leaveRest(isWhole: code == CURLE_OK && exchange.response.closure?.hasEnded != false)
        default: finish(code, handle)
        }
    }

    func finish(_ code: CURLcode, _ handle: EasyHandle) {
        if isCancelled { return end { $0.connectionDidCancel(self) } }
        if let failure = exchange.response.failure { return fail(failure) }
        if exchange.response.rest?.value.isExhausted == true { return endWithoutRest() }
        if exchange.response.dropsExpectation || exchange.response.isMisdirected { return loadAgain() }
        // A stream may be reset, or a connection closed, after a complete response.
        guard code == CURLE_OK || exchange.isResponseComplete else { return finish(failingWith: code, handle) }
        guard exchange.head.isWhole else {
            return fail(
                failure(.networkConnectionLost, "The connection was closed before the response head was complete."))
        }
        // The connection was closed without a TLS closure alert, which is an incomplete close (RFC 9112, section 9.8).
        if let closure = exchange.response.closure, !closure.hasEnded {
            return fail(
                failure(
                    .networkConnectionLost,
                    "The connection was closed without a TLS close notification, so the body may be truncated."))
        }
        if exchange.response.isUnproven {
            let error = failure(.networkConnectionLost, "The response has no length and may be truncated.")
            let userInfo = error.userInfo.merging([URLError.isUnprovenKey: true]) { $1 }
            return fail(URLError(error.code, describedBy: userInfo))
        }
        tellHeldHead()
        if let decoder = exchange.response.decoder {
            do {
                try decoder.finish()
            } catch {
                return fail(decodingFailure(error))
            }
        }
        guard exchange.response.cacheWriter != nil else { return end { $0.connectionDidFinish(self) } }
        finishStoring { connection in connection.end { $0.connectionDidFinish(connection) } }
    }

    /// Whether the response may be truncated although libcurl reports no error, and can be requested again. Encoded
    /// bodies are excluded, because their end can be detected.
    private var mayHideReset: Bool {
        guard exchange.response.decoder == nil, exchange.request.method != "HEAD",
            RequestRules.isIdempotent(exchange.request.method), let multi = thread.multi,
            let target = exchange.address?.target
        else { return false }
        return multi.runningOwners.contains { ($0 as? URLConnection)?.mayFillStream(to: target) == true }
    }

    /// Returns whether the response arrives over HTTP/2 and may exceed libcurl's buffer for a stream.
    private func mayFillStream(to target: Target) -> Bool {
        exchange.address?.target == target && exchange.head.isWhole && exchange.head.isHTTP2
            && exchange.head.contentLength.map { $0 >= handle?.applied.receiveBufferSize ?? 0 } ?? true
    }

    private func finish(failingWith code: CURLcode, _ handle: EasyHandle) {
        if lacksDescriptor(handle) { return waitForDescriptor() }
        let error = error(for: code, handle)
        guard let refusal = handle.refusal, !exchange.head.hasBegun else { return fail(error) }
        exchange.needsHTTP1 = refusal == .requiresHTTP1
        // Other requests may have taken each connection that libcurl tried.
        exchange.response.isMisdirected = mayLoadOverAnotherConnection
        if exchange.response.isMisdirected { return loadAgain() }
        fail(URLError(error.code, describedBy: error.userInfo.merging([URLError.nothingWasSentKey: true]) { $1 }))
    }

    /// Creates the error for a libcurl result.
    private func error(for code: CURLcode, _ handle: EasyHandle) -> URLError {
        if let error = addressError(handle.addresses) { return error }
        if !exchange.head.hasBegun, let error = handshakeError(handle) { return error }
        let proxyStatus = handle.long(CURLINFO_HTTP_CONNECTCODE)
        if proxyStatus >= 300 {
            return tunnelFailure(status: proxyStatus)
        }
        if code == CURLE_PROXY, let error = proxyError(handle) { return error }
        if exchange.head.hasBegun, !exchange.head.isWhole,
            code == CURLE_OUT_OF_MEMORY || code.rawValue == CurlQuirks.tooLarge
        {
            return failure(.badServerResponse, "A header field of the response exceeds libcurl's limit of 100 KB.")
        }
        let systemError = handle.long(CURLINFO_OS_ERRNO)
        var text = handle.failureText
        if code == CURLE_COULDNT_CONNECT, let socket = exchange.route?.unixSocket {
            text = socket.failureText(Int32(truncatingIfNeeded: systemError))
        }
        let error = URLError(curl: code, systemError: systemError, text: text, url: exchange.request.url)
        // libcurl cannot rewind the body. Report the failure as a lost connection, because a new stream can be sent
        // over a different connection.
        if code == CURLE_SEND_FAIL_REWIND, !exchange.head.isWhole {
            return URLError(.networkConnectionLost, describedBy: error.userInfo)
        }
        // If libcurl has no specific error and the response has begun, the response is invalid.
        return error.code == .unknown && (exchange.head.hasBegun || exchange.response.tunnelAnswer.hasBegun)
            ? URLError(.badServerResponse, describedBy: error.userInfo) : error
    }
}
