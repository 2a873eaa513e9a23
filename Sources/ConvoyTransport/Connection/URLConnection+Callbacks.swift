import CCurl
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// Handles libcurl's callbacks. All on the network thread.
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

    /// The head that has arrived, which is complete.
    var receivedHead: ResponseHead {
        let head = exchange.head
        return ResponseHead(
            place: ResponseHead.Place(exchange.request), statusCode: head.statusCode, contentLength: head.contentLength,
            isEncoded: !ContentCoding.codings(in: head.contentEncodings).isEmpty, bytes: head.bytes)
    }

    private func receiveHead() -> Bool {
        let response = receivedHead
        // libcurl stops sending after such a head, or when the whole response has come and the connection is to be
        // closed. But it does not notice the end of the response while it waits for bytes of the request's body.
        if exchange.flow.isStarved, mayEndWithoutBody {
            thread.perform { self.goOnWithoutBody() }
            // Tries again once the holds are gone.
            if let handle, let runLoop = thread.runLoop {
                handle.schedule(at: runLoop.turnTime + Self.starvationCheckInterval, on: runLoop)
            }
        }
        // The server has not processed it (RFC 9110, section 15.5.20).
        if response.statusCode == 421, mayLoadOverAnotherConnection {
            exchange.response.isMisdirected = true
            return false
        }
        if response.statusCode == 206, exchange.header?.asksForRange != true {
            exchange.response.failure = failure(
                .badServerResponse, "The server sent a part of the resource (206), but no range was requested.")
            return false
        }
        // RFC 9112, section 6.3: this may be an attempt at response splitting.
        if exchange.head.deniesItsChunks, exchange.request.method != "HEAD" {
            exchange.response.failure = failure(.badServerResponse, "The response announces both an empty body and chunks.")
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

    /// Decides about a response. False aborts the transfer with the pending failure.
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

    /// Makes a decoder for an encoded body, unless it is only a part of a body, which cannot be decoded, or the user
    /// set `Accept-Encoding`, and so wants the encoded bytes.
    func prepareToDecode(_ codings: [ContentCoding], of response: ResponseHead) throws(URLError) {
        guard !codings.isEmpty, response.statusCode != 206,
            exchange.header?.setsAcceptEncoding != true || configuration.decodesUnaskedEncodings,
            exchange.request.method != "HEAD", response.statusCode != 304
        else { return }
        if let unknown = codings.first(where: { !$0.isKnown }) {
            guard configuration.refusesUnknownEncodings else { return }
            throw failure(.cannotDecodeContentData, "The body has an unsupported content encoding: \(unknown).")
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
            // Reading a short rest is cheaper than making a new connection.
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

    /// Ends the transfer at the end of this turn if the response is complete, although the request's body may not have been
    /// sent: the server need not read it (RFC 9113, section 8.1). libcurl would wait until it is sent.
    private func endIfComplete(_ handle: EasyHandle) {
        guard exchange.body != nil, exchange.isResponseComplete else { return }
        thread.multi?.endAfterTurn(handle)
    }

    /// Leaves bytes with libcurl until the holds are gone.
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

    /// Pauses sending until there are bytes to send.
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

    /// Whether the head that has arrived was not delivered yet.
    private var isHeadHeld: Bool {
        if case .askingAboutCookies = phase { true } else { exchange.response.heldHead != nil }
    }

    /// Prepares for the response to the same request when libcurl sends it again.
    private func forgetResponse() {
        exchange.response.cacheWriter?.abandon()
        exchange.response = Exchange.Response()
        guard case .askingAboutCookies = phase else { return }
        // Continues without the decision, which only concerns the cookies.
        phase = .loading
        updateFlow(.lift(.cookies))
    }

    func easyHandleMaySendAgain(_ handle: EasyHandle) -> Bool {
        if exchange.head.isWhole {
            if exchange.negotiation != nil {
                forgetResponse()
                return true
            }
            // After a 417 libcurl sends the same request again, with the user's `Expect` header as before.
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
                "The connection was lost before the response, and a request that is not idempotent is not sent again.")
            if handle.long(CURLINFO_REQUEST_SIZE) == 0 {
                error = URLError(error.code, describedBy: error.userInfo.merging([URLError.nothingWasSentKey: true]) { $1 })
            }
            exchange.response.failure = error
            return false
        }
        forgetResponse()
        return true
    }

    /// Whether the request was not sent over a connection of its own yet, and its body can be sent again.
    private var mayLoadOverAnotherConnection: Bool { !exchange.isAlone && canRepeatBody }

    private var canRepeatBody: Bool { exchange.request.bodyStream == nil || exchange.sentBytes == 0 }

    /// Sends the request again: without its expectation (RFC 9110, section 10.1.1), or over a connection of its own.
    private func loadAgain() {
        guard canRepeatBody else {
            return fail(
                failure(.requestBodyStreamExhausted, "The body must be sent again, but its stream cannot be read twice."))
        }
        finishTransaction(exchange.head.isWhole ? nil : "The server has not processed the request.")
        var again = Exchange(again: exchange)
        if exchange.response.dropsExpectation {
            var request = exchange.request.urlRequest
            request.setValue(nil, forHTTPHeaderField: "Expect")
            again.request = .foundation(request)
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
            if exchange.head.isEndedByStream, MultiHandle.hidesResets { exchange.response.isUnproven = mayHideReset }
            carryOut(updateFlow(.end))
        }
    }

    /// Ends the transfer or continues with what follows it, now that nothing is held back.
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
                failure(.networkConnectionLost, "The connection was closed before the head of the response was complete."))
        }
        // RFC 9112, section 9.8.
        if let closure = exchange.response.closure, !closure.hasEnded {
            return fail(
                failure(
                    .networkConnectionLost,
                    "The end of the connection should end the body, but TLS was not ended: it may have been cut off."))
        }
        if exchange.response.isUnproven {
            let error = failure(.networkConnectionLost, "The response has no length, and may have been cut off.")
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

    /// Whether the response may be cut off although libcurl reports no error, and can be requested again. The end of an
    /// encoded body is known.
    private var mayHideReset: Bool {
        guard exchange.response.decoder == nil, exchange.request.method != "HEAD",
            RequestRules.isIdempotent(exchange.request.method), let multi = thread.multi,
            let target = exchange.address?.target
        else { return false }
        return multi.runningOwners.contains { ($0 as? URLConnection)?.mayFillStream(to: target) == true }
    }

    /// Whether a response arrives over HTTP/2 that may be longer than libcurl's buffer for a stream.
    private func mayFillStream(to target: Target) -> Bool {
        exchange.address?.target == target && exchange.head.isWhole && exchange.head.isHTTP2
            && exchange.head.contentLength.map { $0 >= handle?.applied.receiveBufferSize ?? 0 } ?? true
    }

    private func finish(failingWith code: CURLcode, _ handle: EasyHandle) {
        if lacksDescriptor(handle) { return waitForDescriptor() }
        let error = error(for: code, handle)
        guard let refusal = handle.refusal, !exchange.head.hasBegun else { return fail(error) }
        exchange.needsHTTP1 = refusal == .requiresHTTP1
        // Others may have taken the place of this request on each connection that libcurl has tried.
        exchange.response.isMisdirected = mayLoadOverAnotherConnection
        if exchange.response.isMisdirected { return loadAgain() }
        fail(URLError(error.code, describedBy: error.userInfo.merging([URLError.nothingWasSentKey: true]) { $1 }))
    }

    /// The error for a result of libcurl.
    private func error(for code: CURLcode, _ handle: EasyHandle) -> URLError {
        if let error = addressError(handle.addresses) { return error }
        if !exchange.head.hasBegun, let error = handshakeError(handle) { return error }
        let proxyStatus = handle.long(CURLINFO_HTTP_CONNECTCODE)
        if proxyStatus >= 300 {
            return tunnelFailure(status: proxyStatus)
        }
        if code == CURLE_PROXY, let error = proxyError(handle) { return error }
        if exchange.head.hasBegun, !exchange.head.isWhole,
            code == CURLE_OUT_OF_MEMORY || code.rawValue == Self.curlTooLarge
        {
            return failure(.badServerResponse, "A field of the response's header is larger than libcurl allows (100 KB).")
        }
        let systemError = handle.long(CURLINFO_OS_ERRNO)
        var text = handle.failureText
        if code == CURLE_COULDNT_CONNECT, let socket = exchange.route?.unixSocket {
            text = socket.failureText(Int32(truncatingIfNeeded: systemError))
        }
        let error = URLError(curl: code, systemError: systemError, text: text, url: exchange.request.url)
        // libcurl cannot rewind the body, but what has failed is the connection: a new stream can be sent over another one.
        if code == CURLE_SEND_FAIL_REWIND, !exchange.head.isWhole {
            return URLError(.networkConnectionLost, describedBy: error.userInfo)
        }
        // If libcurl has no specific error, and the response has begun, the response is at fault.
        return error.code == .unknown && (exchange.head.hasBegun || exchange.response.tunnelAnswer.hasBegun)
            ? URLError(.badServerResponse, describedBy: error.userInfo) : error
    }

    /// `CURLE_TOO_LARGE`, introduced in libcurl 8.6.
    private static let curlTooLarge: UInt32 = 100
}
