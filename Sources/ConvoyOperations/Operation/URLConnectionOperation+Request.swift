import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The request of an operation, and its body when it must be sent again.
extension URLConnectionOperation {
    /// Whether the request must not use a cellular network. Prepared requests have no such setting.
    package final var barsCellularAccess: Bool {
        core.withLock { core in
            guard case .foundation(let request) = core.request else { return false }
            return !request.allowsCellularAccess
        }
    }

    /// Modifies the request before the operation starts.
    package final func changeRequest(_ change: (inout URLRequest) -> Void) {
        var request = request
        change(&request)
        let changed = request
        replaceRequest(with: changed)
    }

    /// Replaces the request.
    final func replaceRequest(with request: URLRequest) {
        noteOtherRequest()
        set(TransferRequest.foundation(request)) { swap(&$0.request, &$1) }
    }

    /// Records that the request has been replaced, so that its host may differ.
    final func noteOtherRequest() {
        declare(.otherRequest)
        declare(.looksUpHost)
    }

    /// Returns a new stream for the body, positioned at its start; nil if no new stream can be created. Calls user
    /// code.
    final func freshBodyStream(for stream: InputStream) -> InputStream? {
        if let delegate = delegate(interestedIn: .bodyStreams), let fresh = delegate.newBodyStream(of: self) {
            return fresh
        }
        return try? (stream as? any ReplayableBodyStream)?.replay()
    }

    /// Returns whether a new stream for the body can be created.
    final func canReplay(_ stream: InputStream?) -> Bool {
        stream == nil || stream is any ReplayableBodyStream || delegate(interestedIn: .bodyStreams) != nil
    }
}

/// A value that an operation takes from its dependencies for its request.
struct DependencyInput: Sendable {
    /// The operations that provide the values.
    let sources: [URLConnectionOperation]
    /// The closure that writes the values into the request, called if all sources have succeeded.
    let apply: URLConnectionOperation.Preparation

    /// Writes the values into a request.
    ///
    /// - Parameter mayLack: Whether to leave the request unchanged if a source has failed.
    /// - Throws: The error of the first source that failed, or the error of `apply`.
    func run(_ request: inout URLRequest, orWithout mayLack: Bool) throws {
        guard let failure else { return try apply(&request) }
        if !mayLack { throw failure }
    }

    private var failure: (any Error)? {
        for source in sources {
            guard source.state == .finished else {
                // The source is no longer a dependency.
                return URLError(
                    .resourceUnavailable, url: source.request.url,
                    "The request needs a value from an operation that has not finished.")
            }
            if let error = source.error { return error }
        }
        return nil
    }
}

/// All closures that modify the request when the operation begins. The operation then releases them, so that they run
/// once, however often it is paused or retried.
struct RequestPreparation: Sendable {
    var inputs: [DependencyInput]
    var prepare: URLConnectionOperation.Preparation?
    /// Whether the request may be sent without the value of a failed input.
    var mayLackInputs = false
    var secretScope = SecretScope.everywhere
    var secrets = SecretClassifier.standard

    /// Runs the inputs in the order in which they were added, then `prepare`.
    ///
    /// If they lead the request out of the scope, the secret fields that they have not set themselves are removed.
    func run(_ request: inout URLRequest) throws {
        let original = request
        for input in inputs { try input.run(&request, orWithout: mayLackInputs) }
        try prepare?(&request)
        guard secretScope.mayReceiveSecrets(original.url) else { return }
        let fields = original.allHTTPHeaderFields ?? [:]
        for name in secretScope.withheld(fields.keys, from: request.url, secrets)
        where request.value(forHTTPHeaderField: name) == fields[name] {
            request.setValue(nil, forHTTPHeaderField: name)
        }
    }
}

extension OperationCore {
    /// Takes out the preparation and returns it; nil without closures to run.
    mutating func takePreparation() -> RequestPreparation? {
        guard var preparation = handlers.state?.takePreparation() else { return nil }
        preparation.mayLackInputs = common.values.chosenDependencyFailurePolicy == .run
        preparation.secretScope = common.values.holder.secretScope
        preparation.secrets = common.values.connectionConfiguration.secrets
        return preparation
    }
}

extension OperationCore.OptionalHandlers {
    /// Takes out the preparation and returns it; nil without closures to run.
    func takePreparation() -> RequestPreparation? {
        guard prepare != nil || !inputs.isEmpty else { return nil }
        defer { inputs = [] }
        return RequestPreparation(inputs: inputs, prepare: prepare.take())
    }

    /// Puts back a preparation that has not run.
    func putBack(_ preparation: RequestPreparation) {
        inputs = preparation.inputs + inputs
        if prepare == nil { prepare = preparation.prepare }
    }
}

extension URLConnectionOperation {
    /// Adds dependencies whose values are written into the request. Has no effect once the operation has begun.
    final func add(_ input: DependencyInput) {
        reportLateChange(of: "depend(on:)")
        core.withLock { core in
            // An input added later would never be called or released.
            guard !core.areHandlersDone, !core.hasBegun else { return }
            core.handlers.made.inputs.append(input)
        }
        for source in input.sources { addDependency(source) }
    }

    /// Returns the reason why a dependency did not succeed; nil if all succeeded.
    func failureOfDependency() -> (any Error)? {
        for dependency in dependencies {
            if let operation = dependency as? URLConnectionOperation, let error = operation.error { return error }
            if dependency.isCancelled {
                let reason = (dependency as? ScheduledOperation)?.cancellationReason
                return reason ?? URLError(.cancelled, url: nil, "A dependency was cancelled.")
            }
        }
        return nil
    }

    /// Puts back a preparation that has not run because the operation was stopped first.
    final func putBack(_ preparation: RequestPreparation) {
        core.withLock { core in
            guard !core.areHandlersDone else { return }
            core.handlers.made.putBack(preparation)
        }
    }
}

extension URLConnectionOperation {
    /// A closure that returns the trace context for the requests of an attempt, or nil for no trace context. An error
    /// that it throws becomes the operation's error.
    public typealias TraceContextProvider =
        @Sendable (_ operation: URLConnectionOperation) throws -> TraceContext?

    /// The provider of trace contexts, called when each attempt begins, on an internal thread, which it may block.
    /// Begin a tracer span in the provider, and end it in an ``EventMonitor`` at `attemptEnded`. All requests of the
    /// attempt, including redirects, carry the `traceparent` and `tracestate` of the context, unless the operation's
    /// request sets them. By default, this is the manager's provider, or nil.
    ///
    /// Operations with a provider do not share transfers.
    public final var traceContextProvider: TraceContextProvider? {
        get { handler(\.traceContext) }
        set {
            if newValue != nil { reportLateChange(of: "traceContextProvider") }
            setHandler(\.traceContext, newValue)
        }
    }

    /// The trace context of the latest attempt, if any.
    public final var traceContext: TraceContext? { extra(\.traceContext) }

    /// Returns the request with the fields of the operation's trace context.
    func traced(_ request: TransferRequest) -> TransferRequest {
        guard let context = traceContext else { return request }
        var traced = request.urlRequest
        if traced.value(forHTTPHeaderField: "traceparent") == nil {
            traced.setValue(context.traceparent, forHTTPHeaderField: "traceparent")
            traced.setValue(context.state, forHTTPHeaderField: "tracestate")
        }
        return .foundation(traced)
    }
}

/// Methods that decide about redirects and record their results.
extension URLConnectionOperation {
    /// The handler that decides about each redirect. It is called on `completionQueue` or, if that is nil, on an
    /// internal thread, which it may block. The transfer waits for the decision. Without a handler, redirects are
    /// followed, except for those that would send the request body to another origin: see
    /// `ConnectionConfiguration.sendsBodiesAcrossOrigins`.
    public final var redirectHandler: RedirectHandler? {
        get { handler(\.redirect) }
        set { setHandler(\.redirect, newValue) }
    }

    /// The redirects of the latest attempt so far, in order, with the decision about each. If a redirect made the
    /// attempt fail, it is the last one.
    public final var redirects: [RedirectEvent] { extra(\.redirects) ?? [] }

    /// Adds the result of a redirect.
    func note(_ redirect: RedirectEvent) {
        depositForRedirect(redirect)
        eventLog?.note(.event(.redirected(redirect)))
        core.withLock { $0.redirects = ($0.redirects ?? []) + [redirect] }
    }

    /// Decides about a redirect: calls the handler or the delegate, if any, and otherwise accepts the request proposed
    /// by the redirect rules, with a new body stream if the body must be read again.
    func decide(
        about redirect: Redirect, _ attempt: Attempt, _ then: @escaping @Sendable (URLRequest?) -> Void
    ) {
        let proposed = redirect.request
        if reportsAnswer, redirect.response.cacheUse == nil { hostDidAnswer(hostKey(of: redirect.response.url)) }
        let decide: @Sendable (URLRequest?) -> Void = { [self] in follow($0, attempt, then) }
        let handler = redirectHandler
        let delegate = handler == nil ? delegate(interestedIn: .redirects) : nil
        if handler != nil || delegate != nil { redirect.bodyConsent?.give() }
        let isReplayed = proposed.httpBodyStream != nil && canReplay(proposed.httpBodyStream)
        guard handler != nil || delegate != nil || isReplayed else { return decide(proposed) }
        // The user's stream and handler may both block.
        BlockingWorkers.shared.perform { [self] in
            var next = proposed
            if isReplayed, let stream = next.httpBodyStream, let fresh = freshBodyStream(for: stream) {
                next.httpBodyStream = fresh
            }
            if let delegate {
                return delegate.operation(
                    self, willFollow: next, after: redirect.response.urlResponse, decide: decide)
            }
            guard let handler else { return decide(next) }
            let replayed = next
            let answer: @Sendable () -> Void = {
                decide(handler(self, replayed, redirect.response.urlResponse))
            }
            if let queue = completionQueue { queue.submit(answer) } else { answer() }
        }
    }

    /// Lets the transfer follow a redirect as soon as the operation has a slot of the new host, whose limit and gate
    /// apply from now on. The transfer waits without a timeout. If it must stop, no answer is needed.
    private func follow(
        _ request: URLRequest?, _ attempt: Attempt, _ then: @escaping @Sendable (URLRequest?) -> Void
    ) {
        guard let request, let scheduler = scheduler.object, let host = hostKey(of: request.url) else {
            return then(request)
        }
        let redirect = UnansweredRedirect(to: host, then: { then(request) })
        core.withLock { _ in attempt.unansweredRedirect = redirect }
        wait(for: redirect, scheduler, attempt)
    }

    private func wait(for redirect: UnansweredRedirect, _ scheduler: Scheduler, _ attempt: Attempt) {
        scheduler.redirect(self, to: redirect.host, if: { [self] in isRunning(attempt) }) { redirect.answer() }
    }

    /// Waits again for the slot of a redirect that a pause has released while the transfer was held.
    func waitAgainAfterRedirect(of attempt: Attempt) {
        guard let scheduler = scheduler.object, let redirect = core.withLock({ _ in attempt.unansweredRedirect }),
            !redirect.isAnswered
        else { return }
        wait(for: redirect, scheduler, attempt)
    }

    /// Counts a redirected request for the retry budget of its host, unless it is a retry.
    private func depositForRedirect(_ redirect: RedirectEvent) {
        guard [.followed, .changedByHandler].contains(redirect.outcome), retryCount == 0,
            let budget = retryPolicy?.budget, let host = redirect.to.flatMap({ HostKey.of($0) }),
            HostKey.of(redirect.from) !== host
        else { return }
        budget.deposit(forHost: host.name)
    }
}

/// A redirect that waits for a slot of its target host.
final class UnansweredRedirect: Sendable {
    let host: HostKey
    private let follow: Locked<(@Sendable () -> Void)?>

    init(to host: HostKey, then follow: @escaping @Sendable () -> Void) {
        self.host = host
        self.follow = Locked(follow)
    }

    var isAnswered: Bool { follow.withLock { $0 == nil } }

    /// Lets the transfer follow the redirect. Only the first call has an effect.
    func answer() { follow.withLock { $0.take() }?() }
}
