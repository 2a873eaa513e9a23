import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// Caching: consults the cache before a request is sent, and passes the response to the cache.
extension RequestChain {
    // MARK: Before the request

    /// Looks the request up in the cache, and sends it if necessary.
    ///
    /// - Parameter user: The credential of an `Authorization` field added during sending; nil for none.
    func consult(
        _ cache: any ResponseCache, at address: HTTPAddress, for user: (user: String, password: String)?
    ) throws(URLError) {
        let request = step.request
        // If libcurl authenticates the request, the response belongs to the connection and the user's tickets, so it is
        // not stored. An unsafe request must still invalidate stored responses.
        guard step.negotiation == nil || !RequestRules.isSafe(request.method),
            let view = step.header?.view(
                configuration.secrets, isNamed: configuration.routing.settings.identity != nil, salt: { cache.salt }),
            let partition = configuration.identity(
                at: address.target, view.secret, credential: user, tls: address.target.isSecure ? step.tls : nil
            ).partition(salt: cache.salt)
        else { return try send(to: address) }
        let asked = cache.begin(
            CacheRequest(
                method: request.method, address: address.text, fields: view.fields,
                policy: revalidates ? .reloadRevalidating : request.cachePolicy,
                // The same address is sent as a different path if its dot segments are resolved.
                partition: configuration.keepsDotSegments ? "\(partition)." : partition,
                hasBody: request.body?.isEmpty == false || request.bodyStream != nil))
        step.cache = asked
        noteStart()
        if let answer = asked.lookUp() { return try proceed(answer, at: address) }
        phase = .consulting
        thread.multi?.lookUpCount += 1
        asked.lookUpInFiles { answer in self.thread.begin(.block { self.didConsult(answer) }) }
    }

    private func didConsult(_ answer: CacheAnswer) {
        thread.multi?.lookUpCount -= 1
        guard case .consulting = phase, let address = step.address else { return }
        do throws(URLError) {
            try proceed(answer, at: address)
        } catch {
            fail(error)
        }
    }

    private func proceed(_ answer: CacheAnswer, at address: HTTPAddress) throws(URLError) {
        switch answer {
        case .miss: try send(to: address)
        case .validate(let fields):
            guard let multi = thread.multi, var source = step.header?.source else { return try send(to: address) }
            for (name, value) in fields { source.conditions[name] = value }
            step.header = try multi.header(of: source, url: step.request.url)
            try send(to: address)
        case .hit(let stored, let revalidates):
            if revalidates { BackgroundRevalidation.begin(like: self, step.request) }
            deliver(stored)
        case .unavailable(let reason):
            throw failure(
                .resourceUnavailable,
                reason == .stale
                    ? "The cached response is stale, and the cache policy does not allow a request to the server."
                    : "The response is not cached, and the cache policy does not allow a request to the server.")
        }
    }

    // MARK: The network's response

    enum Reaction {
        case deliver
        case replace(any ServableResponse)
    }

    /// Passes the head of a response to the cache.
    func react(to response: ResponseHead) -> Reaction {
        // Most heads contain no caching information.
        guard step.cache?.needsHead == true || response.concernsCaches else {
            step.cache?.cancel()
            return .deliver
        }
        // Do not store the response, because the next token of the same identity may be accepted.
        if configuration.identity != nil, response.statusCode == 401 || response.statusCode == 403 {
            step.cache?.cancel()
            return .deliver
        }
        switch step.cache?.receive(response.forCache) {
        case nil, .pass: return .deliver
        case .store(let writer):
            step.cacheWriter = writer
            return .deliver
        case .serveStored(let stored): return .replace(stored)
        }
    }

    /// Continues once the complete response has been stored in the cache.
    func finishStoring(_ then: @escaping @Sendable (RequestChain) -> Void) {
        guard let writer = step.cacheWriter else { return then(self) }
        step.cacheWriter = nil
        phase = .storing
        let stored = Once<Void>()
        writer.finish { stored.set(()) }
        if stored.take() != nil { return then(self) }
        stored.whenSet {
            self.thread.perform {
                if case .storing = self.phase { then(self) }
            }
        }
    }

    /// Delivers a stored response instead of an error, if the cache provides one (RFC 5861, section 4). Returns whether
    /// the cache provides one.
    func servesStale(insteadOf error: URLError) -> Bool {
        guard let cache = step.cache, step.stored == nil, network?.isHeadWhole != true, !isCancelled, error.isOfNetwork
        else { return false }
        switch phase {
        case .loading, .waitingForDescriptor: break
        default: return false
        }
        guard let stored = cache.failed() else { return false }
        traceFailure(error)
        deliver(stored)
        return true
    }

    /// Begins the exchange with the cache.
    func deliver(_ response: any ServableResponse) {
        finishTransaction()
        network?.handle.trace?.note("served from the cache: \(response.use.rawValue)")
        network?.giveBack()
        network = nil
        let stored = StoredExchange(response)
        replaceStep(with: ChainStep(stored, insteadOf: step))
        phase = .loading
        noteStartOfReplay()
        stored.pump(self)
    }

    /// Ends the cache's involvement in the current request.
    func leaveCache() {
        step.cacheWriter?.abandon()
        step.cacheWriter = nil
        step.cache?.cancel()
        step.cache = nil
    }
}

extension URLError {
    /// Whether the server could not be reached, as opposed to a local decision not to connect to it.
    fileprivate var isOfNetwork: Bool {
        switch code {
        case .timedOut, .cannotFindHost, .cannotConnectToHost, .networkConnectionLost, .dnsLookupFailed,
            .notConnectedToInternet, .badServerResponse:
            true
        default: false
        }
    }
}

/// A response head in the cache's representation: strings with one character per byte, so that no information is lost.
extension ResponseHead {
    /// The head in the cache's representation.
    var forCache: CachedHead {
        var fields: [(name: String, value: String)] = []
        forEachField { fields.append((Self.transparent($0), Self.transparent($1))) }
        return CachedHead(statusCode: statusCode, fields: fields)
    }

    /// Whether the head has information on freshness or validators.
    var concernsCaches: Bool { hasField("cache-control", "etag", "expires", "last-modified") }

    /// Creates the head of a stored response.
    ///
    /// - Parameter length: The length of the stored body in bytes.
    convenience init(_ stored: CachedHead, of request: TransferRequest, length: Int, use: CacheUse) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(stored.fields.reduce(64) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 })
        bytes += "HTTP/1.1 \(stored.statusCode) \r\n".utf8
        var announced: String?
        var isEncoded = false
        for (name, value) in stored.fields {
            Self.append(name, to: &bytes)
            bytes += ": ".utf8
            Self.append(value, to: &bytes)
            bytes += "\r\n".utf8
            switch name.utf8.count {
            case 14 where ASCII.equalIgnoringCase(name.utf8, "content-length".utf8): announced = value
            case 16 where ASCII.equalIgnoringCase(name.utf8, "content-encoding".utf8):
                isEncoded = isEncoded || !ContentCoding.codings(in: [value]).isEmpty
            default: break
            }
        }
        if let age = stored.age { bytes += "Age: \(age)\r\n".utf8 }
        bytes += "\r\n".utf8
        self.init(
            place: Place(request), statusCode: stored.statusCode,
            contentLength: request.method == "HEAD" ? announced.flatMap { Int64($0) } : Int64(length),
            isEncoded: isEncoded, bytes: bytes, cacheUse: use)
    }

    /// The content codings of the body.
    var codings: [ContentCoding] { isEncoded ? ContentCoding.codings(in: values(of: "Content-Encoding")) : [] }

    private static func transparent(_ bytes: UnsafeRawBufferPointer) -> String {
        if bytes.allSatisfy({ $0 < 0x80 }) { return String(decoding: bytes, as: UTF8.self) }
        return String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    }

    private static func append(_ text: String, to bytes: inout [UInt8]) {
        let isPlain: Void? =
            text.utf8.withContiguousStorageIfAvailable { units -> Void? in
                guard units.allSatisfy({ $0 < 0x80 }) else { return nil }
                bytes += units
                return ()
            } ?? nil
        if isPlain == nil { bytes += text.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) } }
    }
}

/// The revalidation of a stale response after it has been served (RFC 5861, section 3). The result is only stored in
/// the cache. Redirects are followed, because each response is cached separately.
final class BackgroundRevalidation: ConnectionDelegate {
    private init() {}

    static func begin(like connection: RequestChain, _ request: TransferRequest) {
        var configuration = connection.configuration
        configuration.collectsMetrics = false
        if connection.followedRedirects > 0, let first = configuration.continuation?.first ?? connection.firstRequest.url {
            // The client certificate is used only for the first origin.
            configuration.continuation = RedirectContinuation(first: first, followed: connection.followedRedirects)
        }
        let revalidation = RequestChain(
            request, configuration: configuration, delegate: BackgroundRevalidation(), thread: connection.thread)
        revalidation.revalidates = true
        // Start asynchronously, because this is called while the response is being served.
        connection.thread.perform { revalidation.start() }
    }

    func connection(_ connection: any Connection, didReceive response: ResponseHead, after phases: TransactionPhases?) {
        stopUnlessStoring(connection)
    }

    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {
        stopUnlessStoring(connection)
    }

    /// Stops the transfer if its response is not stored, as its body may be endless.
    private func stopUnlessStoring(_ connection: any Connection) {
        guard let connection = connection as? RequestChain, connection.step.cacheWriter?.isStoring != true
        else { return }
        connection.cancel()
    }

    func connectionDidFinish(_ connection: any Connection) {}
    func connection(_ connection: any Connection, didFailWith error: URLError) {}
    func connectionDidCancel(_ connection: any Connection) {}
}
