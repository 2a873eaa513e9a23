import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// A URL request as an operation. The counterpart of `AFURLConnectionOperation`.
///
/// It can depend on other operations and be depended on, be paused and resumed, and be cancelled in any state, and
/// it finishes exactly once. Its states are `ready`, `executing`, `paused` and `finished`; `Lifecycle` describes the
/// transitions. All members can be used from any thread.
///
/// The request, the output stream and the connection's settings are read when an attempt begins; the transport and
/// `totalTimeout` when the first one begins. Handlers and their queue are read when they are called.
///
/// `completionBlock` and all handlers run on `completionQueue`, or on the main queue if that is nil, and inside
/// `completionGroup`. When they have run, the operation holds no closure any more.
open class URLConnectionOperation: ScheduledOperation, NSCopying, @unchecked Sendable {
    /// The state of an operation.
    public typealias State = OperationState

    let core: Locked<OperationCore>
    let flags = OperationFlags()
    /// How many of the two last steps have been made: the handlers have run, and the end has been posted.
    let deliverySteps = Atomic<Int>(0)
    /// When the total time limit ends, in nanoseconds of its clock; 0 until it has started.
    let resourceDeadline = Atomic<UInt64>(0)
    let logReference = OnceReference<TransitionLog>()
    let metricsReference = OnceReference<MetricsRecord>()
    let eventLogReference = OnceReference<OperationEventLog>()

    /// Holds a response object of any type, which is passed from the serializer to its readers and not changed here.
    final class ObjectBox: @unchecked Sendable {
        let object: Any?

        init(_ object: Any?) { self.object = object }
    }

    /// An operation for a request. It runs on the shared network thread.
    ///
    /// A request that HTTP does not allow fails with `URLError.badURL` before anything is sent: one with a user name or
    /// password in its URL, and one with a control character in a header. Foundation on Linux leaves less to find: its
    /// `URLRequest.setValue` and `addValue` ignore a value with a line break or a NUL, without a word and without
    /// removing an earlier value. Values from outside are better set through `allHTTPHeaderFields`, a request serializer
    /// or a manager's `headers`, where they are found.
    public required init(request: URLRequest) {
        core = Locked(OperationCore(.foundation(request), RequestSettings()))
        super.init()
        // A user's subclass may override `start()`, and operations become ready on the network thread, which runs no user
        // code.
        let isPlain = type(of: self) == HTTPRequestOperation.self || type(of: self) == URLConnectionOperation.self
        declare(isPlain ? [.ofLibrary, .startedDirectly, .endsByLifecycle] : .endsByLifecycle)
    }

    /// An operation of a manager. (Not a designated initializer: subclasses with an initializer of their own would then
    /// no longer inherit the others.)
    ///
    /// - Parameter host: that of a prepared request.
    convenience init(_ request: TransferRequest, settings: RequestSettings, host: HostKey?) {
        self.init(request: Self.placeholder)
        core.withLock { core in
            core.request = request
            core.common = settings
        }
        if let host { noteHost(host) }
        beginToTell(settings)
    }

    private static let placeholder = URLRequest(url: URL(fileURLWithPath: "/"))

    /// An operation for a request that runs on a network thread of the caller's choice.
    package convenience init(request: URLRequest, thread: NetworkThread) {
        self.init(request: request, transport: thread)
    }

    package convenience init(
        request: URLRequest, transport: any Transport, clock: any SchedulingClock = MonotonicClock()
    ) {
        self.init(request: request)
        change { values in
            values.holder.transports = TransportPool([transport])
            values.holder.clock = clock
        }
    }

    deinit {
        guard lifecycle.value.state != .finished else { return }
        // The operation never finished, and the group must not wait for ever.
        let (group, timer) = core.withLock { ($0.enteredGroup.take(), $0.expiryTimer.take()) }
        group?.leave()
        timer?.cancel()
    }

    // MARK: State

    /// The state of the operation. Observable by `observe(_:on:_:)`.
    public final var state: State { lifecycle.value.state }

    /// Whether `pause()` holds the operation back.
    public final var isPaused: Bool { state == .paused }

    open override var isAsynchronous: Bool { true }

    package override var reportsItsEnd: Bool { true }
    override var worksInStart: Bool { false }
    package override func didJoinQueue() {
        enterCompletionGroup()
        eventLog?.note(.event(.enqueued))
        noteWaiting()
    }
    override func willWait(for reason: WaitReason) {
        metricsRecord?.wait(for: reason)
        eventLog?.note(.wait(reason))
    }
    /// With the port, unless it is the default: two services on one machine are two hosts.
    override func lookUpHostAndGate() -> (host: HostKey?, waitsAtGate: Bool) {
        guard takesSlot else { return (nil, false) }
        let (url, hasPolicy) = core.withLock { core in
            (core.authentication?.continuation?.request.url ?? core.request.url, core.common.prepared.hasRetryPolicy)
        }
        let host = hostKey(of: url)
        if let host, !flags.contains(.otherRequest) { noteHost(host) }
        return (host, host != nil && hasPolicy)
    }
    package override func willWaitAtGate(until deadline: UInt64) {
        beginResourceTimeout()
        // A redirected operation waits during its work.
        if state != .executing { willWait(for: .closedGate) }
        tellOfClosedGate(until: deadline)
    }

    /// Starts the operation, continues it after a pause, or finishes it if it was cancelled. A queue calls this.
    ///
    /// Called by hand, it does nothing for an operation that waits for its dependencies, is paused or waits for a
    /// retry. It must not be called by hand for an operation in a queue.
    open override func start() {
        guard isHeldByNobody || lifecycle.value.hasBegun else {
            // The queue gets its slot back: the operation is no longer ready.
            noteWaiting()
            return slotDidFree()
        }
        handle(.start)
    }

    /// Stops the transfer and keeps what has arrived. The operation gives back its slot in a `RequestOperationQueue`.
    ///
    /// A request that is not idempotent (RFC 9110, section 9.2.2), such as a POST, and of which some may have been sent,
    /// is not sent again. Its transfer stays on its connection, which is held until `resume()`, without time limits
    /// except for `totalTimeout`. If the connection is lost during the pause, the operation fails after `resume()` with
    /// `URLError.networkConnectionLost`: the server may have processed the request. Until then the operation is retained.
    ///
    /// An operation that has not begun is held back until `resume()`. Does nothing if the operation has finished or is
    /// cancelled.
    open func pause() {
        let mayRepeat = core.withLock { $0.worker != nil || RequestRules.isIdempotent($0.request.method) }
        handle(mayRepeat ? .pause : .hold)
    }

    /// Continues after `pause()`. A GET continues where it stopped if the server supports that and the resource is
    /// provably the same; otherwise it starts over, and the bytes of the first attempt are dropped. A request that must
    /// not be sent twice continues its transfer.
    open func resume() { handle(.resume) }

    /// Cancels the operation: it finishes with `URLError.cancelled`, calls its failure handler once, and lets its
    /// dependents run. Does nothing if it has finished.
    ///
    /// While a complete download is put in its place, what becomes of that becomes of the operation: if it ends within a
    /// second, the operation was not cancelled, and succeeds or fails; otherwise the operation finishes as cancelled, and
    /// the file may appear later.
    ///
    /// An operation that was started finishes as soon as its transfer has stopped; one that is paused without a transfer,
    /// or waits for a retry, at once. One that was never started is only marked as cancelled, like Foundation's operations, and
    /// finishes without doing its work when it is started. A `RequestOperationQueue` starts it at once, regardless of
    /// limits; Foundation's `OperationQueue` when its turn comes, without waiting for its dependencies or a resume. It
    /// can still be added to a queue. In no queue, it finishes when it is started by hand or awaited by `finished()`.
    open override func cancel() {
        handle(.cancel)
        // Foundation's part, `super.cancel()`, is left out: it would let the operation pass a barrier of Foundation's
        // queue, but stops the thread for ever that adds a cancelled operation behind one.
    }

    // MARK: Results

    /// The request, as given or as `prepare` made it.
    public final var request: URLRequest {
        let request = core.withLock { $0.request }
        guard case .prepared(let prepared) = request else { return request.urlRequest }
        // The first request to be made is kept.
        let made = prepared.urlRequest
        return core.withLock { core in
            if case .prepared = core.request { core.request = .foundation(made) }
            return core.request.urlRequest
        }
    }

    /// The response; nil until its head has arrived. After a pause, the one with which the body began.
    public final var response: HTTPURLResponse? { core.withLock { $0.head }?.urlResponse }

    /// The status code of the response; nil until its head has arrived.
    public final var statusCode: Int? { core.withLock { $0.head }?.statusCode }

    /// The body, once the operation has finished with one; nil after a failure of the transfer, and for a body that
    /// went to `outputStream`. The body of a response with an unacceptable status is here too.
    public final var responseData: Data? { hasOutcome ? core.withLock { $0.data } : nil }

    /// The body as text, in `responseStringEncoding` if it was set, otherwise as a `StringResponseSerializer` decodes it:
    /// by its byte-order mark, the charset that the response names, or the serializer's `stringEncoding`, which is UTF-8
    /// by default. nil if the bytes cannot be decoded.
    public final var responseString: String? {
        guard let data = responseData else { return nil }
        return responseCharset(of: data).text(of: data)
    }

    /// The encoding in which `responseString` decodes the body, if it is set. Until then this is the Foundation
    /// encoding nearest to the charset of the body, or UTF-8 if there is none; `responseString` supports more charsets
    /// than Foundation does.
    public final var responseStringEncoding: String.Encoding {
        get { responseCharset(of: responseData ?? Data()).encoding ?? .utf8 }
        set { change { $0.responseStringEncoding = newValue } }
    }

    private func responseCharset(of data: Data) -> Charset {
        let values = core.withLock { $0.common.values }
        if let chosen = values.responseStringEncoding { return Charset(chosen) }
        return .ofText(
            data, label: response?.textEncodingName, otherwise: Charset(values.responseSerializer.stringEncoding))
    }

    /// Why the operation failed; nil while it has not. A `URLError` for a failure of the transfer, with the URL and
    /// libcurl's message in its `userInfo`; the error that `prepare` threw; or the serializer's error.
    public final var error: (any Error)? {
        if hasOutcome { return core.withLock { $0.error } }
        let life = lifecycle.value
        guard life.state == .finished else { return nil }
        if life.isExpired { return resourceTimeoutError }
        let reason = (cancellationReason as? RequestOperationQueueError).map { " \($0)" } ?? ""
        let cancelled = URLError(
            .cancelled, url: request.url, "The operation was cancelled.\(reason)", underlying: cancellationReason)
        return cancelled.hiding(connectionConfiguration.secrets)
    }

    /// Whether the operation has finished with the outcome of its work. An outcome during a pause is hidden until it is
    /// resumed.
    final var hasOutcome: Bool { lifecycle.value.hasOutcome }

    // MARK: Completion

    /// Called when the operation has finished and its results are final, on `completionQueue`, after the success or
    /// failure handler, and then released. One that is set after the end is called once, too.
    open override var completionBlock: (@Sendable () -> Void)? {
        get { core.withLock { $0.completion } }
        set { setFinalHandlers { $0.completion = newValue } }
    }

    // MARK: Copying

    /// The same as `makeCopy()`, untyped.
    public final func copy(with zone: NSZone? = nil) -> Any { makeCopy() }

    /// A new operation of the same class for the same request, with the same settings and handlers except for the
    /// completion handlers and the output stream, to repeat the request. A subclass copies its own properties in
    /// `copySettings(to:)`.
    ///
    /// The copy has no dependencies, but for those whose values it still needs for its request.
    public final func makeCopy() -> Self {
        let copy = Self(request: request)
        let (common, presetFailure, handlers) = core.withLock { ($0.common, $0.presetFailure, $0.rareHandlers?.copy) }
        copy.core.withLock { core in
            core.common = common
            core.presetFailure = presetFailure
            core.rareHandlers = handlers
        }
        if let handlers {
            copy.flags.insert(.progress)
            for source in handlers.inputs.flatMap(\.sources) { copy.addDependency(source) }
        }
        copy.beginToTell(common)
        // The copy's value is not awaited.
        if common.values.holder.awaitedValue != nil { copy.change { $0.holder.awaitedValue = nil } }
        copySettings(to: copy)
        return copy
    }

    /// Copies the stored properties of a subclass to a new operation of its class, which has all settings of the
    /// library's already. Called by `makeCopy()`. Override it together with each stored property, and call `super`.
    ///
    /// ```swift
    /// override func copySettings(to copy: URLConnectionOperation) {
    ///     super.copySettings(to: copy)
    ///     (copy as? UserOperation)?.cacheKey = cacheKey
    /// }
    /// ```
    open func copySettings(to copy: URLConnectionOperation) {}

    /// The class, the address, the state, the method and the URL without secrets (see
    /// `ConnectionConfiguration.sensitiveQueryItems`), and the status.
    open override var description: String {
        let url = request.url.map { Redaction.url($0.absoluteString, connectionConfiguration.secrets) }
        return "<\(type(of: self)): \(Unmanaged.passUnretained(self).toOpaque()), state: \(state), "
            + "cancelled: \(isCancelled), request: \(request.httpMethod ?? "GET") \(url ?? "none"), "
            + "status: \(statusCode.map(String.init) ?? "none")>"
    }

    // MARK: The lifecycle

    /// Applies an event to the operation, from any thread.
    final func handle(_ event: Lifecycle.Event) {
        if let transition = lifecycle.handle(event) { proceed(after: transition) }
    }

    /// Called between a change of the lifecycle and its action. Tests override it to let other threads run in between.
    package override func proceed(after transition: AtomicLifecycle.Transition) {
        guard let supervisor else { return carryOut(transition) }
        supervisor.operation(self, changes: transition) { self.carryOut(transition) }
    }

    // MARK: For HTTPRequestOperation

    /// Whether a response serializer validates and parses the response.
    package var serializesResponse: Bool { false }

    /// Whether the response serializer does that alone, without a user's subclass.
    package var serializesPlainly: Bool { false }

    /// Validates and parses the response, in a user's subclass as well.
    package func makeResponseObject(for response: HTTPURLResponse?, data: Data?) throws -> Any? { nil }
}

/// Awaiting the end.
extension URLConnectionOperation {
    /// Waits until the operation has finished and its handlers have run; starts it if it is not enqueued. Cancelling
    /// the task cancels the operation.
    ///
    /// ```swift
    /// let operation = HTTPRequestOperation(request: request)
    /// try await operation.finished()
    /// ```
    ///
    /// An operation that was neither enqueued nor started is added to a queue of the library, which lets 256 operations
    /// run at a time, and 64 for one host; so are the `ScheduledOperation`s that it depends on, and what they depend
    /// on. (Operations of other classes are not started, as they may be in a queue.) A paused one waits there until it
    /// is resumed, a cancelled one finishes at once.
    ///
    /// A manager, and a `RequestOperationQueue`, ignore an operation that they get later. `OperationQueue` itself must
    /// not get it after that, as no operation may be in two queues. An operation whose `isReady` was evaluated counts
    /// as being in a queue of Foundation's: it must be enqueued or started by its owner.
    ///
    /// - Throws: the operation's `error`.
    public final func finished() async throws {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                whenDelivered { continuation.resume() }
                AwaitedOperations.start(self)
            }
        } onCancel: {
            cancel()
        }
        if let error { throw error }
    }
}
