import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// An HTTP transfer with a delegate, implemented with libcurl. The counterpart of `NSURLConnection`.
///
/// The request's method, headers, body (`httpBody` or `httpBodyStream`), `timeoutInterval` and a `cachePolicy` that
/// forbids reuse are honoured. `timeoutInterval` is the maximum time, in seconds, without a byte transferred in either
/// direction; 0 or less means no limit. libcurl provides HTTP/1.1 with keep-alive, HTTP/2 over TLS, IPv4 and IPv6, and
/// proxies (`ConnectionConfiguration.proxy`). Convoy decodes gzip, deflate, br and zstd.
///
/// A transfer succeeds only with a complete response: a final head, and a body that has the announced length and whose
/// encoded data is complete. A request that is not idempotent (RFC 9110, section 9.2.2) is sent only once.
package final class URLConnection: Connection, HandoverTask, @unchecked Sendable {
    // All mutable state is used on the network thread only.

    /// The original request; see ``Connection``.
    package var originalRequest: URLRequest { firstRequest.urlRequest }
    let firstRequest: TransferRequest
    let configuration: ConnectionConfiguration
    let thread: NetworkThread

    enum Phase {
        case initial
        /// libcurl is executing the request.
        case loading
        /// No file descriptor was available for a connection. The request is passed to libcurl again when other
        /// transfers have finished.
        case waitingForDescriptor
        /// The certificates for TLS are being read from files.
        case preparingTLS
        /// The delegate is deciding about a redirect.
        case deciding
        /// The rest of a redirect's response is being discarded, for a limited time. The next request follows.
        case following(URLRequest)
        /// The cache is looking for a response to the request.
        case consulting
        /// The acceptance handler is deciding about the cookies of a response.
        case askingAboutCookies(ResponseHead)
        /// The rest of the network's response is being discarded, for a limited time. A stored response follows.
        case replacing(any ServableResponse)
        /// The transfer is paused before its next request, after a redirect. The request is sent on resumption.
        case held(HTTPAddress)
        /// The response is complete and is being stored.
        case storing
        case ended
    }

    @exclusivity(unchecked) var phase = Phase.initial {
        didSet { if exchange.stallMeter != nil { noteFlow() } }
    }
    @exclusivity(unchecked) var delegate: (any URLConnectionDelegate)?
    /// The current request and the state of its response.
    @exclusivity(unchecked) var exchange: Exchange
    @exclusivity(unchecked) var handle: EasyHandle?
    var followedRedirects: Int
    /// The requests that have been redirected.
    @exclusivity(unchecked) var redirectChain = RedirectChain()
    /// The number of suspensions of receiving. A resumption applies only to the suspensions before it.
    private let suspensionCount = Atomic<UInt32>(0)
    /// The rate limiters; nil for none.
    @exclusivity(unchecked) var receiveThrottle: TransferThrottle?
    @exclusivity(unchecked) var sendThrottle: TransferThrottle?
    /// The bytes decoded or replayed in the current turn of the run loop.
    @exclusivity(unchecked) var use = TurnShares.Use()
    @exclusivity(unchecked) var isCancelled = false
    /// Whether the transfer has ever been held by ``pause()``.
    @exclusivity(unchecked) var wasPaused = false
    /// Whether a stored response must be validated even if it is fresh.
    @exclusivity(unchecked) var revalidates = false
    /// The number of the transfer in its trace; 0 until one is assigned.
    @exclusivity(unchecked) var traceNumber = 0

    /// Creates a connection without starting it.
    ///
    /// - Parameters:
    ///   - request: The request to send.
    ///   - configuration: The settings that are not part of the request.
    ///   - delegate: The delegate, which is retained until the transfer has ended.
    ///   - thread: The thread on which the transfer runs and the delegate is called.
    package convenience init(
        request: URLRequest, configuration: ConnectionConfiguration = ConnectionConfiguration(),
        delegate: any URLConnectionDelegate, thread: NetworkThread = .shared
    ) {
        self.init(TransferRequest(request), configuration: configuration, delegate: delegate, thread: thread)
    }

    package init(
        _ request: TransferRequest, configuration: ConnectionConfiguration, delegate: any URLConnectionDelegate,
        thread: NetworkThread
    ) {
        firstRequest = request
        exchange = Exchange(request)
        followedRedirects = configuration.continuation?.followed ?? 0
        self.configuration = configuration
        self.delegate = delegate
        self.thread = thread
    }

    // MARK: Called from any thread

    /// Starts the transfer. Call it once, from any thread.
    package func start() {
        if thread.isFreeHere { return begin() }
        if thread.perform(self) { return }
        // The network thread is not running, so report the failure on the calling thread.
        if let delegate, let failure = thread.failure { delegate.connection(self, didFailWith: failure) }
    }

    /// Ends the transfer in any state. Can be called from any thread, any number of times.
    package func cancel() {
        thread.perform { self.stop() }
    }

    /// Resumes after ``suspendReceiving()``. Can be called from any thread. It does not lift suspensions made after
    /// this call.
    package func resumeReceiving() {
        let count = suspensionCount.load(ordering: .acquiring)
        thread.perform {
            guard self.suspensionCount.load(ordering: .relaxed) == count else { return }
            self.carryOut(self.updateFlow(.lift(.delegate)))
        }
    }

    // MARK: Called on the network thread

    /// Suspends delivery of the body after the current call. Only for the delegate's methods.
    package func suspendReceiving() {
        suspensionCount.add(1, ordering: .releasing)
        updateFlow(.hold(.delegate))
    }

    package func runHandedOver() { begin() }

    private func begin() {
        guard case .initial = phase else { return }
        if isCancelled {
            end { $0.connectionDidCancel(self) }
        } else {
            load()
        }
    }

    /// Replaces the current exchange and begins the next one.
    func load(_ next: consuming Exchange) {
        replaceExchange(with: next)
        load()
    }

    func replaceExchange(with next: consuming Exchange) {
        exchange.body?.stop()
        exchange.response.cacheWriter?.abandon()
        if exchange.cache !== next.cache { exchange.cache?.cancel() }
        exchange = next
    }

    /// Passes the current request to libcurl.
    private func load() {
        do throws(URLError) {
            try attemptToLoad()
        } catch {
            fail(error)
        }
    }

    private func attemptToLoad() throws(URLError) {
        // Parse the URL once; all later code uses its target.
        var address = try RequestRules.address(of: exchange.request, hasCache: configuration.cache != nil)
        if let secured = upgraded(address) {
            address = secured
            exchange.request = try exchange.request.with(address: secured)
        }
        guard let multi = thread.multi else { throw failure(.cannotLoadFromNetwork, "The network thread is not running.") }
        let request = exchange.request
        let route = try configuration.routing.route(to: address.target, requested: request.serviceType)
        let tls = followedRedirects == 0 ? configuration.tls.context : tlsContext(for: address.target)
        exchange.speaksTLS = address.target.isSecure || route?.proxy?.kind == .https
        guard try mayBegin(address.target, tls) else { return }
        // Most requests go directly to a server that has not sent a challenge.
        let authorization =
            configuration.authorizer == nil && route?.proxy == nil ? nil : authorize(request, address, over: route)
        exchange.header = try multi.header(
            of: request, addingUserAgent: configuration.addsUserAgent, identity: configuration.asksForIdentity,
            authorization: authorization?.field,
            proxyAuthorization: authorization?.proxyField, cookie: cookies(for: request, address))
        if let credential = authorization?.tunnelCredential {
            exchange.route = try configuration.routing.route(like: route, for: credential)
        } else if route != nil {
            exchange.route = route
        }
        exchange.tls = tls
        if let authorization { exchange.negotiation = authorization.negotiation }
        exchange.address = address
        if let cache = configuration.cache?.cache, exchange.lostReplays < 2 {
            try consult(cache, at: address, for: authorization?.identity)
        } else {
            try send(to: address)
        }
    }

    /// Passes the complete request to libcurl.
    func send(to address: HTTPAddress) throws(URLError) {
        guard !exchange.flow.isPaused else {
            phase = .held(address)
            return
        }
        guard let multi = thread.multi, let header = exchange.header else {
            throw failure(.cannotLoadFromNetwork, "The network thread is not running.")
        }
        guard let handle = self.handle ?? multi.takeHandle(), handle.renew() else {
            throw failure(.cannotLoadFromNetwork, "There is not enough memory for a transfer.")
        }
        self.handle = handle
        guard handle.decidesTrust || !exchange.speaksTLS else {
            throw failure(
                .secureConnectionFailed, "This libcurl was built without OpenSSL, which Convoy requires for TLS.")
        }
        handle.owner = self
        exchange.body = makeBody(announcedLength: header.announcedLength)

        let request = exchange.request
        var options = EasyHandle.Options()
        options.method = request.method
        if let body = exchange.body { options.body = .upload(length: body.length) }
        options.usesHTTP2 = configuration.usesHTTP2 && !exchange.needsHTTP1
        options.isSecure = address.target.isSecure
        if let route = exchange.route {
            options.route = route
            // With CURLOPT_CONNECT_TO, libcurl uses CONNECT even for http.
            options.mayTunnel = route.proxy?.kind.isHTTP == true && (options.isSecure || route.connectTo != nil)
            options.isScoped = route.key != nil && route.isScoped(address.target)
        }
        options.negotiation = exchange.negotiation
        if let seconds = configuration.timeoutIntervalForConnecting, seconds > 0, seconds < 2e6 {
            options.connectTimeout = max(1, Int(seconds * 1000))
        }
        options.receiveBufferSize = prepareLimits()
        options.tls = exchange.tls
        // Close idle connections, because they hold descriptors that this request needs.
        if exchange.waitsSince != 0 { options.idleConnectionAge = 1 }
        let clock = makeClock(options)
        let code = handle.prepare(
            address, asWritten: request.isSentAsWritten && exchange.route?.proxy == nil, options: options,
            header: header, trace: makeTraceRecorder(), clock: clock)
        guard code == CURLE_OK else {
            throw URLError(curl: code, systemError: 0, text: "", url: exchange.request.url)
        }
        // The stored response's age was computed at lookup, which is accurate unless the request had to wait.
        switch phase {
        case .consulting, .held: exchange.cache?.willSend()
        default: if exchange.waitsSince != 0 { exchange.cache?.willSend() }
        }
        phase = .loading
        exchange.earlierShortages = multi.descriptorShortages
        if configuration.collectsMetrics { reportRequest() }
        startTimer()
        let port = exchange.route?.proxy?.port ?? address.target.port
        guard
            multi.start(
                handle, to: port, isAlone: exchange.isAlone, mayRepeat: RequestRules.isIdempotent(request.method))
                == CURLM_OK
        else {
            throw failure(.cannotLoadFromNetwork, "libcurl failed to add the transfer.")
        }
    }

    private func makeBody(announcedLength: Int64?) -> (any BodySource)? {
        let request = exchange.request
        if let stream = request.bodyStream {
            let body = StreamBody(stream: stream, length: announcedLength, url: request.url, thread: thread)
            body.whenReady = { [weak self] in self?.feed() }
            return body
        }
        if let data = request.body { return DataBody(data) }
        // These methods specify an empty body with `Content-Length: 0` (RFC 9110, section 8.6).
        let method = request.method
        return method != "GET" && ["POST", "PUT", "PATCH"].contains(method) ? DataBody(Data()) : nil
    }

    func stop() {
        isCancelled = true
        switch phase {
        case .initial, .ended: return  // `start` will report it, or the end was reported
        case .waitingForDescriptor:
            thread.multi?.descriptorQueue.remove(self)
            end { $0.connectionDidCancel(self) }
        case .preparingTLS, .consulting, .held: end { $0.connectionDidCancel(self) }
        case .loading, .deciding, .following, .askingAboutCookies, .replacing, .storing:
            let closing = configuration.closesWhenStopped && exchange.head.isWhole
            if let handle { thread.multi?.stop(handle, closing: closing) }
            end { $0.connectionDidCancel(self) }
        }
    }

    /// Makes the final delegate call and releases everything that the transfer holds.
    func end(_ tell: (any URLConnectionDelegate) -> Void) {
        if case .ended = phase { return }
        finishTransaction()
        phase = .ended
        updateFlow(.stop)
        exchange.body?.stop()
        exchange.body = nil
        exchange.response.decoder = nil
        exchange.replay = nil
        leaveLimits()
        leaveCache()
        if let handle, let multi = thread.multi {
            if exchange.head.hasBegun { multi.madeQueue?.noteEnd() }
            multi.giveBack(handle)
        }
        handle = nil
        let told = delegate
        delegate = nil
        if let told { tell(told) }
    }

    func fail(_ error: URLError) {
        finishTransaction(Redaction.text(error.localizedDescription))
        if servesStale(insteadOf: error) { return }
        let error = afterPause(error).hiding(configuration.secrets)
        traceFailure(error)
        end { $0.connection(self, didFailWith: error) }
    }

    /// Creates an error about the current request.
    func failure(_ code: URLError.Code, _ description: String, underlying: (any Error)? = nil) -> URLError {
        URLError(code, url: exchange.request.url, description, underlying: underlying)
    }
}

extension URLConnection: CustomReflectable {
    /// An empty mirror, so that `dump` prints no secrets.
    package var customMirror: Mirror { Mirror(self, children: []) }
}
