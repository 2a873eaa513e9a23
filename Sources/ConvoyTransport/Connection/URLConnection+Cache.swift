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
        // The response that libcurl brings back belongs to a connection, and to whoever has the tickets.
        guard departure.negotiation == nil, let partition = partition(of: cache, departure, authorization) else {
            return try send(departure)
        }
        currentRequest = departure.request
        requestHeader = departure.header
        var fields = departure.header.sentFields
        if departure.header.addsCacheControl {
            fields.removeAll { ASCII.equalIgnoringCase($0.name.utf8, "cache-control".utf8) }
        }
        let exchange = cache.begin(
            CacheRequest(
                method: departure.request.method, address: departure.address, fields: fields,
                policy: revalidates ? .reloadRevalidating : departure.request.cachePolicy, partition: partition,
                hasBody: departure.request.body?.isEmpty == false || departure.request.bodyStream != nil))
        self.exchange = exchange
        if let answer = exchange.lookupAtOnce() { return try proceed(departure, answer) }
        phase = .consulting(departure)
        let answer = LaterAnswer<CacheAnswer>()
        exchange.lookup { value in
            guard answer.give(value) else { return }
            self.thread.perform { self.didConsult(value) }
        }
        if case .given(let value) = answer.awaitLater() { return try proceed(departure, value) }
        thread.runLoop?.expectAnswer()
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

    /// The partition of the cache in which the responses to a request are: what somebody was given for his credentials, or
    /// by a server that another policy trusts, or by a server in place of another, or in the name of another host, is for
    /// nobody else. nil where that cannot be told.
    private func partition(
        of cache: any ResponseCache, _ departure: Departure, _ authorization: Authorizations
    ) -> String? {
        var secrets: [String] = []
        if let identity = authorization.identity {
            secrets += ["credential", identity.user, identity.password]
        } else if departure.header.setsAuthorization {
            let own = departure.header.sentFields.first { ASCII.equalIgnoringCase($0.name.utf8, "authorization".utf8) }
            guard let own else { return nil }
            secrets += ["authorization", own.value]
        }
        if departure.isSecure {
            if let identity = configuration.clientIdentity, departure.tls === configuration.tls.context {
                guard let certificate = try? identity.certificates().first,
                    let digest = MessageDigest.sha256(certificate.derData)
                else { return nil }
                secrets += ["identity", digest.hexadecimalString]
            }
            if let policy = configuration.tls.policyDigest({ RequestTarget(departure.address)?.host ?? "" }) {
                secrets += ["policy", policy]
            }
        }
        if departure.header.setsHost {
            let host = departure.header.sentFields.first { ASCII.equalIgnoringCase($0.name.utf8, "host".utf8) }
            secrets += ["host", (host?.value ?? "").lowercased()]
        }
        if let socket = configuration.unixSocket {
            secrets += ["socket", socket]
        } else if !configuration.addressOverrides.isEmpty,
            let place = departure.request.url.flatMap({ configuration.fixedAddress(for: $0) })
        {
            secrets += ["address", place]
        }
        if secrets.isEmpty { return "" }
        // With their lengths, so that no two lists make the same text.
        let text = ([cache.salt] + secrets).map { "\($0.utf8.count):\($0)" }.joined()
        return MessageDigest.sha256(Data(text.utf8))?.hexadecimalString
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

    // MARK: Stored responses

    /// Delivers a stored response in place of an error, if the cache has one that may be used so (RFC 5861, section 4).
    func servesStale(insteadOf error: URLError) -> Bool {
        guard let exchange, replay == nil, !head.isWhole, !isCancelled, error.isOfNetwork else { return false }
        switch phase {
        case .loading, .waitingForDescriptor: break
        default: return false
        }
        guard let stored = exchange.failed() else { return false }
        traceFailure(error)
        replay(stored)
        return true
    }

    /// Delivers a stored response.
    func replay(_ stored: any ServableResponse) {
        handle?.trace?.note("served from the cache: \(stored.use.rawValue)")
        body?.stop()
        body = nil
        if let handle { thread.multi?.giveBack(handle) }
        handle = nil
        forgetResponse()
        heldResult = nil
        isHeldBack = false
        isStarved = false
        phase = .loading
        replay = Replay(stored)
        pump()
    }

    /// Goes on with the delivery of a stored response, until the delegate holds it back, or a file must be read.
    func pump() {
        while let replay {
            if isCancelled { return }
            switch phase {
            case .following(let request):
                self.replay = nil
                return follow(request)
            case .loading: break
            default: return
            }
            if let failure = pendingFailure { return fail(failure) }
            if isReceivingSuspended { return }
            if let decoder, decoder.hasPending {
                deliver(with: decoder) { try $0.resume(into: $1) }
            } else if replay.isAtEnd || currentRequest.method == "HEAD" {
                if !replay.hasBegun { begin(replay) } else { return finishReplay() }
            } else if !replay.hasBytes {
                return read(replay)
            } else if !replay.hasBegun {
                begin(replay)
            } else {
                replay.deliver { bytes in
                    if let decoder {
                        deliver(with: decoder) { try $0.decode(bytes, into: $1) }
                    } else {
                        delegate?.connection(self, didReceive: bytes)
                    }
                }
            }
        }
    }

    /// Judges the stored head, as if it came from the network.
    private func begin(_ replay: Replay) {
        replay.hasBegun = true
        let response = ResponseHead(
            replay.stored.head, of: currentRequest, length: replay.stored.length, use: CacheUse(replay.stored.use))
        do throws(URLError) {
            if let redirect = try redirect(of: response) {
                _ = ask(about: redirect)
                return
            }
            try prepareToDecode(response.codings, of: response)
            delegate?.connection(self, didReceive: response)
        } catch {
            pendingFailure = error
        }
    }

    private func read(_ replay: Replay) {
        guard !replay.isReading else { return }
        replay.read { result in
            self.thread.perform {
                guard let current = self.replay, current === replay else { return }
                switch result {
                case .success(let bytes) where !bytes.isEmpty:
                    replay.take(bytes)
                    self.pump()
                case .success: self.lose(replay, nil)
                case .failure(let error): self.lose(replay, error)
                }
            }
        }
    }

    /// A stored body cannot be read. The network has it, if nothing has been delivered.
    private func lose(_ replay: Replay, _ error: (any Error)?) {
        self.replay = nil
        guard !replay.hasBegun, !isCancelled else {
            return fail(failure(.networkConnectionLost, "The stored body cannot be read.", underlying: error))
        }
        endExchange()
        // After the second time, without asking the cache.
        lostReplays += 1
        guard lostReplays < 2 || currentRequest.cachePolicy != .storedOnly else {
            return fail(failure(.resourceUnavailable, "The stored body cannot be read.", underlying: error))
        }
        load(currentRequest)
    }

    private func finishReplay() {
        replay = nil
        do {
            try decoder?.finish()
        } catch {
            return fail(decodingFailure(error))
        }
        end { $0.connectionDidFinish(self) }
    }
}

extension URLError {
    /// Whether the server could not be reached, as opposed to one that must not be talked to.
    fileprivate var isOfNetwork: Bool {
        switch code {
        case .timedOut, .cannotFindHost, .cannotConnectToHost, .networkConnectionLost, .dnsLookupFailed,
            .notConnectedToInternet, .badServerResponse:
            true
        default: false
        }
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
}

extension TransferRequest {
    /// The same request, which no cache answers without asking the server, unless it says itself what caches are to do.
    package var revalidating: TransferRequest {
        var request = urlRequest
        guard request.cachePolicy == .useProtocolCachePolicy else { return self }
        request.cachePolicy = .reloadRevalidatingCacheData
        return .foundation(request)
    }
}
