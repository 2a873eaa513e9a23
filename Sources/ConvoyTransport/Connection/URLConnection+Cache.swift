import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// The cache: it is asked before a request is sent, and told of what comes.
extension URLConnection {
    // MARK: Before the request

    /// Asks the cache whether the request must be sent.
    func consult(
        _ cache: any ResponseCache, _ dispatch: Exchange.Dispatch, _ authorization: Authorizations
    ) throws(URLError) {
        let request = exchange.request
        // The response that libcurl brings back belongs to a connection, and to whoever has the tickets. But what the
        // request has changed is no longer what is stored.
        guard dispatch.negotiation == nil || !RequestRules.isSafe(request.method),
            let view = dispatch.header.view(for: configuration, salt: { cache.salt }),
            let partition = identity(of: dispatch, view, authorization).partition(salt: cache.salt)
        else { return try send(dispatch) }
        exchange.dispatch = dispatch
        let asked = cache.begin(
            CacheRequest(
                method: request.method, address: dispatch.address.text, fields: view.fields,
                policy: revalidates ? .reloadRevalidating : request.cachePolicy, partition: partition,
                hasBody: request.body?.isEmpty == false || request.bodyStream != nil))
        exchange.cache = asked
        noteStart()
        if let answer = asked.lookUp() { return try proceed(dispatch, answer) }
        phase = .consulting
        asked.lookUpInFiles { answer in self.thread.perform { self.didConsult(answer) } }
        thread.runLoop?.expectAnswer()
    }

    private func identity(
        of dispatch: Exchange.Dispatch, _ view: CacheView, _ authorization: Authorizations
    ) -> Identity {
        configuration.identity(
            at: dispatch.target, view.secret, credential: authorization.identity,
            tls: dispatch.isSecure ? dispatch.tls : nil)
    }

    private func didConsult(_ answer: CacheAnswer) {
        guard case .consulting = phase, let dispatch = exchange.dispatch else { return }
        do throws(URLError) {
            try proceed(dispatch, answer)
        } catch {
            fail(error)
        }
    }

    private func proceed(_ dispatch: Exchange.Dispatch, _ answer: CacheAnswer) throws(URLError) {
        switch answer {
        case .miss: try send(dispatch)
        case .validate(let fields):
            var dispatch = dispatch
            var source = dispatch.header.source
            for (name, value) in fields { source.conditions[name] = value }
            if let multi = thread.multi { dispatch.header = try multi.header(of: source, url: exchange.request.url) }
            try send(dispatch)
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
