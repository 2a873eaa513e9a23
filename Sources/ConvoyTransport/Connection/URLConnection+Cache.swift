import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// The cache: it is asked before a request is sent, and told of what comes.
extension URLConnection {
    // MARK: Before the request

    /// Asks the cache whether the request must be sent.
    ///
    /// - Parameter user: for whom an `Authorization` speaks that was added on the way; nil if there is none.
    func consult(
        _ cache: any ResponseCache, at address: HTTPAddress, for user: (user: String, password: String)?
    ) throws(URLError) {
        let request = exchange.request
        // The response that libcurl brings back belongs to a connection, and to whoever has the tickets. But what the
        // request has changed is no longer what is stored.
        guard exchange.negotiation == nil || !RequestRules.isSafe(request.method),
            let view = exchange.header?.view(
                configuration.secrets, isNamed: configuration.routing.settings.identity != nil, salt: { cache.salt }),
            let partition = configuration.identity(
                at: address.target, view.secret, credential: user, tls: address.target.isSecure ? exchange.tls : nil
            ).partition(salt: cache.salt)
        else { return try send(to: address) }
        let asked = cache.begin(
            CacheRequest(
                method: request.method, address: address.text, fields: view.fields,
                policy: revalidates ? .reloadRevalidating : request.cachePolicy, partition: partition,
                hasBody: request.body?.isEmpty == false || request.bodyStream != nil))
        exchange.cache = asked
        noteStart()
        if let answer = asked.lookUp() { return try proceed(answer, at: address) }
        phase = .consulting
        asked.lookUpInFiles { answer in self.thread.perform { self.didConsult(answer) } }
        thread.runLoop?.expectAnswer()
    }

    private func didConsult(_ answer: CacheAnswer) {
        guard case .consulting = phase, let address = exchange.address else { return }
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
            guard let multi = thread.multi, var source = exchange.header?.source else { return try send(to: address) }
            for (name, value) in fields { source.conditions[name] = value }
            exchange.header = try multi.header(of: source, url: exchange.request.url)
            try send(to: address)
        case .hit(let stored, let revalidates):
            if revalidates { BackgroundRevalidation.begin(like: self, exchange.request) }
            replay(stored)
        case .unavailable(let reason):
            throw failure(
                .resourceUnavailable,
                reason == .stale
                    ? "The stored response is too old, and loading is forbidden."
                    : "There is no cached response, and loading is forbidden.")
        }
    }

    // MARK: The network's response

    enum Reaction {
        case deliver
        case replace(any ServableResponse)
    }

    /// Tells the cache of a response.
    func react(to response: ResponseHead) -> Reaction {
        // Most heads say nothing that a cache could use.
        guard exchange.cache?.needsHead == true || response.concernsCaches else {
            exchange.cache?.cancel()
            return .deliver
        }
        // What one token is refused, the next one of the same name may be given.
        if configuration.identity != nil, response.statusCode == 401 || response.statusCode == 403 {
            exchange.cache?.cancel()
            return .deliver
        }
        switch exchange.cache?.receive(response.forCache) {
        case nil, .pass: return .deliver
        case .store(let writer):
            exchange.response.cacheWriter = writer
            return .deliver
        case .serveStored(let stored): return .replace(stored)
        }
    }

    /// Goes on when the response, which has ended, can be found in the cache.
    func finishStoring(_ then: @escaping @Sendable (URLConnection) -> Void) {
        guard let writer = exchange.response.cacheWriter else { return then(self) }
        exchange.response.cacheWriter = nil
        phase = .storing
        let answer = LaterAnswer<Void>()
        writer.finish {
            guard answer.give(()) else { return }
            self.thread.perform {
                if case .storing = self.phase { then(self) }
            }
        }
        if case .given = answer.awaitLater() { then(self) }
    }

    /// Lets go of the cache's part in the current request.
    func leaveCache() {
        exchange.response.cacheWriter?.abandon()
        exchange.response.cacheWriter = nil
        exchange.cache?.cancel()
        exchange.cache = nil
    }
}

extension TransferRequest {
    /// What the request wants of a cache.
    var cachePolicy: CachePolicy {
        guard case .foundation(let request) = self else { return .protocolPolicy }
        return switch request.cachePolicy {
        case .reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData: .reload
        case .returnCacheDataElseLoad: .storedElseLoad
        case .returnCacheDataDontLoad: .storedOnly
        case .reloadRevalidatingCacheData: .reloadRevalidating
        default: .protocolPolicy
        }
    }

    /// The same request, which no cache answers without asking the server, unless it says itself what caches are to do.
    package var revalidating: TransferRequest {
        var request = urlRequest
        guard request.cachePolicy == .useProtocolCachePolicy else { return self }
        request.cachePolicy = .reloadRevalidatingCacheData
        return .foundation(request)
    }
}

/// The form in which a cache has heads: text with one character for each byte, so that nothing is lost.
extension ResponseHead {
    /// The head, as the cache takes it.
    var forCache: CachedHead {
        var fields: [(name: String, value: String)] = []
        forEachField { fields.append((Self.transparent($0), Self.transparent($1))) }
        return CachedHead(statusCode: statusCode, fields: fields)
    }

    /// Whether it says that it may be stored: for how long it is fresh, or how it is confirmed.
    var concernsCaches: Bool { hasField("cache-control", "etag", "expires", "last-modified") }

    /// A head out of the cache.
    ///
    /// - Parameter length: how many bytes the stored body has.
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

    /// How the body is encoded.
    var codings: [ContentCoding] { isEncoded ? ContentCoding.codings(in: values(of: "Content-Encoding")) : [] }

    private static func transparent(_ bytes: ArraySlice<UInt8>) -> String {
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

/// Asks a server whether a stale response, which has been served meanwhile, is still good (RFC 5861, section 3). What comes
/// goes into the cache, and nowhere else. Redirects are followed, as each has its own part in the cache.
final class BackgroundRevalidation: URLConnectionDelegate {
    private init() {}

    static func begin(like connection: URLConnection, _ request: TransferRequest) {
        var configuration = connection.configuration
        configuration.collectsMetrics = false
        if connection.followedRedirects > 0, let first = configuration.continuation?.first ?? connection.firstRequest.url {
            // Another origin must not be shown the certificate that is for the first one's server.
            configuration.continuation = RedirectContinuation(first: first, followed: connection.followedRedirects)
        }
        let revalidation = URLConnection(
            request, configuration: configuration, delegate: BackgroundRevalidation(), thread: connection.thread)
        revalidation.revalidates = true
        // Not within the call that serves the response.
        connection.thread.perform { revalidation.start() }
    }

    func connection(_ connection: any Connection, didReceive response: ResponseHead) { stopUnlessStoring(connection) }

    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {
        stopUnlessStoring(connection)
    }

    /// Nobody wants a response that is not stored, and its body may have no end.
    private func stopUnlessStoring(_ connection: any Connection) {
        guard let connection = connection as? URLConnection, connection.exchange.response.cacheWriter?.isStoring != true
        else { return }
        connection.cancel()
    }

    func connectionDidFinish(_ connection: any Connection) {}
    func connection(_ connection: any Connection, didFailWith error: URLError) {}
    func connectionDidCancel(_ connection: any Connection) {}
}
