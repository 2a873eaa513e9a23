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
public final class URLConnection: Connection, HandoverTask, @unchecked Sendable {
    // All mutable state belongs to the network thread.

    /// The request as it was given; see ``Connection``.
    public var originalRequest: URLRequest { firstRequest.urlRequest }
    let firstRequest: TransferRequest
    let configuration: ConnectionConfiguration
    let thread: NetworkThread

    enum Phase {
        case initial
        /// libcurl has the request.
        case loading
        /// There was no file descriptor for a connection; the request is given to libcurl again when others have
        /// finished.
        case waitingForDescriptor
        /// Certificates are read from files for the TLS of the request.
        case preparingTLS
        /// A redirect has come, and the delegate is asked what to do.
        case deciding(Redirect)
        /// The rest of a redirect's response is discarded, for a moment; then the next request is made.
        case following(URLRequest)
        /// The cache is asked for a response to the request that is ready to be sent.
        case consulting(Departure)
        /// Somebody is asked about the cookies of a response.
        case askingAboutCookies(ResponseHead)
        /// The rest of the network's response is discarded, for a moment; then a stored one is delivered in its place.
        case replacing(any ServableResponse)
        /// The response is complete, and is being stored.
        case storing
        case ended
    }

    @exclusivity(unchecked) var phase = Phase.initial {
        didSet { if stallMeter != nil { noteFlow() } }
    }
    @exclusivity(unchecked) var delegate: (any URLConnectionDelegate)?
    /// The current request: the original one, or that of a redirect.
    @exclusivity(unchecked) var currentRequest: TransferRequest
    /// Where it goes; nil until its URL has been read.
    @exclusivity(unchecked) var currentAddress: HTTPAddress?
    var followedRedirects: Int
    /// The requests that were redirected.
    @exclusivity(unchecked) var redirectChain = RedirectChain()
    @exclusivity(unchecked) var handle: EasyHandle?
    @exclusivity(unchecked) var body: (any BodySource)?
    @exclusivity(unchecked) var head = HeadParser()
    /// The header of the current request, against which the response is checked.
    @exclusivity(unchecked) var requestHeader: RequestHeader?
    /// A 417 that is delivered only if the request is not sent again without `Expect`.
    @exclusivity(unchecked) var heldHead: ResponseHead?
    @exclusivity(unchecked) var dropsExpectation = false
    @exclusivity(unchecked) var decoder: ContentDecoder?
    /// The handshake of the connection, where its end is the end of the body.
    var closure: TLSHandshake?
    /// The error with which the transfer must fail, found in one of libcurl's callbacks.
    @exclusivity(unchecked) var pendingFailure: URLError?
    /// What holds the current response up, and what is kept waiting meanwhile.
    @exclusivity(unchecked) var flow = TransferState() {
        didSet { if stallMeter != nil { noteFlow() } }
    }
    /// How libcurl has ended the transfer, while that has to wait.
    @exclusivity(unchecked) var heldResult: CURLcode?
    /// How many bytes of a redirect's body were discarded.
    @exclusivity(unchecked) var discarded = 0
    @exclusivity(unchecked) var sentBytes: Int64 = 0
    /// Whether some of the request's body has been sent, and some has not.
    @exclusivity(unchecked) var isSendingBody = false
    /// How often receiving was suspended: a resumption is for the last suspension before it.
    private let suspensionCount = Atomic<UInt32>(0)
    /// Hold the transfer to its rate limits; nil as long as there are none.
    @exclusivity(unchecked) var receiveThrottle: TransferThrottle?
    @exclusivity(unchecked) var sendThrottle: TransferThrottle?
    /// Nil where a transfer may be as slow as it likes.
    @exclusivity(unchecked) var stallMeter: Reference<StallMeter>?
    @exclusivity(unchecked) var isCancelled = false
    /// The thread's count of descriptor shortages when libcurl got the request.
    @exclusivity(unchecked) var earlierShortages = 0
    @exclusivity(unchecked) var waitsSince: MonotonicTime = 0
    @exclusivity(unchecked) var times = TransferTimes()
    /// The head of the proxy's answer to CONNECT.
    @exclusivity(unchecked) var tunnelAnswer = TunnelAnswer()
    /// Whether libcurl authenticates the connection, in several messages.
    @exclusivity(unchecked) var negotiates = false
    /// What goes on between the current request and the cache; nil where that was not asked.
    @exclusivity(unchecked) var exchange: (any ResponseCacheExchange)?
    /// The stored response that is being delivered.
    @exclusivity(unchecked) var replay: Replay?
    /// How often a stored body could not be read, so that the request was begun anew.
    @exclusivity(unchecked) var lostReplays = 0
    /// Whether a stored response is to be validated, however fresh it is.
    @exclusivity(unchecked) var revalidates = false
    /// Stores the body of the current response.
    @exclusivity(unchecked) var cacheWriter: (any ResponseCacheWriter)?
    /// When the next request began, which has to wait; nil if nobody wants to know.
    @exclusivity(unchecked) var earlierStart: StartMoment?
    /// Whether the delegate knows of the current request, and will hear of its end.
    @exclusivity(unchecked) var isRequestTold = false
    /// The number of the transfer in its trace; 0 until it has one.
    @exclusivity(unchecked) var traceNumber = 0

    /// A connection that has not been started.
    ///
    /// - Parameters:
    ///   - request: what is sent.
    ///   - configuration: what is not part of the request.
    ///   - delegate: retained until the transfer has ended.
    ///   - thread: the thread on which the transfer runs and the delegate is called.
    public convenience init(
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
        currentRequest = request
        followedRedirects = configuration.continuation?.followed ?? 0
        self.configuration = configuration
        self.delegate = delegate
        self.thread = thread
    }

    // MARK: Any thread

    /// Starts the transfer. To be called once, from any thread.
    public func start() {
        if thread.isFreeHere { return begin() }
        if thread.perform(self) { return }
        // There is no network thread on which to report it.
        if let delegate, let failure = thread.failure { delegate.connection(self, didFailWith: failure) }
    }

    /// Ends the transfer in any state. Can be called from any thread, any number of times.
    public func cancel() {
        thread.perform { self.stop() }
    }

    /// Continues after ``suspendReceiving()``. Can be called from any thread. A suspension that comes after this call is
    /// not lifted by it.
    public func resumeReceiving() {
        let count = suspensionCount.load(ordering: .acquiring)
        thread.perform {
            guard self.suspensionCount.load(ordering: .relaxed) == count else { return }
            self.carryOut(self.flow.handle(.lift(.delegate)))
        }
    }

    // MARK: The network thread

    /// Holds back the body after the current call. To be called only from the delegate's methods.
    public func suspendReceiving() {
        suspensionCount.add(1, ordering: .releasing)
        _ = flow.handle(.hold(.delegate))
    }

    package func runHandedOver() { begin() }

    private func begin() {
        guard case .initial = phase else { return }
        if isCancelled {
            end { $0.connectionDidCancel(self) }
        } else {
            load(currentRequest)
        }
    }

    /// Hands a request to libcurl.
    func load(_ request: TransferRequest) {
        do throws(URLError) {
            try attemptToLoad(request)
        } catch {
            fail(error)
        }
    }

    private func attemptToLoad(_ given: TransferRequest) throws(URLError) {
        // Read once: all that follows decides by its target.
        var address = try RequestRules.address(of: given, hasCache: configuration.cache != nil)
        var request = given
        if let secured = upgraded(address) {
            address = secured
            request = try given.with(address: secured)
        }
        guard let multi = thread.multi else {
            throw URLError(.cannotLoadFromNetwork, url: request.url, "There is no network thread.")
        }
        let target = address.target
        let route = try configuration.routing.route(to: target, requested: NetworkServiceType(of: request))
        let proxy = route?.proxy
        let tls = followedRedirects == 0 ? configuration.tls.context : tlsContext(for: target)
        let speaksTLS = target.isSecure || proxy?.kind == .https
        guard try mayBegin(request, target, tls, speaksTLS: speaksTLS) else { return }
        let authorization = authorize(request, address, over: route)
        let header = try multi.header(
            of: request, addingUserAgent: configuration.addsUserAgent, authorization: authorization.field,
            proxyAuthorization: authorization.proxyField, cookie: cookies(for: request, address))
        let ownRoute = try authorization.tunnelCredential.map { credential throws(URLError) in
            try configuration.routing.route(like: route, for: credential)
        }
        let departure = Departure(
            request: request, place: address, header: header, route: ownRoute ?? route, tls: tls, speaksTLS: speaksTLS,
            negotiation: authorization.negotiation)
        if let cache = configuration.cache?.cache, exchange == nil, lostReplays < 2 {
            return try consult(cache, departure, authorization)
        }
        try send(departure)
    }

    /// A request that is ready to be sent.
    struct Departure {
        let request: TransferRequest
        let place: HTTPAddress
        var header: RequestHeader
        let route: Route?
        let tls: TLSContext
        /// Whether TLS is spoken, with the server or with a proxy.
        let speaksTLS: Bool
        let negotiation: Negotiation?

        /// What libcurl is given: a URL that leads to the target and to no other.
        var address: String { place.text }
        var target: Target { place.target }
        var isSecure: Bool { place.target.isSecure }
    }

    func send(_ departure: Departure) throws(URLError) {
        let request = departure.request
        let header = departure.header
        guard let multi = thread.multi else {
            throw URLError(.cannotLoadFromNetwork, url: request.url, "There is no network thread.")
        }
        guard let handle = self.handle ?? multi.takeHandle(), handle.renew() else {
            throw URLError(.cannotLoadFromNetwork, url: request.url, "There is no memory for a transfer.")
        }
        self.handle = handle
        guard handle.decidesTrust || !departure.speaksTLS else {
            throw URLError(
                .secureConnectionFailed, url: request.url,
                "This libcurl is not built with OpenSSL, which Convoy's TLS needs.")
        }
        handle.owner = self
        (currentRequest, currentAddress) = (request, departure.place)
        body?.stop()
        body = makeBody(for: request, announcedLength: header.announcedLength)
        requestHeader = header
        forgetResponse()
        heldResult = nil
        flow = flow.next
        sentBytes = 0
        isSendingBody = false

        var options = EasyHandle.Options()
        options.method = request.method
        if let body { options.body = .upload(length: body.length) }
        options.usesHTTP2 = configuration.usesHTTP2
        options.isSecure = departure.isSecure
        if let route = departure.route {
            options.route = route
            // libcurl asks for a tunnel also where the proxy must not see the URL's host for the one to connect to.
            options.mayTunnel = route.proxy?.kind.isHTTP == true && (departure.isSecure || route.connectTo != nil)
            options.isScoped = route.key != nil && route.isScoped(departure.target)
        }
        options.negotiation = departure.negotiation
        if let seconds = configuration.timeoutIntervalForConnecting, seconds > 0, seconds < 2e6 {
            options.connectTimeout = max(1, Int(seconds * 1000))
        }
        options.receiveBufferSize = prepareLimits()
        options.tls = departure.tls
        // Idle connections hold descriptors that this request lacked before.
        if waitsSince != 0 { options.idleConnectionAge = 1 }
        let code = handle.prepare(
            url: departure.address, options: options, header: header, trace: makeTraceRecorder(),
            clock: makeClock(for: departure, options))
        guard code == CURLE_OK else { throw URLError(curl: code, systemError: 0, text: "", url: request.url) }
        // An exchange knows when it answered, which mostly was just now.
        if waitsSince != 0 { exchange?.willSend() } else if case .consulting = phase { exchange?.willSend() }
        phase = .loading
        earlierShortages = multi.descriptorShortages
        if configuration.collectsMetrics { tellOfRequest(departure) }
        startTimer()
        guard multi.start(handle) == CURLM_OK else {
            throw URLError(.cannotLoadFromNetwork, url: request.url, "libcurl cannot add another transfer.")
        }
    }

    /// Prepares for the response to another request, or to the same one when it is sent again.
    func forgetResponse() {
        head.reset()
        tunnelAnswer = TunnelAnswer()
        heldHead = nil
        dropsExpectation = false
        decoder = nil
        closure = nil
        discarded = 0
        cacheWriter?.abandon()
        cacheWriter = nil
    }

    private func makeBody(for request: TransferRequest, announcedLength: Int64?) -> (any BodySource)? {
        if let stream = request.bodyStream {
            let body = StreamBody(
                stream: stream, length: announcedLength, url: request.url, thread: thread)
            body.whenReady = { [weak self] in self?.feed() }
            return body
        }
        if let data = request.body { return DataBody(data) }
        // These methods announce an empty body by `Content-Length: 0` (RFC 9110, section 8.6).
        let method = request.method
        return method != "GET" && ["POST", "PUT", "PATCH"].contains(method) ? DataBody(Data()) : nil
    }

    private func stop() {
        isCancelled = true
        switch phase {
        case .initial, .ended: return  // `start` will report it, or the end was reported
        case .waitingForDescriptor:
            thread.multi?.descriptorQueue.remove(self)
            end { $0.connectionDidCancel(self) }
        case .preparingTLS, .consulting: end { $0.connectionDidCancel(self) }
        case .loading, .deciding, .following, .askingAboutCookies, .replacing, .storing:
            let closing = configuration.closesWhenStopped && head.isWhole
            if let handle { thread.multi?.stop(handle, closing: closing) }
            end { $0.connectionDidCancel(self) }
        }
    }

    /// Makes the last call to the delegate, and releases everything that the transfer held.
    func end(_ tell: (any URLConnectionDelegate) -> Void) {
        if case .ended = phase { return }
        finishTransaction()
        phase = .ended
        _ = flow.handle(.stop)
        body?.stop()
        body = nil
        decoder = nil
        replay = nil
        leaveLimits()
        endExchange()
        if let handle { thread.multi?.giveBack(handle) }
        handle = nil
        let told = delegate
        delegate = nil
        if let told { tell(told) }
    }

    func fail(_ error: URLError) {
        finishTransaction()
        if servesStale(insteadOf: error) { return }
        let error = error.hiding(configuration.secrets)
        traceFailure(error)
        end { $0.connection(self, didFailWith: error) }
    }

    /// An error about the current request.
    func failure(_ code: URLError.Code, _ description: String, underlying: (any Error)? = nil) -> URLError {
        URLError(code, url: currentRequest.url, description, underlying: underlying)
    }
}

extension URLConnection: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
