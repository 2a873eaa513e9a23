import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The part of an operation's state that several threads use, guarded by the operation's only lock.
///
/// Several members are read under one lock, because each lock and each retained reference is a measurable part of the
/// cost of a small request. Rarely used members are in a separate object, ``Extras``, because thousands of operations
/// may be waiting. The structure is noncopyable because the compiler would otherwise copy it for each call of a
/// nonmutating method.
@dynamicMemberLookup
struct OperationCore: ~Copyable {
    typealias ObjectBox = URLConnectionOperation.ObjectBox

    // MARK: Settings

    var request: TransferRequest { didSet { knownHost = nil } }
    var common: RequestSettings

    /// The host of the request, once it has been determined.
    var knownHost: String?

    /// The host of the next request, in the form of ``Target/place``; nil if its URL is neither http nor https.
    var host: String? {
        mutating get {
            if let continuation = self.authentication?.continuation { return Target.place(of: continuation.request.url) }
            if knownHost == nil { knownHost = request.target?.place }
            return knownHost
        }
    }

    // MARK: Handlers, released when they have run

    var finalHandlers = FinalHandlers()
    var handlers = OnDemand<OptionalHandlers>()

    /// The handlers called when the operation has finished.
    struct FinalHandlers: Sendable {
        var completion: (@Sendable () -> Void)?
        var success: HTTPRequestOperation.Success?
        var failure: HTTPRequestOperation.Failure?

        var isEmpty: Bool { success == nil && failure == nil && completion == nil }
    }

    /// Returns whether the caller must submit the handlers to their queue now, because the operation has finished and
    /// has handlers. Returns true only once until the handlers are taken.
    mutating func beginHandover() -> Bool {
        guard isFinished, !finalHandlers.isEmpty, !isHandoverPending else { return false }
        isHandoverPending = true
        return true
    }

    mutating func takeHandlers() -> FinalHandlers {
        isHandoverPending = false
        defer { finalHandlers = FinalHandlers() }
        return finalHandlers
    }

    /// The handlers that few operations have.
    final class OptionalHandlers: OnDemandState, @unchecked Sendable {
        // The handlers are guarded by the operation's lock.
        var download: URLConnectionOperation.ProgressHandler?
        var upload: URLConnectionOperation.ProgressHandler?
        var redirect: URLConnectionOperation.RedirectHandler?
        var retry: URLConnectionOperation.RetryHandler?
        /// The handler called when the operation waits at the closed gate of its host.
        var closedGate: (@Sendable () -> Void)?
        var prepare: URLConnectionOperation.Preparation?
        /// The inputs from dependencies, in the order in which they were added.
        var inputs: [DependencyInput] = []
        var challenge: URLConnectionOperation.AuthenticationChallengeHandler?
        var cache: URLConnectionOperation.CacheResponseHandler?
        var traceContext: URLConnectionOperation.TraceContextProvider?
        /// The handler called with interim responses.
        var interim: (@Sendable (ResponseHead) -> Void)?
        /// The interceptor called with lifecycle changes before anything else.
        var supervisor: (any TransitionInterceptor)?
        /// The delegate that makes the decisions that no handler makes.
        var delegate: (any OperationDelegate)?

        var copy: OptionalHandlers {
            let copy = OptionalHandlers()
            copy.download = download
            copy.upload = upload
            copy.redirect = redirect
            copy.retry = retry
            copy.prepare = prepare
            copy.challenge = challenge
            copy.cache = cache
            copy.traceContext = traceContext
            copy.inputs = inputs
            copy.closedGate = closedGate
            return copy
        }
    }

    // MARK: Results, final before `isFinished` is true

    var head: ResponseHead?
    var result = StoredResult()

    /// The body, the object created from it, and the reason for the failure, if any.
    struct StoredResult: Sendable {
        var data: Data?
        var object = ResponseObject.none
        var error: (any Error)?
    }

    /// The object created from the response by the serializer.
    enum ResponseObject: Sendable {
        case none
        /// The body itself.
        case body
        case made(ObjectBox)
        /// The body has not been decoded; the awaiting task will decode it.
        case undecoded
    }

    // MARK: The work

    var hasBegun = false
    /// Whether the handlers have been submitted to their queue but not called yet.
    var isHandoverPending = false
    /// The current attempt, or the last one, until the operation has finished.
    var attempt: Attempt?

    var retryRecord: RetryRecord {
        get { self.retry ?? RetryRecord() }
        set { self.retry = newValue }
    }

    var authenticationWork: AuthenticationWork {
        mutating get { self.authentication.made(by: AuthenticationWork()) }
    }

    /// Whether the credential and the tokens of a manager may be sent with the request.
    private var mayReceiveSecrets: Bool { common.values.holder.secretScope.mayReceiveSecrets(request.target) }

    /// The authenticator, unless its tokens must not be sent to the request's origin.
    var authenticator: Authenticator? {
        guard let authenticator = common.values.authenticator else { return nil }
        return mayReceiveSecrets ? authenticator : nil
    }

    /// The sources of credentials for challenges.
    var credentialSource: CredentialSource {
        var source = CredentialSource()
        let values = common.values
        if let credential = values.credential, mayReceiveSecrets {
            source.own = credential
            source.ownServer = request.url.flatMap { AuthenticatingServer($0) }
        }
        source.store = values.shouldUseCredentialStorage ? values.credentials : nil
        values.connectionConfiguration.addProxyCredentials(to: &source)
        return source
    }

    // MARK: The delivery

    /// The completion group that the operation has entered; nil until then.
    var enteredGroup: DispatchGroup?
    /// Whether the operation has finished: its results are final, and its handlers are being handed over.
    var isFinished = false
    /// Whether the handlers have run, or none are set.
    var areHandlersDone = false
    /// The internal blocks to run when the delivery is complete.
    var hooks: [@Sendable () -> Void] = []

    // MARK: Rarely used state

    /// The state that few operations need, created when one of its members is first set. The operation's lock guards
    /// it.
    final class Extras: OnDemandState, @unchecked Sendable {
        /// The destination of the body; nil to keep it in memory.
        var place: BodyDestination?
        /// The error with which the operation fails when it starts, because its request could not be created.
        var presetFailure: (any Error)?
        /// The runner that performs the work instead of a single transfer.
        var worker: (any AttemptRunner)?
        /// The redirects of the latest attempt.
        var redirects: [RedirectEvent]?
        var retry: RetryRecord?
        var authentication: AuthenticationWork?
        /// The time on the operation's clock at which `totalTimeout` expires; nil until its timer has started.
        var deadline: UInt64?
        /// The timer of `totalTimeout`, until the operation has finished.
        var expiryTimer: (any ClockTimer)?
        /// The trace context of the latest attempt.
        var traceContext: TraceContext?
        var progressReport: ProgressReport?
        /// The progress of a finished operation, if it cannot be derived from the results.
        var keptProgress: TransferProgress?
    }

    private var extras = OnDemand<Extras>()

    subscript<Value>(dynamicMember member: ReferenceWritableKeyPath<Extras, Value?>) -> Value? {
        @inline(__always) get { extras[dynamicMember: member] }
        @inline(__always) set { extras[dynamicMember: member] = newValue }
    }

    /// Removes and returns the last attempt of a finished operation. Keeps the attempt's progress if it cannot be
    /// derived from the body.
    mutating func takeAttempt() -> Attempt? {
        guard let attempt = attempt.take() else { return nil }
        var progress = attempt.progress
        if self.worker != nil || progress.bytesSent > 0 || progress.bytesReceived != Int64(result.data?.count ?? 0) {
            if self.worker == nil, result.error == nil { progress.bytesExpectedToReceive = progress.bytesReceived }
            self.keptProgress = progress
        }
        return attempt
    }

    init(_ request: TransferRequest, _ common: RequestSettings) {
        self.request = request
        self.common = common
    }

    deinit {
        // If the operation never finished, the group must not wait for it forever.
        enteredGroup?.leave()
        self.expiryTimer?.cancel()
    }

    /// Returns the attempt with the given number; nil if that attempt has not begun or is no longer the last one.
    func attempt(_ number: Lifecycle.AttemptNumber) -> Attempt? {
        guard let attempt, attempt.number == number else { return nil }
        return attempt
    }

    /// Returns the transport of all attempts of the operation, choosing it for the first attempt.
    mutating func openTransport(for attempt: Attempt) -> any Transport {
        if let transport = attempt.transport { return transport }
        attempt.transport = attempt.settings.transport
        return attempt.settings.transport
    }

    /// Returns the request with the configured idle timeout, if any.
    func requestWithTimeout(under settings: AttemptSettings) -> TransferRequest {
        guard let limit = settings.idleTimeout else { return request }
        return request.with(timeoutInterval: limit)
    }

    /// Enters the completion group once.
    mutating func enterCompletionGroup() {
        guard enteredGroup == nil, !isFinished, let group = common.prepared.completionGroup else { return }
        group.enter()
        enteredGroup = group
    }
}

extension OperationCore {
    /// The values that few attempts need for their connection.
    struct ConnectionExtras {
        let token: AccessToken?
        /// The record of the operation's challenges, if any.
        let record: AuthenticationRecord?
        let cacheHandler: URLConnectionOperation.CacheResponseHandler?
        let traceContext: TraceContext?
        /// Whether the previous attempt has not read any of the request's body.
        let isBodyUnread: Bool
    }

    /// Applies rarely used state to the request and the attempt. Returns the values that the connection also needs; nil
    /// if it needs none.
    mutating func addRareParts(
        to request: inout TransferRequest, of attempt: Attempt, sendsToken: Bool,
        _ delegatedCaching: URLConnectionOperation.CacheResponseHandler?
    ) -> ConnectionExtras? {
        let authentication = self.authentication
        if let continuation = authentication?.continuation {
            request = TransferRequest(continuation.request)
            attempt.configuration.continuation = continuation.place
        }
        if self.redirects != nil { self.redirects = authentication?.continuation?.redirects }
        if self.retry?.avoidsHTTP2 == true { attempt.configuration.usesHTTP2 = false }
        var cacheHandler: URLConnectionOperation.CacheResponseHandler?
        if attempt.settings.configuration.cache != nil {
            cacheHandler = handlers.cache ?? delegatedCaching
            // The cache may hold the response that failed.
            if self.retry?.followsAnswer == true { request = request.revalidating }
        }
        guard authentication != nil || cacheHandler != nil || self.traceContext != nil else { return nil }
        let bearsToken = sendsToken && authentication?.continuation?.bearsToken ?? true
        defer { authentication?.isBodyUnread = false }
        return ConnectionExtras(
            token: bearsToken ? authentication?.token?.token : nil, record: authentication?.record,
            cacheHandler: cacheHandler, traceContext: self.traceContext,
            isBodyUnread: authentication?.isBodyUnread ?? false)
    }
}

extension URLConnectionOperation: RequestConfigurable {
    /// The settings of the operation. Connection settings are read when an attempt begins, handlers when they are
    /// called. A debug build warns once on standard error if a change comes too late for the attempt in progress.
    public final var settings: RequestSettings {
        get { core.withLock { $0.common } }
        set {
            updateSettings { settings in
                let old = settings
                settings = newValue
                // An operation that refreshes a token must not wait for that token.
                if old.values.holder.isOfRefresh { settings.values.authenticator = old.values.authenticator }
            }
        }
    }

    /// Updates the settings without losing concurrent changes made by other threads. See
    /// `RequestConfigurable/updateSettings(_:)`.
    public final func updateSettings<Result>(_ update: (inout RequestSettings) throws -> Result) rethrows -> Result {
        let result = try RequestSettings.update(update, read: { settings }) { old, new in
            guard replaceSettings(old, by: new) else { return false }
            reportLateChange(of: new.values.lateChange(from: old.values))
            return true
        }
        beginToTell(settings)
        return result
    }

    /// Updates the settings, including the internal ones that belong to the operation.
    final func change(_ body: (inout RequestSettings.Values) -> Void) {
        var old, new: RequestSettings
        repeat {
            old = settings
            new = old
            body(&new.values)
        } while !replaceSettings(old, by: new)
        noteRareSettings(new)
    }

    /// Replaces the settings. Returns false if they have changed since they were read. The caller holds the old ones,
    /// which may hold the last reference to a user's objects, so they are not released under the lock.
    private func replaceSettings(_ old: RequestSettings, by new: RequestSettings) -> Bool {
        core.withLock { $0.common.replace(old, by: new) }
    }

    /// Sets the flags of rarely used settings, which must be looked up under the lock.
    private func noteRareSettings(_ settings: RequestSettings) {
        if settings.values.completionGroup != nil {
            declare(.completionGroup)
            declare(.hearsOfQueue)
        }
        if settings.values.retryPolicy != nil { declare(.retryPolicy) }
    }

    /// Starts reporting events if new settings require it, and records which rarely used settings are set.
    final func beginToTell(_ settings: RequestSettings) {
        noteRareSettings(settings)
        // `wantsTransactions` would copy all values.
        if settings.values.collectsMetrics || !settings.values.eventMonitors.isEmpty {
            beginEvents(for: settings.values.eventMonitors)
        }
    }

    /// Returns a value that few operations have.
    @inline(__always)
    final func extra<Value: Sendable>(
        _ member: ReferenceWritableKeyPath<OperationCore.Extras, Value?> & Sendable
    ) -> Value? {
        core.withLock { $0[dynamicMember: member] }
    }

    /// Sets a member of the operation. The old value is released outside the lock, because its `deinit` may access the
    /// operation.
    final func set<Value: Sendable>(_ value: Value, _ exchange: (inout OperationCore, inout Value) -> Void) {
        let old = core.withLock { core in
            var value = value
            exchange(&core, &value)
            return value
        }
        withExtendedLifetime(old) {}
    }
}

extension Optional {
    /// Returns the value, creating it first if it is nil.
    mutating func made(by make: @autoclosure () -> Wrapped) -> Wrapped {
        if let value = self { return value }
        let value = make()
        self = value
        return value
    }
}
