import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// One request to a server and its response, with libcurl.
///
/// The exchange judges what arrives on the wire: heads, framing, ends. It passes each valid head, the bytes of the body
/// and the end to its chain, which decides what follows. An exchange and its libcurl handle are reused for the requests
/// of a chain, and then for other chains. Used on the network thread only.
final class NetworkExchange {
    let handle: EasyHandle
    /// The driver, which outlives the exchange, because the chain retains its thread.
    unowned(unsafe) let multi: MultiHandle
    /// The chain, retained while the exchange is in use.
    @exclusivity(unchecked) private(set) var chain: RequestChain?

    @exclusivity(unchecked) var response = Response()
    /// The result that libcurl reported, kept while the end is held back.
    @exclusivity(unchecked) var heldResult: CURLcode?
    /// A head that is delivered only if the request is not sent again.
    @exclusivity(unchecked) var heldHead: ResponseHead?
    /// The meter that limits how long the rest of the response is read; nil for no limit.
    @exclusivity(unchecked) var rest: DrainMeter?

    @exclusivity(unchecked) var body: (any BodySource)?
    @exclusivity(unchecked) var sentBytes: Int64 = 0
    /// Whether the request's body has been sent only in part.
    @exclusivity(unchecked) var isSendingBody = false

    @exclusivity(unchecked) var times = TransferTimes()
    /// The meter for the stall limit; nil without a limit.
    @exclusivity(unchecked) var stallMeter: StallMeter?
    /// The rate limiters; nil for none.
    @exclusivity(unchecked) var receiveThrottle: TransferThrottle?
    @exclusivity(unchecked) var sendThrottle: TransferThrottle?
    /// The thread's count of descriptor shortages when the request was passed to libcurl.
    @exclusivity(unchecked) private var earlierShortages = 0

    /// The part of the response that has arrived. It is replaced separately if libcurl sends the request again.
    struct Response: ~Copyable {
        var head = HeadParser()
        /// The head of the proxy's response to CONNECT.
        var tunnelAnswer = ConnectResponse()
        /// The TLS session of a connection whose close marks the end of the body.
        var closure: TLSHandshake?
        var dropsExpectation = false
        /// Whether the request must be sent over a different connection.
        var isMisdirected = false
        /// The number of bytes of the body received from libcurl, before decoding.
        var received: Int64 = 0
        /// Whether the body may be truncated although libcurl reports it as complete.
        var isUnproven = false
    }

    init(_ handle: EasyHandle, multi: MultiHandle) {
        self.handle = handle
        self.multi = multi
    }

    /// Whether the final head has arrived completely.
    var isHeadWhole: Bool { response.head.isWhole }
    /// The number of discarded bytes of an unneeded body.
    var discarded: Int { rest.map { $0.limit.isDiscarded ? $0.received : 0 } ?? 0 }
    /// Whether the response rejects the request's `Expect`. libcurl then sends the request again.
    var isExpectationRefused: Bool { response.head.statusCode == 417 && chain?.step.header?.setsExpect == true }
    /// Whether the response is complete according to its head or its announced length (RFC 9112, section 6.3),
    /// regardless of what happens to its stream or connection afterwards. A head to which libcurl may respond itself
    /// does not count.
    var isResponseComplete: Bool {
        guard let chain, isHeadWhole, chain.step.negotiation == nil, !isExpectationRefused else { return false }
        let status = response.head.statusCode
        if chain.step.request.method == "HEAD" || status == 204 || status == 304 { return true }
        return response.head.contentLength.map { response.received >= $0 } ?? false
    }

    // MARK: Beginning

    /// Prepares the handle for the request of a chain.
    func prepare(_ chain: RequestChain, at address: HTTPAddress, _ header: RequestHeader) throws(URLError) {
        guard handle.decidesTrust || !chain.step.speaksTLS else {
            throw chain.failure(
                .secureConnectionFailed, "This libcurl was built without OpenSSL, which Convoy requires for TLS.")
        }
        let request = chain.step.request
        let version = chain.configuration.maximumHTTPVersion
        if version == .http1_0, request.bodyStream != nil, header.announcedLength == nil {
            throw chain.failure(
                .badURL, "HTTP/1.0 does not support a body of unknown length: set the Content-Length of the request.")
        }
        self.chain = chain
        handle.owner = self
        body = makeBody(of: chain, announcedLength: header.announcedLength)

        var options = EasyHandle.Options()
        options.method = request.method
        if let body { options.body = .upload(length: body.length) }
        options.version = chain.step.needsHTTP1 ? min(version, .http1_1) : version
        options.keepsDotSegments = chain.configuration.keepsDotSegments
        options.isSecure = address.target.isSecure
        if let route = chain.step.route {
            options.route = route
            // With CURLOPT_CONNECT_TO, libcurl uses CONNECT even for http.
            options.mayTunnel = route.proxy?.kind.isHTTP == true && (options.isSecure || route.connectTo != nil)
            options.isScoped = route.key != nil && route.isScoped(address.target)
        }
        options.negotiation = chain.step.negotiation
        if let seconds = chain.configuration.timeoutIntervalForConnecting, seconds > 0, seconds < 2e6 {
            options.connectTimeout = max(1, Int(seconds * 1000))
        }
        options.receiveBufferSize = prepareLimits(of: chain)
        options.tls = chain.step.tls
        // Close idle connections, because they hold descriptors that this request needs.
        if chain.step.waitsSince != 0 { options.idleConnectionAge = 1 }
        let clock = chain.makeClock(options)
        let code = handle.prepare(
            address, asWritten: request.isSentAsWritten && chain.step.route?.proxy == nil, options: options,
            header: header, trace: chain.makeTraceRecorder(), clock: clock)
        guard code == CURLE_OK else { throw URLError(curl: code, systemError: 0, text: "", url: request.url) }
    }

    /// Passes the prepared request to libcurl.
    func start(_ chain: RequestChain, at address: HTTPAddress) throws(URLError) {
        earlierShortages = multi.descriptorShortages
        startTimer(of: chain)
        let port = chain.step.route?.proxy?.port ?? address.target.port
        let method = chain.step.request.method
        guard
            multi.start(
                handle, to: port, isAlone: chain.step.isAlone, mayRepeat: RequestRules.isIdempotent(method)) == CURLM_OK
        else { throw chain.failure(.cannotLoadFromNetwork, "libcurl failed to add the transfer.") }
    }

    private func makeBody(of chain: RequestChain, announcedLength: Int64?) -> (any BodySource)? {
        let request = chain.step.request
        if let stream = request.bodyStream {
            return StreamBody(stream: stream, length: announcedLength, url: request.url, thread: chain.thread) {
                [weak chain] in chain?.feed()
            }
        }
        if let data = request.body { return DataBody(data) }
        // These methods specify an empty body with `Content-Length: 0` (RFC 9110, section 8.6).
        let method = request.method
        return method != "GET" && ["POST", "PUT", "PATCH"].contains(method) ? DataBody(Data()) : nil
    }

    // MARK: Ending

    /// Removes the request from libcurl. Must not be called from a libcurl callback.
    func stop(closing: Bool = false) { multi.stop(handle, closing: closing) }

    /// Forgets the request and its response.
    func reset() {
        body?.stop()
        body = nil
        sentBytes = 0
        isSendingBody = false
        response = Response()
        heldResult = nil
        heldHead = nil
        rest = nil
        times = TransferTimes()
        stallMeter = nil
    }

    /// Leaves the chain, and makes the exchange available for others.
    func giveBack(hasEnded: Bool = false) {
        if hasEnded, response.head.hasBegun { multi.madeQueue?.noteEnd() }
        leaveLimits()
        reset()
        multi.giveBack(self)
        chain = nil
    }

    /// Called when libcurl has ended the transfer, and the handle has been removed from libcurl.
    func didFinish(with code: CURLcode) {
        guard let chain else { return }
        switch chain.phase {
        case .initial, .preparingTLS, .consulting, .waitingForDescriptor, .held, .storing, .ended: return
        case .loading where code != CURLE_OK || chain.step.failure != nil || chain.isCancelled:
            return finish(code, chain)
        case .loading, .draining, .deciding, .askingCookies: break
        }
        heldResult = code
        if response.head.isEndedByStream, CurlQuirks.hidesResets { response.isUnproven = mayHideReset(chain) }
        chain.carryOut(chain.updateFlow(.end))
    }

    /// Ends the exchange, now that nothing is held back.
    func endHeldBack() {
        guard let chain, let code = heldResult.take() else { return }
        if case .draining = chain.phase {
            chain.leaveRest(isWhole: code == CURLE_OK && response.closure?.hasEnded != false)
        } else {
            finish(code, chain)
        }
    }

    private func finish(_ code: CURLcode, _ chain: RequestChain) {
        if chain.isCancelled { return chain.end { $0.connectionDidCancel(chain) } }
        if let failure = chain.step.failure { return chain.fail(failure) }
        if rest?.isExhausted == true { return chain.endWithoutRest() }
        if response.dropsExpectation || response.isMisdirected { return loadAgain(chain) }
        // A stream may be reset, or a connection closed, after a complete response.
        guard code == CURLE_OK || isResponseComplete else { return finish(failingWith: code, chain) }
        guard isHeadWhole else {
            return chain.fail(
                chain.failure(.networkConnectionLost, "The connection was closed before the response head was complete."))
        }
        // The connection was closed without a TLS closure alert, which is an incomplete close (RFC 9112, section 9.8).
        if let closure = response.closure, !closure.hasEnded {
            return chain.fail(
                chain.failure(
                    .networkConnectionLost,
                    "The connection was closed without a TLS close notification, so the body may be truncated."))
        }
        if response.isUnproven {
            return chain.fail(
                chain.failure(.networkConnectionLost, "The response has no length and may be truncated.")
                    .adding(true, for: URLError.isUnprovenKey))
        }
        deliverHeldHead(chain)
        chain.complete()
    }

    private func finish(failingWith code: CURLcode, _ chain: RequestChain) {
        if lacksDescriptor { return chain.waitForDescriptor() }
        let error = error(for: code, chain)
        guard let refusal = handle.refusal, !response.head.hasBegun else { return chain.fail(error) }
        chain.step.needsHTTP1 = refusal == .requiresHTTP1
        // Other requests may have taken each connection that libcurl tried.
        response.isMisdirected = mayLoadOverAnotherConnection(chain)
        if response.isMisdirected { return loadAgain(chain) }
        chain.fail(error.adding(true, for: URLError.nothingWasSentKey))
    }

    /// Whether the transfer failed for lack of a descriptor before any of it was sent.
    private var lacksDescriptor: Bool {
        guard !response.head.hasBegun, handle.long(CURLINFO_REQUEST_SIZE) == 0 else { return false }
        return multi.descriptorShortages != earlierShortages || DescriptorLimit.isSystemShort
    }

    /// Whether the response may be truncated although libcurl reports no error, and can be requested again. Encoded
    /// bodies are excluded, because their end can be detected.
    private func mayHideReset(_ chain: RequestChain) -> Bool {
        guard chain.step.decoder == nil, chain.step.request.method != "HEAD",
            RequestRules.isIdempotent(chain.step.request.method), let target = chain.step.address?.target
        else { return false }
        return multi.runningExchanges.contains { $0.mayFillStream(to: target) }
    }

    /// Returns whether the response arrives over HTTP/2 and may exceed libcurl's buffer for a stream.
    private func mayFillStream(to target: Target) -> Bool {
        chain?.step.address?.target == target && isHeadWhole && response.head.isHTTP2
            && response.head.contentLength.map { $0 >= handle.applied.receiveBufferSize } ?? true
    }
}
