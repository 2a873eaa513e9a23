import ConvoyCache
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Methods that open the connection of an attempt, and the resources that it needs.
extension URLConnectionOperation {
    /// The way in which the work of an attempt is performed.
    private enum ConnectPlan {
        /// The work is not performed, because the attempt must stop.
        case none
        case worker(any AttemptRunner)
        /// The work requires a token, which must be obtained first.
        case token(Authenticator)
        case connection(TransferRequest)
    }

    /// Opens the connection of an attempt or starts a worker, unless the attempt must stop.
    ///
    /// - Parameters:
    ///   - grant: The token to send, if it has been obtained.
    ///   - context: The trace context of the attempt, if its provider has returned one.
    func connect(_ attempt: Attempt, with grant: Authenticator.Grant? = nil, tracedBy context: TraceContext? = nil) {
        let interests = delegate.map { $0.interests(in: self) } ?? []
        var delegatedCaching: CacheResponseHandler?
        if interests.contains(.caching) {
            delegatedCaching = { operation, candidate in
                guard let delegate = operation.delegate else { return candidate }
                return delegate.operation(operation, willCache: candidate)
            }
        }
        // The old settings may hold the last reference to a user's object, so they are released outside the lock.
        let outdated = attempt.settings
        defer { withExtendedLifetime(outdated) {} }
        var rare: OperationCore.ConnectionExtras?
        let work = core.withLock { core -> ConnectPlan in
            if let context { core.traceContext = context }
            if let worker = core.worker { return .worker(worker) }
            attempt.settings = core.common.prepared
            if let grant {
                core.authenticationWork.token = grant
            } else if attempt.settings.hasAuthenticator, let authenticator = core.authenticator {
                return .token(authenticator)
            }
            // Check this before anything is opened, so that a stopped attempt leaves the output unchanged.
            guard attempt.phase.advance(to: .preparing(nil), unless: self.mustStop(attempt)) else {
                return .none
            }
            // A transfer about which a handler, a delegate or an output decides is not shared.
            attempt.sharesTransfer =
                attempt.settings.coalescesIdenticalRequests && core.handlers.redirect == nil
                && core.handlers.traceContext == nil && core.place == nil
                && interests.isDisjoint(with: [.redirects, .responses, .data])
            let transport = core.openTransport(for: attempt)
            if !attempt.body.hasPlace {
                let sink = core.place?.sink
                attempt.body.place(
                    in: sink.map { sink in
                        SinkQueue(sink, url: core.request.url, on: transport)
                    })
            }
            var request = core.requestWithTimeout(under: attempt.settings)
            rare = core.addRareParts(to: &request, of: attempt, sendsToken: grant != nil, delegatedCaching)
            return .connection(request)
        }
        switch work {
        case .none: decide(.stopped, after: attempt)
        case .worker(let worker): worker.begin(AttemptContext(attempt, of: self), of: self)
        case .token(let authenticator): obtainToken(of: authenticator, for: attempt)
        case .connection(var request):
            if rare != nil || !AuthorizationMemory.shared.isEmpty {
                do {
                    try authorize(&request, rare, for: attempt)
                } catch {
                    return decide(.settled(error), after: attempt)
                }
            }
            open(attempt, request, rare)
        }
    }

    /// Adds the trace context and the authentication to an attempt: the answer to a challenge, or the access token.
    private func authorize(
        _ request: inout TransferRequest, _ rare: OperationCore.ConnectionExtras?, for attempt: Attempt
    ) throws {
        if let token = rare?.token { request = try authorized(request, with: token) }
        if let context = rare?.traceContext { request = request.traced(by: context) }
        let remembered = rare?.record ?? rememberingRecord(for: request, over: attempt.configuration)
        attempt.state.isAuthorized = remembered != nil
        guard let record = remembered else { return }
        attempt.configuration.authorizer = AuthorizerReference(record)
        if record.mayBlock(request, over: attempt.configuration), attempt.transport?.isOfLibrary == true {
            let transport = NetworkThread.blocking
            attempt.body.sink?.transport = transport
            core.withLock { _ in attempt.transport = transport }
        }
    }

    /// Renews the body stream if it was read, opens the sink, then connects. Calls that may block run on a worker
    /// thread.
    private func open(_ attempt: Attempt, _ request: TransferRequest, _ rare: OperationCore.ConnectionExtras?) {
        let cacheHandler = rare?.cacheHandler
        guard attempt.body.mayHaveSentBody, rare?.isBodyUnread != true, request.bodyStream != nil else {
            return openSink(of: attempt, request, cacheHandler)
        }
        let isCalled = callUserCode(for: attempt) { [self] () -> Result<TransferRequest, URLError> in
            do throws(URLError) {
                // Replace only the body, because `request` may contain a token that the operation's own request lacks.
                var again = request.urlRequest
                again.httpBodyStream = try renewedBodyStream()
                return .success(TransferRequest(again))
            } catch {
                return .failure(error)
            }
        } then: { [self] result in
            switch result {
            case .success(let request): openSink(of: attempt, request, cacheHandler)
            case .failure(let error): decide(.failed(error, nil), after: attempt)
            }
        }
        if !isCalled { decide(.stopped, after: attempt) }
    }

    private func openSink(of attempt: Attempt, _ request: TransferRequest, _ cacheHandler: CacheResponseHandler?) {
        guard let sink = attempt.body.sink, !sink.isOpen else { return connect(attempt, request, cacheHandler) }
        open(sink, of: attempt, request, cacheHandler)
    }

    private func awaitDescriptor(
        of sink: SinkQueue, _ attempt: Attempt, _ request: TransferRequest, _ cacheHandler: CacheResponseHandler?
    ) {
        sink.transport?.awaitDescriptors(after: sink.wait, while: { [self] in isRunning(attempt) }) { [self] wait in
            guard let sink = attempt.body.sink else { return }
            sink.wait = wait
            open(sink, of: attempt, request, cacheHandler)
        }
    }

    private func open(
        _ sink: SinkQueue, of attempt: Attempt, _ request: TransferRequest, _ cacheHandler: CacheResponseHandler?
    ) {
        let call = BlockingCall()
        sink.willOpen(as: call)
        guard advance(attempt, to: .preparing(call)) else {
            sink.willOpen(as: nil)
            return decide(.stopped, after: attempt)
        }
        sink.open(as: call) { [self] failure in
            if let sink = attempt.body.sink, sink.mayTryAgain(after: failure) {
                awaitDescriptor(of: sink, attempt, request, cacheHandler)
            } else if let failure {
                decide(.failed(failure, nil), after: attempt)
            } else {
                connect(attempt, request, cacheHandler)
            }
        }
    }

    func connect(_ attempt: Attempt, _ request: TransferRequest, _ cacheHandler: CacheResponseHandler?) {
        guard let transport = attempt.transport else { return }
        let limit = serializesResponse ? attempt.settings.parsedBodyLimit : attempt.settings.bodyLimit
        let request = attempt.begin(of: self, sending: request, memoryLimit: limit)
        if let cacheHandler, let cache = attempt.configuration.cache?.cache as? HTTPCache {
            attempt.configuration.cache = ResponseCacheReference(HandledCache(cache) { cacheHandler(self, $0) })
        }
        // A body written to a file is probably large, so use a large buffer. For a paced sink, bytes that its reader
        // has not read should stay on the server.
        if let sink = attempt.body.sink?.sink {
            if sink.isPaced {
                attempt.configuration.closesWhenStopped = true
            } else {
                attempt.configuration.receiveBufferSize = 512 << 10
            }
        }
        if let stream = request.bodyStream, let limit = (stream as? any ThrottledBodyStream)?.rateLimit {
            attempt.configuration.sendRateLimits.append(limit)
        }
        let source = attempt.sharesTransfer ? CoalescingTransport.over(transport) : transport
        let connection = source.connection(for: request, configuration: attempt.configuration, delegate: attempt)
        // From now on, a stop cancels the connection, possibly before it is started.
        if advance(attempt, to: .connected(connection)) { return connection.start() }
        attempt.abandon()
        decide(.stopped, after: attempt)
    }
}
