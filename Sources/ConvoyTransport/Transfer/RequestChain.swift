import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// An HTTP transfer with a delegate, as its user sees it. The counterpart of `NSURLConnection`.
///
/// The chain decides about redirects, HSTS, cookies, the cache and authorization. It runs one exchange at a time, from
/// the network (`NetworkExchange`) or from the cache (`StoredExchange`), each of which produces one response.
///
/// The request's method, headers, body (`httpBody` or `httpBodyStream`), `timeoutInterval` and a `cachePolicy` that
/// forbids reuse are honoured. `timeoutInterval` is the maximum time, in seconds, without a byte transferred in either
/// direction; 0 or less means no limit. libcurl provides HTTP/1.1 with keep-alive, HTTP/2 over TLS, IPv4 and IPv6, and
/// proxies (`ConnectionConfiguration.proxy`). Convoy decodes gzip, deflate, br and zstd.
///
/// A transfer succeeds only with a complete response: a final head, and a body that has the announced length and whose
/// encoded data is complete. A request that is not idempotent (RFC 9110, section 9.2.2) is sent only once.
package final class RequestChain: Connection, HandoverTask, @unchecked Sendable {
    // All mutable state is used on the network thread only.

    /// The original request; see ``Connection``.
    package var originalRequest: URLRequest { firstRequest.urlRequest }
    let firstRequest: TransferRequest
    let configuration: ConnectionConfiguration
    let thread: NetworkThread

    /// What the chain is doing.
    enum Phase {
        case initial
        /// The certificates for TLS are being read from files.
        case preparingTLS
        /// The cache is looking for a response to the request.
        case consulting
        /// No file descriptor was available for a connection. The request is passed to libcurl again when other
        /// transfers have finished.
        case waitingForDescriptor
        /// The transfer is paused before this request, after a redirect. The request is sent on resumption.
        case held(HTTPAddress)
        /// The network or the cache is producing the response.
        case loading
        /// The rest of the network's response is being discarded, for a limited time. The next exchange follows.
        case draining(Next)
        /// The delegate is deciding about a redirect.
        case deciding
        /// The acceptance handler is deciding about the cookies of a response.
        case askingCookies(ResponseHead)
        /// The response is complete and is being stored.
        case storing
        case ended
    }

    /// The exchange that follows a response.
    enum Next {
        case request(URLRequest)
        case stored(any ServableResponse)
    }

    @exclusivity(unchecked) var phase = Phase.initial {
        didSet { network?.noteFlowIfMeasured() }
    }
    @exclusivity(unchecked) var delegate: (any ConnectionDelegate)?
    /// The current request and the state of its response.
    @exclusivity(unchecked) var step: ChainStep
    /// The exchange with a server; nil while none is prepared.
    @exclusivity(unchecked) var network: NetworkExchange?
    var followedRedirects: Int
    /// The requests that have been redirected.
    @exclusivity(unchecked) var redirectHistory = RedirectHistory()
    /// The number of suspensions of receiving. A resumption applies only to the suspensions before it.
    private let suspensionCount = Atomic<UInt32>(0)
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
        delegate: any ConnectionDelegate, thread: NetworkThread = .shared
    ) {
        self.init(TransferRequest(request), configuration: configuration, delegate: delegate, thread: thread)
    }

    package init(
        _ request: TransferRequest, configuration: ConnectionConfiguration, delegate: any ConnectionDelegate,
        thread: NetworkThread
    ) {
        firstRequest = request
        step = ChainStep(request)
        followedRedirects = configuration.continuation?.followed ?? 0
        self.configuration = configuration
        self.delegate = delegate
        self.thread = thread
    }

    // MARK: Called from any thread

    /// Starts the transfer. Call it once, from any thread.
    package func start() {
        if thread.isFreeHere { return begin() }
        if thread.begin(.task(self)) { return }
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

    /// Replaces the current step and begins the next one.
    func load(_ next: consuming ChainStep) {
        replaceStep(with: next)
        load()
    }

    func replaceStep(with next: consuming ChainStep) {
        network?.reset()
        step.cacheWriter?.abandon()
        if step.cache !== next.cache { step.cache?.cancel() }
        step = next
    }

    /// Passes the current request to its exchange.
    private func load() {
        do throws(URLError) {
            try attemptToLoad()
        } catch {
            fail(error)
        }
    }

    private func attemptToLoad() throws(URLError) {
        // Parse the URL once; all later code uses its target.
        var address = try RequestRules.address(of: step.request, hasCache: configuration.cache != nil)
        if let secured = upgraded(address) {
            address = secured
            step.request = try step.request.with(address: secured)
        }
        guard let multi = thread.multi else { throw failure(.cannotLoadFromNetwork, "The network thread is not running.") }
        let request = step.request
        let route = try configuration.routing.route(to: address.target, requested: request.serviceType)
        let tls = followedRedirects == 0 ? configuration.tls.context : tlsContext(for: address.target)
        step.speaksTLS = address.target.isSecure || route?.proxy?.kind == .https
        guard try mayBegin(address.target, tls) else { return }
        // Most requests go directly to a server that has not sent a challenge.
        let authorization =
            configuration.authorizer == nil && route?.proxy == nil ? nil : authorize(request, address, over: route)
        step.header = try multi.header(
            of: request, addingUserAgent: configuration.addsUserAgent, identity: configuration.asksForIdentity,
            omitsExpect: configuration.maximumHTTPVersion == .http1_0, authorization: authorization?.field,
            proxyAuthorization: authorization?.proxyField, cookie: cookies(for: request, address))
        if let credential = authorization?.tunnelCredential {
            step.route = try configuration.routing.route(like: route, for: credential)
        } else if route != nil {
            step.route = route
        }
        step.tls = tls
        if let authorization { step.negotiation = authorization.negotiation }
        step.address = address
        if let cache = configuration.cache?.cache, step.lostBodies < 2 {
            try consult(cache, at: address, for: authorization?.identity)
        } else {
            try send(to: address)
        }
    }

    /// Begins the exchange with the server.
    func send(to address: HTTPAddress) throws(URLError) {
        guard !step.flow.isPaused else {
            phase = .held(address)
            return
        }
        guard let multi = thread.multi, let header = step.header else {
            throw failure(.cannotLoadFromNetwork, "The network thread is not running.")
        }
        guard let network = self.network ?? multi.takeExchange(), network.handle.renew() else {
            throw failure(.cannotLoadFromNetwork, "There is not enough memory for a transfer.")
        }
        self.network = network
        try network.prepare(self, at: address, header)
        // The stored response's age was computed at lookup, which is accurate unless the request had to wait.
        if hasWaited { step.cache?.willSend() }
        phase = .loading
        if configuration.collectsMetrics { reportRequest() }
        try network.start(self, at: address)
    }

    private var hasWaited: Bool {
        switch phase {
        case .consulting, .held: true
        default: step.waitsSince != 0
        }
    }

    // MARK: The response

    /// Evaluates the head of a response from the network. Returns false to abort the transfer with the pending failure.
    func receive(_ response: ResponseHead, setsCookies: Bool) -> Bool {
        if configuration.routing.hsts != nil { noteStrictTransportSecurity(in: response) }
        if setsCookies, !takesCookies(of: response) { return true }
        return evaluate(response)
    }

    /// Evaluates a head whose cookies have been stored.
    func evaluate(_ response: ResponseHead) -> Bool {
        if step.cache != nil {
            switch react(to: response) {
            case .deliver: break
            case .replace(let stored):
                phase = .draining(.stored(stored))
                return network?.awaitsRest(of: response) != false && !isCancelled
            }
        }
        do throws(URLError) {
            if let redirect = try redirect(of: response) { return ask(about: redirect) }
            if response.isEncoded { try prepareToDecode(response.codings, of: response) }
        } catch {
            step.failure = error
            return false
        }
        if network?.holdsBack(response, self) != true { deliver(response) }
        return !isCancelled
    }

    func deliver(_ response: ResponseHead) { delegate?.connection(self, didReceive: response, after: phasesSoFar) }

    /// Forgets the response, because libcurl is sending the same request again.
    func forgetResponse() {
        step.cacheWriter?.abandon()
        step.cacheWriter = nil
        step.decoder = nil
        step.failure = nil
        guard case .askingCookies = phase else { return }
        // Continue without the decision, which concerns only cookies.
        phase = .loading
        updateFlow(.lift(.cookies))
    }

    /// Ends the chain after a complete response.
    func complete() {
        do {
            try step.decoder?.finish()
        } catch {
            return fail(decodingFailure(error))
        }
        guard step.cacheWriter != nil else { return end { $0.connectionDidFinish(self) } }
        finishStoring { chain in chain.end { $0.connectionDidFinish(chain) } }
    }

    // MARK: The end

    func stop() {
        isCancelled = true
        switch phase {
        case .initial, .ended: return  // `start` will report it, or the end was reported
        case .preparingTLS, .consulting: break
        case .waitingForDescriptor: thread.multi?.descriptorQueue.remove(self)
        case .held, .loading, .draining, .deciding, .askingCookies, .storing:
            network?.stop(closing: configuration.closesWhenStopped && network?.isHeadWhole == true)
        }
        end { $0.connectionDidCancel(self) }
    }

    /// Makes the final delegate call and releases everything that the transfer holds.
    func end(_ tell: (any ConnectionDelegate) -> Void) {
        if case .ended = phase { return }
        finishTransaction()
        phase = .ended
        updateFlow(.stop)
        step.decoder = nil
        step.stored = nil
        leaveCache()
        network?.giveBack(hasEnded: true)
        network = nil
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
        URLError(code, url: step.request.url, description, underlying: underlying)
    }
}

extension RequestChain: OpaqueReflectable {}
