import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// One HTTP transfer with a delegate, over libcurl. The counterpart of `NSURLConnection`.
///
/// The request's method, headers, body (`httpBody` or `httpBodyStream`), `timeoutInterval` and a `cachePolicy` that
/// forbids reuse are honoured. `timeoutInterval` is how many seconds may pass without a byte moving in either
/// direction; 0 or less means no limit. libcurl provides HTTP/1.1 with keep-alive, HTTP/2 over TLS, IPv4 and IPv6, and
/// proxies (`ConnectionConfiguration.proxy`); gzip, deflate, br and zstd are decoded here.
///
/// It succeeds only with a complete response: a final head, and a body that is as long as the head announces and whose
/// encoded data is complete. A request that is not idempotent (RFC 9110, section 9.2.2) is sent only once.
package final class URLConnection: Connection, HandoverTask, @unchecked Sendable {
    // All mutable state belongs to the network thread.

    /// The original request; see ``Connection``.
    package var originalRequest: URLRequest { firstRequest.urlRequest }
    let firstRequest: TransferRequest
    let configuration: ConnectionConfiguration
    let thread: NetworkThread

    enum Phase {
        case initial
        /// libcurl runs the request.
        case loading
        /// There was no file descriptor for a connection; the request is passed to libcurl again when other transfers
        /// have finished.
        case waitingForDescriptor
        /// The certificates for TLS are being read from files.
        case preparingTLS
        /// The delegate is deciding about a redirect.
        case deciding
        /// The rest of a redirect's response is discarded, for a limited time; then the next request is sent.
        case following(URLRequest)
        /// The cache is looking for a response to the request.
        case consulting
        /// The acceptance handler is deciding about the cookies of a response.
        case askingAboutCookies(ResponseHead)
        /// The rest of the network's response is discarded, for a limited time; then a stored one is delivered instead.
        case replacing(any ServableResponse)
        /// The transfer is paused before its next request, after a redirect; sent when it is resumed.
        case held(HTTPAddress)
        /// The response is complete, and is being stored.
        case storing
        case ended
    }

    @exclusivity(unchecked) var phase = Phase.initial {
        didSet { if exchange.stallMeter != nil { noteFlow() } }
    }
    @exclusivity(unchecked) var delegate: (any URLConnectionDelegate)?
    /// The current request, and all that is known of its response.
    @exclusivity(unchecked) var exchange: Exchange
    @exclusivity(unchecked) var handle: EasyHandle?
    var followedRedirects: Int
    /// The requests that were redirected.
    @exclusivity(unchecked) var redirectChain = RedirectChain()
    /// How often receiving was suspended: a resumption applies to the last suspension before it.
    private let suspensionCount = Atomic<UInt32>(0)
    /// Apply the rate limits; nil without limits.
    @exclusivity(unchecked) var receiveThrottle: TransferThrottle?
    @exclusivity(unchecked) var sendThrottle: TransferThrottle?
    /// What has been decoded or replayed in the current turn of the run loop.
    @exclusivity(unchecked) var use = TurnShares.Use()
    @exclusivity(unchecked) var isCancelled = false
    /// Whether the transfer was ever held by ``pause()``.
    @exclusivity(unchecked) var wasPaused = false
    /// Whether a stored response must be validated even if it is fresh.
    @exclusivity(unchecked) var revalidates = false
    /// The number of the transfer in its trace; 0 until it has one.
    @exclusivity(unchecked) var traceNumber = 0

    /// A connection that has not been started.
    ///
    /// - Parameters:
    ///   - request: what is sent.
    ///   - configuration: what is not part of the request.
    ///   - delegate: retained until the transfer has ended.
    ///   - thread: the thread on which the transfer runs and the delegate is called.
    package convenience init(
        request: URLRequest, configuration: ConnectionConfiguration = ConnectionConfiguration(),
        delegate: any URLConnectionDelegate, thread: NetworkThread = .shared
    ) {
        self.init(.foundation(request), configuration: configuration, delegate: delegate, thread: thread)
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

    // MARK: Any thread

    /// Starts the transfer. Call it once, from any thread.
    package func start() {
        if thread.isFreeHere { return begin() }
        if thread.perform(self) { return }
        // There is no network thread on which to report it.
        if let delegate, let failure = thread.failure { delegate.connection(self, didFailWith: failure) }
    }

    /// Ends the transfer in any state. Can be called from any thread, any number of times.
    package func cancel() {
        thread.perform { self.stop() }
    }

    /// Continues after ``suspendReceiving()``. Can be called from any thread. A suspension that comes after this call is
    /// not lifted by it.
    package func resumeReceiving() {
        let count = suspensionCount.load(ordering: .acquiring)
        thread.perform {
            guard self.suspensionCount.load(ordering: .relaxed) == count else { return }
            self.carryOut(self.updateFlow(.lift(.delegate)))
        }
    }

    // MARK: The network thread

    /// Holds the body back after the current call. Only for the delegate's methods.
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

    /// Begins an exchange in place of the current one.
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
        // The URL is read once; everything later uses its target.
        var address = try RequestRules.address(of: exchange.request, hasCache: configuration.cache != nil)
        if let secured = upgraded(address) {
            address = secured
            exchange.request = try exchange.request.with(address: secured)
        }
        guard let multi = thread.multi else { throw failure(.cannotLoadFromNetwork, "There is no network thread.") }
        let request = exchange.request
        let route = try configuration.routing.route(to: address.target, requested: request.serviceType)
        let tls = followedRedirects == 0 ? configuration.tls.context : tlsContext(for: address.target)
        exchange.speaksTLS = address.target.isSecure || route?.proxy?.kind == .https
        guard try mayBegin(address.target, tls) else { return }
        // Most requests go directly to a server that has sent no challenge.
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

    /// Passes the request, which is complete, to libcurl.
    func send(to address: HTTPAddress) throws(URLError) {
        guard !exchange.flow.isPaused else {
            phase = .held(address)
            return
        }
        guard let multi = thread.multi, let header = exchange.header else {
            throw failure(.cannotLoadFromNetwork, "There is no network thread.")
        }
        guard let handle = self.handle ?? multi.takeHandle(), handle.renew() else {
            throw failure(.cannotLoadFromNetwork, "There is no memory for a transfer.")
        }
        self.handle = handle
        guard handle.decidesTrust || !exchange.speaksTLS else {
            throw failure(
                .secureConnectionFailed, "This libcurl is not built with OpenSSL, which Convoy's TLS needs.")
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
            // With CURLOPT_CONNECT_TO libcurl uses CONNECT for http too.
            options.mayTunnel = route.proxy?.kind.isHTTP == true && (options.isSecure || route.connectTo != nil)
            options.isScoped = route.key != nil && route.isScoped(address.target)
        }
        options.negotiation = exchange.negotiation
        if let seconds = configuration.timeoutIntervalForConnecting, seconds > 0, seconds < 2e6 {
            options.connectTimeout = max(1, Int(seconds * 1000))
        }
        options.receiveBufferSize = prepareLimits()
        options.tls = exchange.tls
        // Idle connections hold descriptors that this request lacked before.
        if exchange.waitsSince != 0 { options.idleConnectionAge = 1 }
        let clock = makeClock(options)
        let code = handle.prepare(
            address, asWritten: request.isSentAsWritten && exchange.route?.proxy == nil, options: options,
            header: header, trace: makeTraceRecorder(), clock: clock)
        guard code == CURLE_OK else {
            throw URLError(curl: code, systemError: 0, text: "", url: exchange.request.url)
        }
        // The stored response's time is that of the lookup, which usually was just now.
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
            throw failure(.cannotLoadFromNetwork, "libcurl cannot add another transfer.")
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
        // These methods announce an empty body by `Content-Length: 0` (RFC 9110, section 8.6).
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

    /// Makes the last call of the delegate, and releases everything that the transfer holds.
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

    /// An error about the current request.
    func failure(_ code: URLError.Code, _ description: String, underlying: (any Error)? = nil) -> URLError {
        URLError(code, url: exchange.request.url, description, underlying: underlying)
    }
}

extension URLConnection: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    package var customMirror: Mirror { Mirror(self, children: []) }
}
