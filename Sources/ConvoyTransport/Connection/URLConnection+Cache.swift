import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// The cache: it is asked before a request is sent, and told of what comes.
extension URLConnection {
    // MARK: Before the request

    /// Asks the cache whether the request must be sent.
    func consult(
        _ cache: any ResponseCache, _ departure: Departure, _ authorization: Authorizations
    ) throws(URLError) {
        // The response that libcurl brings back belongs to a connection, and to whoever has the tickets. But what the
        // request has changed is no longer what is stored.
        guard departure.negotiation == nil || !RequestRules.isSafe(departure.request.method),
            let view = departure.header.view(for: configuration, salt: { cache.salt }),
            let partition = identity(of: departure, view, authorization).partition(salt: cache.salt)
        else { return try send(departure) }
        (currentRequest, currentAddress) = (departure.request, departure.place)
        requestHeader = departure.header
        let exchange = cache.begin(
            CacheRequest(
                method: departure.request.method, address: departure.address, fields: view.fields,
                policy: revalidates ? .reloadRevalidating : departure.request.cachePolicy, partition: partition,
                hasBody: departure.request.body?.isEmpty == false || departure.request.bodyStream != nil))
        self.exchange = exchange
        noteStart()
        if let answer = exchange.lookUp() { return try proceed(departure, answer) }
        phase = .consulting(departure)
        exchange.lookUpInFiles { answer in self.thread.perform { self.didConsult(answer) } }
        thread.runLoop?.expectAnswer()
    }

    private func identity(
        of departure: Departure, _ view: CacheView, _ authorization: Authorizations
    ) -> Identity {
        configuration.identity(
            at: departure.target, view.secret, credential: authorization.identity,
            tls: departure.isSecure ? departure.tls : nil)
    }

    private func didConsult(_ answer: CacheAnswer) {
        guard case .consulting(let departure) = phase else { return }
        do throws(URLError) {
            try proceed(departure, answer)
        } catch {
            fail(error)
        }
    }

    private func proceed(_ departure: Departure, _ answer: CacheAnswer) throws(URLError) {
        switch answer {
        case .miss: try send(departure)
        case .validate(let fields):
            var departure = departure
            var source = departure.header.source
            for (name, value) in fields { source.conditions[name] = value }
            if let multi = thread.multi { departure.header = try multi.header(of: source, url: departure.request.url) }
            try send(departure)
        case .hit(let stored, let revalidates):
            if revalidates { BackgroundRevalidation.begin(like: self, departure.request) }
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
        guard exchange?.needsHead == true || response.concernsCaches else {
            exchange?.cancel()
            return .deliver
        }
        // What one token is refused, the next one of the same name may be given.
        if configuration.identity != nil, response.statusCode == 401 || response.statusCode == 403 {
            exchange?.cancel()
            return .deliver
        }
        switch exchange?.receive(response.forCache) {
        case nil, .pass: return .deliver
        case .store(let writer):
            cacheWriter = writer
            return .deliver
        case .serveStored(let stored): return .replace(stored)
        }
    }

    /// Goes on when the response, which has ended, can be found in the cache.
    func finishStoring(_ then: @escaping @Sendable (URLConnection) -> Void) {
        guard let writer = cacheWriter else { return then(self) }
        cacheWriter = nil
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
    func endExchange() {
        cacheWriter?.abandon()
        cacheWriter = nil
        exchange?.cancel()
        exchange = nil
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
