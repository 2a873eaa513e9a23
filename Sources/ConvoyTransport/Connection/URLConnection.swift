import CCurl
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// One HTTP transfer, with a delegate: the counterpart of `NSURLConnection`, over libcurl.
///
/// The request's method, headers, body (`httpBody` or `httpBodyStream`), `timeoutInterval` and a `cachePolicy` that
/// forbids reuse are honoured. `timeoutInterval` is the time in seconds, fractions included, that may pass without
/// a byte moving in either direction; 0 or less is no limit. HTTP/1.1 with keep-alive, HTTP/2 over TLS, IPv4 and
/// IPv6, and the proxies that the environment names (`http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`) come from
/// libcurl; gzip, deflate, br and zstd are decoded here.
///
/// It succeeds only with a whole response: a final head, and a body that is as long as the head says and whose
/// encoding has come to its end. A request that is not idempotent (RFC 9110, section 9.2.2) is sent once.
public final class URLConnection: Connection, HandoverTask, @unchecked Sendable {
    // Everything that changes belongs to the network thread.

    /// The request as it was given; see ``Connection``.
    public var originalRequest: URLRequest { firstRequest.urlRequest }
    private let firstRequest: TransferRequest
    let configuration: ConnectionConfiguration
    let thread: NetworkThread

    enum Phase {
        case initial
        /// libcurl has the request.
        case loading
        /// There was no descriptor for a connection; libcurl gets the request again when others have finished.
        case waitingForDescriptor
        /// A redirecting response has come, and the delegate is asked what to do.
        case deciding(Redirect)
        /// The rest of a redirecting response is thrown away; then the next request is made.
        case following(URLRequest)
        case ended
    }

    @exclusivity(unchecked) var phase = Phase.initial
    @exclusivity(unchecked) var delegate: (any URLConnectionDelegate)?
    /// The request that is on its way: the original, or what a redirect made of it.
    @exclusivity(unchecked) var currentRequest: TransferRequest
    var followedRedirects = 0
    @exclusivity(unchecked) var handle: EasyHandle?
    @exclusivity(unchecked) var body: (any BodySource)?
    @exclusivity(unchecked) var head = HeadParser()
    /// That of the present request; its response is judged by what it asks for.
    @exclusivity(unchecked) var requestHeader: RequestHeader?
    /// A 417 that is told only if the request is not sent again without `Expect`.
    @exclusivity(unchecked) var heldHead: ResponseHead?
    @exclusivity(unchecked) var dropsExpectation = false
    @exclusivity(unchecked) var decoder: ContentDecoder?
    /// Why the transfer must fail, found in one of libcurl's callbacks.
    @exclusivity(unchecked) var pendingFailure: URLError?
    /// The end of a transfer that came while the delegate was still deciding about its redirect, or while decoded
    /// bytes waited for it.
    @exclusivity(unchecked) var heldResult: CURLcode?
    /// How much of a redirecting response's body was thrown away.
    @exclusivity(unchecked) var discarded = 0
    @exclusivity(unchecked) var sentBytes: Int64 = 0
    /// Whether a byte of the response's body has come.
    @exclusivity(unchecked) var hasReceivedBody = false
    @exclusivity(unchecked) var isReceivingSuspended = false
    @exclusivity(unchecked) var isHeldBack = false
    @exclusivity(unchecked) var isStarved = false
    @exclusivity(unchecked) var isCancelled = false
    /// How often the thread had no descriptor, when libcurl got the request.
    @exclusivity(unchecked) var earlierShortages = 0
    @exclusivity(unchecked) var waitsSince: MonotonicTime = 0
    @exclusivity(unchecked) var times = TransferTimes()

    /// A connection that has not begun.
    ///
    /// - Parameters:
    ///   - delegate: held until the transfer has ended.
    ///   - thread: where the transfer runs and the delegate is called.
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
        self.configuration = configuration
        self.delegate = delegate
        self.thread = thread
    }

    // MARK: Any thread

    /// Begins. Callable once, from any thread.
    public func start() {
        if thread.isFreeHere { return begin() }
        if thread.perform(self) { return }
        // There is no network thread to say so on.
        if let delegate, let failure = thread.failure { delegate.connection(self, didFailWith: failure) }
    }

    /// Ends the transfer, in whatever state it is. Callable from any thread, any number of times.
    public func cancel() {
        thread.perform { self.stop() }
    }

    /// Goes on after ``suspendReceiving()``. Callable from any thread.
    public func resumeReceiving() {
        thread.perform {
            self.isReceivingSuspended = false
            self.resumeFlow()
        }
    }

    // MARK: The network thread

    /// Holds back the body after the present call. To be called from the delegate's methods only.
    public func suspendReceiving() { isReceivingSuspended = true }

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
            end { $0.connection(self, didFailWith: error) }
        }
    }

    private func attemptToLoad(_ request: TransferRequest) throws(URLError) {
        guard let multi = thread.multi else {
            throw URLError(.cannotLoadFromNetwork, url: request.url, "There is no network thread.")
        }
        guard let address = request.address else { throw URLError(.badURL, url: nil, "The request has no URL.") }
        if case .foundation(let request) = request { try RequestRules.check(request, address) }
        let header = try multi.header(of: request)
        guard let handle = self.handle ?? multi.takeHandle(), handle.renew() else {
            throw URLError(.cannotLoadFromNetwork, url: request.url, "There is no memory for a transfer.")
        }
        self.handle = handle
        handle.owner = self
        currentRequest = request
        body?.stop()
        body = makeBody(for: request, announcedLength: header.announcedLength)
        requestHeader = header
        forgetResponse()
        heldResult = nil
        sentBytes = 0
        isHeldBack = false
        isStarved = false

        var options = EasyHandle.Options()
        options.method = request.method
        if let body { options.body = .upload(length: body.length) }
        options.usesHTTP2 = configuration.usesHTTP2
        options.isSecure = !address.utf8.starts(with: "http:".utf8)
        options.mayTunnel = options.isSecure && RequestRules.environmentNamesProxy
        options.receiveBufferSize = configuration.receiveBufferSize
        options.certificateAuthorities = options.isSecure ? configuration.authoritiesPath : nil
        // Connections at rest hold descriptors that this request lacked before.
        if waitsSince != 0 { options.idleConnectionAge = 1 }
        let code = handle.prepare(url: address, options: options, header: header)
        guard code == CURLE_OK else { throw URLError(curl: code, systemError: 0, text: "", url: request.url) }
        phase = .loading
        earlierShortages = multi.descriptorShortages
        startTimer()
        guard multi.start(handle) == CURLM_OK else {
            throw URLError(.cannotLoadFromNetwork, url: request.url, "libcurl takes no further transfer.")
        }
    }

    /// Makes ready for the answer to another request, or to the same when it is sent again.
    func forgetResponse() {
        head.reset()
        heldHead = nil
        dropsExpectation = false
        decoder = nil
        discarded = 0
        hasReceivedBody = false
    }

    private func makeBody(for request: TransferRequest, announcedLength: Int64?) -> (any BodySource)? {
        if let stream = request.bodyStream {
            let body = StreamBody(
                stream: stream, length: announcedLength, url: request.url, throttle: configuration.uploadThrottle,
                thread: thread)
            body.whenReady = { [weak self] in
                self?.isStarved = false
                self?.resumeFlow()
            }
            return body
        }
        if let data = request.body { return DataBody(data) }
        // Methods that mean to carry something say that it is nothing (RFC 9110, section 8.6).
        let method = request.method
        return method != "GET" && ["POST", "PUT", "PATCH"].contains(method) ? DataBody(Data()) : nil
    }

    private func stop() {
        isCancelled = true
        switch phase {
        case .initial, .ended: return  // `start` will tell, or the end was told
        case .waitingForDescriptor:
            thread.multi?.descriptorQueue.remove(self)
            end { $0.connectionDidCancel(self) }
        case .loading, .deciding, .following:
            if let handle { thread.multi?.stop(handle) }
            end { $0.connectionDidCancel(self) }
        }
    }

    /// The last thing that the delegate hears. Gives back all that the transfer held.
    func end(_ tell: (any URLConnectionDelegate) -> Void) {
        if case .ended = phase { return }
        phase = .ended
        body?.stop()
        body = nil
        decoder = nil
        if let handle { thread.multi?.giveBack(handle) }
        handle = nil
        let told = delegate
        delegate = nil
        if let told { tell(told) }
    }

    func fail(_ error: URLError) { end { $0.connection(self, didFailWith: error) } }

    /// An error about the present request.
    func failure(_ code: URLError.Code, _ description: String, underlying: (any Error)? = nil) -> URLError {
        URLError(code, url: currentRequest.url, description, underlying: underlying)
    }
}
