import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The part of an operation that several threads use: a value behind the operation's only lock.
///
/// Several members are read under one lock, because each locking, and each retained reference, is a noticeable part of
/// the cost of a small request.
struct OperationCore {
    typealias ObjectBox = URLConnectionOperation.ObjectBox

    // MARK: Settings

    var request: TransferRequest
    /// The host of a prepared request.
    var preparedHost: HostKey?
    var common: RequestSettings
    var outputStream: OutputStreamBox?
    /// The error to fail with at the start, if the request could not be made.
    var presetFailure: (any Error)?

    // MARK: Handlers, released when they have run

    var completion: (@Sendable () -> Void)?
    var success: HTTPRequestOperation.Success?
    var failure: HTTPRequestOperation.Failure?
    var rareHandlers: RareHandlers?

    /// The handlers that are called at the end.
    struct FinalHandlers: Sendable {
        let completion: (@Sendable () -> Void)?
        let success: HTTPRequestOperation.Success?
        let failure: HTTPRequestOperation.Failure?
    }

    var finalHandlers: FinalHandlers { FinalHandlers(completion: completion, success: success, failure: failure) }

    var hasHandlers: Bool { success != nil || failure != nil || completion != nil }

    /// Whether handlers must be handed to their queue now: there are some, and the operation has finished. Answers true
    /// once until they are taken.
    mutating func beginHandover() -> Bool {
        guard isFinished, hasHandlers, !isHandoverPending else { return false }
        isHandoverPending = true
        return true
    }

    mutating func takeHandlers() -> FinalHandlers {
        isHandoverPending = false
        return FinalHandlers(completion: completion.take(), success: success.take(), failure: failure.take())
    }

    /// Handlers that few operations have.
    final class RareHandlers: @unchecked Sendable {
        // Guarded by the operation's lock.
        var download: URLConnectionOperation.ProgressHandler?
        var upload: URLConnectionOperation.ProgressHandler?
        var redirect: URLConnectionOperation.RedirectHandler?
        var retry: URLConnectionOperation.RetryHandler?
        var prepare: URLConnectionOperation.Preparation?
        /// What is taken from dependencies, in the order in which it was added.
        var inputs: [DependencyInput] = []
        var challenge: URLConnectionOperation.AuthenticationChallengeHandler?
        var cache: URLConnectionOperation.CacheResponseHandler?
        var traceContext: URLConnectionOperation.TraceContextProvider?
        /// Decides, on the network thread, whether the body of a response goes into the output stream.
        var acceptsBody: (@Sendable (ResponseHead) -> Bool)?
        /// Hears of changes first.
        var supervisor: (any OperationSupervisor)?
        /// Decides what the handlers leave open.
        var delegate: (any OperationDelegate)?

        var copy: RareHandlers {
            let copy = RareHandlers()
            (copy.download, copy.upload, copy.redirect) = (download, upload, redirect)
            (copy.retry, copy.prepare, copy.challenge) = (retry, prepare, challenge)
            (copy.cache, copy.traceContext, copy.inputs) = (cache, traceContext, inputs)
            return copy
        }
    }

    var handlers: RareHandlers {
        mutating get { rareHandlers.made(by: RareHandlers()) }
    }

    // MARK: Results, final before `isFinished` is true

    var head: ResponseHead?
    var data: Data?
    var object: ObjectBox?
    var error: (any Error)?
    /// The redirects of the latest try.
    var redirects: [RedirectEvent] = []
    /// Whether decoding the body is left to the task that awaits the operation.
    var isUndecoded = false

    // MARK: The work

    /// What does the work, if it is not one transfer.
    var worker: (any OperationWorker)?
    var workSlot = WorkSlot()
    /// Whether the response is accepted, and the output stream is to commit it.
    var commitsOutput = false
    var transfer: OperationTransfer?
    /// The transport of all tries.
    var carrier: (any Transport)?
    var hasBegun = false
    var retry: RetryRecord?
    /// The timer of the time limit for the whole operation, until that has finished.
    var expiryTimer: (any ClockTimer)?
    /// Under which the latest try goes out.
    var traceContext: TraceContext?

    var retryRecord: RetryRecord {
        mutating get { retry.made(by: RetryRecord()) }
    }

    var authentication: AuthenticationWork?

    var authenticationWork: AuthenticationWork {
        mutating get { authentication.made(by: AuthenticationWork()) }
    }

    /// Whether what a manager was given for its base URL may go where the request goes.
    private var isForOwnOrigin: Bool {
        guard let targets = common.values.holder.authorizedTargets else { return true }
        return request.target.map(targets.contains) ?? false
    }

    /// What sends a token with the request.
    var authenticator: Authenticator? {
        guard let authenticator = common.values.authenticator else { return nil }
        return isForOwnOrigin ? authenticator : nil
    }

    /// Where credentials come from.
    var credentialSource: CredentialSource {
        var source = CredentialSource()
        let values = common.values
        if let credential = values.credential, isForOwnOrigin {
            source.own = credential
            source.ownServer = request.url.flatMap { AuthenticatingServer($0) }
        }
        source.store = values.shouldUseCredentialStorage ? values.credentials : nil
        values.connectionConfiguration.addProxyCredentials(to: &source)
        return source
    }

    // MARK: The delivery

    /// The completion group, once it has been entered.
    var enteredGroup: DispatchGroup?
    var isFinished = false
    /// Whether the handlers have been handed to their queue, which has not called them yet.
    var isHandoverPending = false
    /// Whether the handlers have run, or there are none.
    var areHandlersDone = false
    /// Whether the end has been posted, so that dependents and queues know of it.
    var isEndPosted = false
    var isDelivered: Bool { areHandlersDone && isEndPosted }
    /// Blocks of the library that wait for the delivery to be over.
    var hooks: [@Sendable () -> Void] = []

    // MARK: Observers

    var observationCenter: ObservationCenter?
    var progressReport: ProgressReport?
    var keptProgress: KeptProgress?
    /// How far an operation is that has no transfer of its own.
    var reportedProgress: ReportedProgress?

    /// The operation has finished. Returns the transfer, whose progress is kept where the body does not tell it.
    mutating func takeTransfer() -> OperationTransfer? {
        guard let transfer = transfer.take() else {
            if let reported = reportedProgress.take() { keptProgress = KeptProgress(reported.counts.progress) }
            return nil
        }
        var progress = transfer.progress
        if progress.bytesSent > 0 || progress.bytesReceived != Int64(data?.count ?? 0) {
            if error == nil { progress.bytesExpectedToReceive = progress.bytesReceived }
            keptProgress = KeptProgress(progress)
        }
        return transfer
    }

    /// How far the transfer is, of one that has begun.
    var currentProgress: TransferProgress? { transfer?.progress ?? reportedProgress?.counts.progress }

    init(_ request: TransferRequest, _ common: RequestSettings) {
        self.request = request
        self.common = common
    }

    /// The transport of all tries of the operation, chosen with the first.
    mutating func openCarrier() -> any Transport {
        if let carrier { return carrier }
        // Not a copy of all values: each reference in it would be retained.
        let own = common.values.holder.transports.next
        let isShared =
            common.values.coalescesIdenticalRequests && rareHandlers?.redirect == nil && rareHandlers?.traceContext == nil
            && !isDecidedUpon && outputStream == nil
        let chosen = isShared ? own.coalescing : own
        carrier = chosen
        return chosen
    }

    /// Whether a delegate decides about the transfer, set when the first try begins.
    var isDecidedUpon = false

    mutating func openTransfer(over carrier: any Transport) -> OperationTransfer {
        if let transfer { return transfer }
        let opened = OperationTransfer(
            url: outputStream == nil ? nil : request.url, output: outputStream?.stream, transport: carrier)
        transfer = opened
        return opened
    }

    /// How many bytes of a body may be kept in memory.
    func memoryLimit(whenParsed isParsed: Bool) -> Int {
        let limit = common.values.maximumBodySize
        return isParsed ? min(limit, common.values.serializer.parsingLimit ?? .max) : limit
    }

    /// The request with the limit that was set for the time without a byte, if there is one.
    var requestWithTimeout: TransferRequest {
        guard let limit = common.values.idleTimeout else { return request }
        return request.with(timeoutInterval: limit)
    }

    /// Enters the completion group, once.
    mutating func enterCompletionGroup() {
        guard enteredGroup == nil, !isFinished, let group = common.values.completionGroup else { return }
        group.enter()
        enteredGroup = group
    }
}

extension URLConnectionOperation: RequestConfigurable {
    /// The settings. Those of connections are read when an attempt begins, those of handlers when these are called.
    public final var settings: RequestSettings {
        get { core.withLock { $0.common } }
        set {
            updateSettings { settings in
                let old = settings
                settings = newValue
                // With the token it would wait for itself.
                if old.values.holder.isOfRefresh { settings.values.authenticator = old.values.authenticator }
            }
        }
    }

    /// Changes settings, and loses no change that another thread makes at the same time. See
    /// ``RequestConfigurable/updateSettings(_:)``.
    public final func updateSettings<Result>(_ update: (inout RequestSettings) throws -> Result) rethrows -> Result {
        let result = try RequestSettings.update(update, read: { settings }) { old, new in
            core.withLock { $0.common.replace(old, by: new) }
        }
        beginToTell(settings)
        return result
    }

    /// Changes settings, those too that belong to the operation.
    final func change(_ body: (inout RequestSettings.Values) -> Void) {
        // The old settings may hold the last reference to a user's objects, which must not be released under the lock.
        let old = core.withLock { core in
            let old = core.common
            body(&core.common.values)
            return old
        }
        withExtendedLifetime(old) {}
    }

    /// Sets what the operation shares with no other. The old value is released outside the lock, as its `deinit` may use the
    /// operation.
    final func set<Value: Sendable>(own member: WritableKeyPath<OperationCore, Value> & Sendable, to value: Value) {
        let old = core.withLock { core in
            defer { core[keyPath: member] = value }
            return core[keyPath: member]
        }
        withExtendedLifetime(old) {}
    }
}
