import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// The heads of responses, and requests that must be sent again because of them. Called by libcurl.
extension NetworkExchange {
    /// Takes a line of the response head, or a trailer, with its line ending. Returns false to abort the transfer.
    func takeHeadLine(_ line: UnsafeRawBufferPointer) -> Bool {
        let isFirst = !response.head.hasBegun
        if isFirst { handle.clock?.noteFirstLine() }
        switch response.head.take(line) {
        case .more:
            noteHeadLine(isFirst: isFirst)
            return true
        case .interim:
            noteHeadLine(isFirst: isFirst)
            guard let chain else { return false }
            if response.head.statusCode != 100, chain.isLoading {
                chain.delegate?.connection(chain, didReceiveInterim: receivedHead(chain))
            }
            return !chain.isCancelled
        case .trailer: return true
        case .refused(let reason):
            chain?.step.failure = chain?.failure(.badServerResponse, reason)
            return false
        case .whole:
            guard let chain else { return false }
            noteActivity()
            defer { noteFlowIfMeasured() }
            let mayContinue = receiveHead(chain)
            endIfComplete()
            return mayContinue
        }
    }

    /// Takes a line of the head of a proxy's response to CONNECT, with its line ending. Returns false to abort the
    /// transfer.
    func takeTunnelLine(_ line: UnsafeRawBufferPointer) -> Bool {
        guard let reason = response.tunnelAnswer.take(line) else { return true }
        chain?.step.failure = chain?.failure(.badServerResponse, reason)
        return false
    }

    /// Returns the handshake for a TLS connection that libcurl begins.
    func handshake(withProxy isWithProxy: Bool, _ tls: TLSContext) -> TLSHandshake? {
        TLSHandshake(context: tls, host: chain?.step.address?.target.host, isWithProxy: isWithProxy)
    }

    /// Returns the complete response head that has arrived.
    func receivedHead(_ chain: RequestChain) -> ResponseHead {
        let head = response.head
        return ResponseHead(
            place: ResponseHead.Place(chain.step.request), statusCode: head.statusCode, contentLength: head.contentLength,
            isEncoded: !ContentCoding.codings(in: head.contentEncodings).isEmpty, bytes: head.bytes)
    }

    private func receiveHead(_ chain: RequestChain) -> Bool {
        let head = receivedHead(chain)
        // libcurl stops sending after such a head, or when the response is complete and the connection will be closed.
        // However, it does not detect the end of the response while it waits for bytes of the request's body.
        if chain.step.flow.isStarved, mayEndWithoutBody {
            chain.thread.perform { chain.network?.goOnWithoutBody() }
            // Check again once the holds are removed.
            handle.schedule(at: multi.runLoop.turnTime + Self.starvationCheckInterval, on: multi.runLoop)
        }
        // The server has not processed the request (RFC 9110, section 15.5.20).
        if head.statusCode == 421, mayLoadOverAnotherConnection(chain) {
            response.isMisdirected = true
            return false
        }
        if head.statusCode == 206, chain.step.header?.asksForRange != true {
            chain.step.failure = chain.failure(
                .badServerResponse, "The server sent a partial response (206), but no range was requested.")
            return false
        }
        let hasNoBody = chain.step.request.method == "HEAD"
        // The response may be an attempt at response splitting (RFC 9112, section 6.3).
        if response.head.deniesItsChunks, !hasNoBody {
            chain.step.failure = chain.failure(
                .badServerResponse, "The response specifies a Content-Length of 0 and chunked coding.")
            return false
        }
        if response.head.isEndedByConnection, !hasNoBody { response.closure = handle.handshakeOfConnection }
        if response.head.foldsClose { handle.closeConnectionAtEnd() }
        return chain.receive(head, setsCookies: response.head.setsCookies)
    }

    /// Returns whether a head is held back, because libcurl may be about to send the request again.
    func holdsBack(_ head: ResponseHead, _ chain: RequestChain) -> Bool {
        guard chain.step.negotiation != nil || isExpectationRefused else { return false }
        heldHead = head
        limitRestOfHeldHead(head, chain)
        return true
    }

    func deliverHeldHead(_ chain: RequestChain) {
        guard let head = heldHead else { return }
        heldHead = nil
        rest = nil
        chain.deliver(head)
    }

    // MARK: Sending again

    /// Rewinds the request's body, which must be sent again from its first byte. Returns false if that is impossible.
    func rewindBody() -> Bool {
        guard let body, body.rewind() else { return false }
        sentBytes = 0
        isSendingBody = false
        return true
    }

    /// Called when libcurl is about to send the request again, because its connection was lost, or because a 417
    /// response rejected its `Expect` field. Returns false to fail the transfer with `CURLE_ABORTED_BY_CALLBACK`.
    func maySendAgain() -> Bool {
        guard let chain else { return false }
        if isHeadWhole {
            if chain.step.negotiation != nil {
                forgetResponse(chain)
                return true
            }
            // After a 417, libcurl sends the request again, including the user's `Expect` header.
            response.dropsExpectation = isExpectationRefused && isHeadHeld(chain)
            return false
        }
        let refusal = response.head.hasBegun ? nil : handle.refusal
        // libcurl 8.14 does not rewind the body before it sends the request over HTTP/1.1.
        if refusal == .requiresHTTP1, mayLoadOverAnotherConnection(chain) {
            response.isMisdirected = true
            chain.step.needsHTTP1 = true
            return false
        }
        guard RequestRules.isIdempotent(chain.step.request.method) || refusal != nil else {
            var error = chain.failure(
                .networkConnectionLost,
                "The connection was lost before the response. The request was not sent again because it is not idempotent.")
            if handle.long(CURLINFO_REQUEST_SIZE) == 0 { error = error.adding(true, for: URLError.nothingWasSentKey) }
            chain.step.failure = error
            return false
        }
        forgetResponse(chain)
        return true
    }

    /// Whether the received head has not been delivered yet.
    private func isHeadHeld(_ chain: RequestChain) -> Bool {
        if case .askingCookies = chain.phase { true } else { heldHead != nil }
    }

    /// Discards the response, because libcurl is sending the same request again.
    private func forgetResponse(_ chain: RequestChain) {
        response = Response()
        heldHead = nil
        rest = nil
        chain.forgetResponse()
    }

    /// Whether the request can be sent over a dedicated connection: it has not been sent over one yet, and its body can
    /// be sent again.
    func mayLoadOverAnotherConnection(_ chain: RequestChain) -> Bool { !chain.step.isAlone && canRepeatBody(chain) }

    private func canRepeatBody(_ chain: RequestChain) -> Bool { chain.step.request.bodyStream == nil || sentBytes == 0 }

    /// Sends the request again, either without its expectation (RFC 9110, section 10.1.1) or over a dedicated
    /// connection.
    func loadAgain(_ chain: RequestChain) {
        guard canRepeatBody(chain) else {
            return chain.fail(
                chain.failure(
                    .requestBodyStreamExhausted, "The body must be sent again, but its stream cannot be read twice."))
        }
        chain.finishTransaction(isHeadWhole ? nil : "The server did not process the request.")
        var again = ChainStep(again: chain.step)
        if response.dropsExpectation {
            var request = chain.step.request.urlRequest
            request.setValue(nil, forHTTPHeaderField: "Expect")
            again.request = TransferRequest(request)
        }
        if response.isMisdirected { again.isAlone = true }
        chain.load(again)
    }
}
