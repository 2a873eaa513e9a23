import CCurl
import Foundation
import FoundationNetworking
import Synchronization

/// One HTTP transfer, with a delegate: `NSURLConnection`'s place, over libcurl.
///
/// The request's method, headers, body (`httpBody` or `httpBodyStream`), `timeoutInterval` and a `cachePolicy` that
/// forbids reuse are honoured. `timeoutInterval` is the time in seconds, fractions included, that may pass without
/// a byte moving in either direction; 0 or less is no limit. HTTP/1.1 with keep-alive, HTTP/2 over TLS, gzip,
/// deflate, br and zstd, IPv4 and IPv6, and the proxies that the environment names (`http_proxy`, `https_proxy`,
/// `all_proxy`, `no_proxy`) come from libcurl.
public final class URLConnection: Connection, @unchecked Sendable {
    // Everything that changes belongs to the network thread.

    public let originalRequest: URLRequest
    let configuration: ConnectionConfiguration
    let thread: NetworkThread

    enum Phase {
        case initial
        /// libcurl has the request.
        case loading
        /// A redirecting response has come, and the delegate is asked what to do.
        case deciding(Redirect)
        /// The rest of a redirecting response is thrown away; then the next request is made.
        case following(URLRequest)
        case ended
    }

    var phase = Phase.initial
    var delegate: (any URLConnectionDelegate)?
    /// The request that is on its way: the original, or what a redirect made of it.
    var currentRequest: URLRequest
    var followedRedirects = 0
    var handle: EasyHandle?
    var body: (any BodySource)?
    var head = HeadParser()
    /// Why the transfer must fail, found in one of libcurl's callbacks.
    var pendingFailure: URLError?
    /// The end of a transfer that came while the delegate was still deciding about its redirect.
    var heldResult: CURLcode?
    var discarded = 0
    var decodedBytes: Int64 = 0
    var sentBytes: Int64 = 0
    var isReceivingSuspended = false
    var isHeldBack = false
    var isStarved = false
    var isCancelled = false
    private var lastActivity: MonotonicTime = 0
    /// Nanoseconds; 0 for no limit.
    private var timeout: MonotonicTime = 0

    /// A connection that has not begun.
    ///
    /// - Parameters:
    ///   - delegate: held until the transfer has ended.
    ///   - thread: where the transfer runs and the delegate is called.
    public init(
        request: URLRequest, configuration: ConnectionConfiguration = ConnectionConfiguration(),
        delegate: any URLConnectionDelegate, thread: NetworkThread = .shared
    ) {
        originalRequest = request
        currentRequest = request
        self.configuration = configuration
        self.delegate = delegate
        self.thread = thread
    }

    // MARK: Any thread

    public func start() {
        if thread.isFreeHere { return begin() }
        if thread.perform({ self.begin() }) { return }
        // There is no network thread to say so on.
        if let delegate, let failure = thread.failure { delegate.connection(self, didFailWith: failure) }
    }

    public func cancel() {
        thread.perform { self.stop() }
    }

    public func resumeReceiving() {
        thread.perform {
            self.isReceivingSuspended = false
            self.resumeFlow()
        }
    }

    // MARK: The network thread

    public func suspendReceiving() { isReceivingSuspended = true }

    private func begin() {
        guard case .initial = phase else { return }
        if isCancelled {
            end { $0.connectionDidCancel(self) }
        } else {
            load(currentRequest)
        }
    }

    /// Hands a request to libcurl.
    func load(_ request: URLRequest) {
        do throws(URLError) {
            try attemptToLoad(request)
        } catch {
            end { $0.connection(self, didFailWith: error) }
        }
    }

    private func attemptToLoad(_ request: URLRequest) throws(URLError) {
        let hasBody = request.httpBodyStream != nil || !(request.httpBody?.isEmpty ?? true)
        guard let multi = thread.multi else {
            throw URLError(.cannotLoadFromNetwork, url: request.url, "There is no network thread.")
        }
        guard let url = request.url else { throw URLError(.badURL, url: nil, "The request has no URL.") }
        let address = url.absoluteString
        let lines = try RequestRules.lines(
            for: request, url, address, hasBody: hasBody, isStreamed: request.httpBodyStream != nil)
        guard let handle = self.handle ?? multi.takeHandle() else {
            throw URLError(.cannotLoadFromNetwork, url: url, "There is no memory for a transfer.")
        }
        self.handle = handle
        handle.owner = self
        currentRequest = request
        body?.stop()
        body = makeBody(for: request, announcedLength: lines.announcedLength)
        head.reset()
        sentBytes = 0
        discarded = 0
        decodedBytes = 0
        heldResult = nil
        isHeldBack = false
        isStarved = false

        var options = EasyHandle.Options()
        options.method = request.httpMethod ?? "GET"
        if let body { options.body = .upload(length: body.length) }
        // The byte positions of a range are those of the body as sent, so it must not be encoded on the way; and
        // who asks for an encoding by hand wants to see it.
        options.acceptsEncodings = !lines.asksForRange && !lines.setsAcceptEncoding
        options.usesHTTP2 = configuration.usesHTTP2
        options.isSecure = !address.utf8.starts(with: "http:".utf8)
        options.receiveBufferSize = configuration.receiveBufferSize
        options.certificateAuthorities = options.isSecure ? configuration.authoritiesPath : nil
        let code = handle.prepare(
            url: address, options: options, lines: lines.headers, proxyLines: lines.proxyHeaders)
        guard code == CURLE_OK else { throw URLError(curl: code, systemError: 0, text: "", url: url) }
        phase = .loading
        startTimer()
        guard multi.start(handle) == CURLM_OK else {
            throw URLError(.cannotLoadFromNetwork, url: url, "libcurl takes no further transfer.")
        }
    }

    private func makeBody(for request: URLRequest, announcedLength: Int64?) -> (any BodySource)? {
        if let stream = request.httpBodyStream {
            let body = StreamBody(
                stream: stream, length: announcedLength, url: request.url, throttle: configuration.uploadThrottle,
                thread: thread)
            body.whenReady = { [weak self] in
                self?.isStarved = false
                self?.resumeFlow()
            }
            return body
        }
        if let data = request.httpBody { return DataBody(data) }
        // Methods that mean to carry something say that it is nothing (RFC 9110, section 8.6).
        return ["POST", "PUT", "PATCH"].contains(request.httpMethod ?? "GET") ? DataBody(Data()) : nil
    }

    private func stop() {
        isCancelled = true
        switch phase {
        case .initial, .ended: return  // `start` will tell, or the end was told
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
        if let handle { thread.multi?.giveBack(handle) }
        handle = nil
        let told = delegate
        delegate = nil
        if let told { tell(told) }
    }

    // MARK: The idle timeout

    private func startTimer() {
        let interval = currentRequest.timeoutInterval
        guard interval > 0, interval < 1e9, let runLoop = thread.runLoop else {
            timeout = 0
            return
        }
        timeout = UInt64(interval * 1e9)
        lastActivity = runLoop.turnTime
        handle?.schedule(at: lastActivity + timeout, on: runLoop)
    }

    /// A byte has moved. The timer is left where it is: when it fires, it finds out how much too early that was.
    func noteActivity() { lastActivity = thread.runLoop?.turnTime ?? lastActivity }

    func easyHandleTimerDidFire(_ handle: EasyHandle) {
        guard timeout > 0, let runLoop = thread.runLoop else { return }
        let now = runLoop.turnTime
        // What this side is the cause of is not the server's fault.
        if isHeldBack || isStarved { lastActivity = now }
        if case .deciding = phase { lastActivity = now }
        let deadline = lastActivity + timeout
        guard now >= deadline else { return handle.schedule(at: deadline, on: runLoop) }
        thread.multi?.stop(handle)
        let error = URLError(
            .timedOut, url: currentRequest.url, "Nothing came or went for \(Double(timeout) / 1e9) seconds.")
        end { $0.connection(self, didFailWith: error) }
    }

    // MARK: Flow

    /// Goes on with what waited, in either direction.
    func resumeFlow() {
        guard let handle, isHeldBack || !isStarved else { return }
        switch phase {
        case .loading, .following:
            noteActivity()
            isHeldBack = false
            handle.setPaused(receiving: false, sending: isStarved)
            thread.multi?.noteActivity()
        case .initial, .deciding, .ended: return
        }
    }
}
