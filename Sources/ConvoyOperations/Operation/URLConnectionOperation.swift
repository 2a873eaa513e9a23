import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// An operation that performs a URL request. The counterpart of `AFURLConnectionOperation`.
///
/// It can depend on other operations, can be paused, resumed or cancelled in any state, and finishes exactly once. Its
/// states are `ready`, `executing`, `paused` and `finished`; `Lifecycle` describes the transitions. All members can be
/// used from any thread.
///
/// The request, the output stream and the connection settings are read when an attempt begins; the transport and
/// `totalTimeout` when the first attempt begins. Handlers and their queue are read when the handlers are called.
///
/// `completionBlock` and all handlers run on `completionQueue`, or on the main queue if that is nil, and inside
/// `completionGroup`. The operation releases all closures after they have run.
open class URLConnectionOperation: ScheduledOperation, NSCopying, @unchecked Sendable {
    /// Another name for ``OperationState``.
    public typealias State = OperationState

    let core: Locked<OperationCore>
    let logReference = AtomicOnce<OperationLog>()

    /// A box for a response object of any type, which is passed unchanged from the serializer to its readers.
    final class ObjectBox: @unchecked Sendable {
        let object: Any?

        init(_ object: Any?) { self.object = object }
    }

    /// Creates an operation for a request. The transfer runs on the shared network thread.
    ///
    /// An invalid HTTP request fails with `URLError.badURL` before anything is sent. Examples are a URL with a user
    /// name or password and a header with a control character. On Linux, Foundation hides some of these mistakes:
    /// `URLRequest.setValue` and `addValue` silently ignore a value with a line break or a NUL and keep the earlier
    /// value. Set untrusted values through `allHTTPHeaderFields`, a request serializer or a manager's `headers`, where
    /// invalid characters are detected.
    public required init(request: URLRequest) {
        core = Locked(OperationCore(TransferRequest(request), RequestSettings()))
        super.init()
        // A user's subclass may override `start()`. Operations may become ready on the network thread, which must not
        // run user code.
        let isPlain = type(of: self) == HTTPRequestOperation.self || type(of: self) == URLConnectionOperation.self
        declare(isPlain ? [.ofLibrary, .startedDirectly, .endsByLifecycle] : .endsByLifecycle)
    }

    /// Creates an operation for a manager. This is a convenience initializer because otherwise subclasses with their
    /// own initializers would no longer inherit the convenience initializers.
    ///
    /// - Parameter host: The host of a prepared request.
    convenience init(_ request: TransferRequest, settings: RequestSettings, host: String?) {
        self.init(request: Self.placeholder)
        core.withLock { core in
            core.request = request
            core.common = settings
            core.knownHost = host
        }
        beginToTell(settings)
    }

    /// The request of an operation until the manager's request is set. Without a URL, nothing is parsed.
    private static let placeholder: URLRequest = {
        var request = URLRequest(url: URL(fileURLWithPath: "/"))
        request.url = nil
        return request
    }()

    /// Creates an operation that runs on the given network thread.
    package convenience init(request: URLRequest, thread: NetworkThread) {
        self.init(request: request, transport: thread)
    }

    package convenience init(
        request: URLRequest, transport: any Transport, clock: any SchedulingClock = MonotonicClock()
    ) {
        self.init(request: request)
        change { values in
            values.holder.transport = transport
            values.holder.clock = clock
        }
    }

    // MARK: State

    /// The state of the operation. Observe it with `observe(_:on:_:)`.
    public final var state: State { lifecycle.value.state }

    /// Whether the operation is paused.
    public final var isPaused: Bool { state == .paused }

    open override var isAsynchronous: Bool { true }

    package override var reportsItsEnd: Bool { true }
    package override func didJoinQueue() {
        enterCompletionGroup()
        eventLog?.note(.event(.enqueued))
        noteWaiting()
    }
    override var delayReason: WaitReason { core.withLock { $0.attempt?.wait?.reason } ?? .retry }
    override func willWait(for reason: WaitReason) { eventLog?.note(.wait(reason)) }
    /// Returns the host of the next request, and whether the operation waits at its gate. The host includes the port
    /// unless it is the default port, so two services on one machine count as two hosts.
    package override var hostAndGate: (host: String?, waitsAtGate: Bool) {
        guard takesSlot else { return (nil, false) }
        return core.withLock { core in
            let host = core.host
            return (host, host != nil && core.common.prepared.hasRetryPolicy)
        }
    }
    package override func willWaitAtGate(until deadline: UInt64) {
        beginResourceTimeout()
        // A redirected operation is already executing while it waits.
        if state != .executing { willWait(for: .closedGate) }
        reportClosedGate(until: deadline)
    }

    /// Starts the operation, continues it after a pause, or finishes it if it was cancelled. Called by the queue.
    ///
    /// If you call this method yourself, it has no effect while the operation waits for dependencies, is paused or
    /// waits for a retry. Do not call it for an operation that is in a queue.
    open override func start() {
        guard isHeldByNobody || lifecycle.value.hasBegun else {
            // The operation is no longer ready, so return its slot to the queue.
            noteWaiting()
            return slotDidFree()
        }
        handle(.start)
    }

    /// Stops the transfer and keeps the bytes received so far. In a `RequestOperationQueue`, the operation releases its
    /// slot.
    ///
    /// A non-idempotent request (RFC 9110, section 9.2.2), such as a POST, is not sent again if part of it may have
    /// been sent. The transfer keeps its connection, which is held until `resume()`; only `totalTimeout` applies during
    /// that time. If the connection is lost during the pause, the operation fails after `resume()` with
    /// `URLError.networkConnectionLost`, because the server may have processed the request. Until then the operation is
    /// retained.
    ///
    /// An operation that has not begun does not start until `resume()`. This method has no effect if the operation has
    /// finished or is cancelled.
    open func pause() {
        handle(worker != nil || RequestRules.isIdempotent(transferRequest.method) ? .pause : .hold)
    }

    /// Resumes the operation after `pause()`. A GET continues where it stopped if the server supports ranges and the
    /// resource is provably unchanged; otherwise it starts over and discards the bytes of the first attempt. A request
    /// that must not be sent twice continues its transfer.
    open func resume() { handle(.resume) }

    /// Cancels the operation, which finishes with `URLError.cancelled`, calls its failure handler once, and lets its
    /// dependents run. This method has no effect if the operation has finished.
    ///
    /// If a complete download is being moved to its destination, the operation waits up to one second for the move. If
    /// the move ends in that time, its result becomes the operation's. Otherwise the operation finishes as cancelled,
    /// and the file may appear later.
    ///
    /// A started operation finishes as soon as its transfer has stopped. An operation that is paused without a
    /// transfer, or waits for a retry, finishes immediately. An operation that was never started is only marked as
    /// cancelled, as in Foundation, and finishes without doing its work when it is started. A `RequestOperationQueue`
    /// starts it immediately, regardless of limits. Foundation's `OperationQueue` starts it in its turn, without
    /// waiting for its dependencies or for `resume()`. A cancelled operation can still be added to a queue; outside a
    /// queue, it finishes when `start()` or `finished()` is called.
    open override func cancel() {
        handle(.cancel)
        // Foundation's `super.cancel()` is not called: it would let the operation pass a barrier of Foundation's queue,
        // but it permanently blocks the thread that adds a cancelled operation behind a barrier.
    }

    /// Whether the work has begun and continues automatically.
    package final var isUnderWay: Bool {
        let life = lifecycle.value
        return life.state == .executing || life.isBackingOff
    }

    // MARK: Results

    /// The request, as passed to the initializer or as modified by `prepare`.
    public final var request: URLRequest {
        let request = transferRequest
        guard !request.isFoundationRequest else { return request.urlRequest }
        let made = request.urlRequest
        set(request.keeping(made)) { if $0.request === request { swap(&$0.request, &$1) } }
        return made
    }

    /// The request in the form in which it is sent.
    final var transferRequest: TransferRequest { core.withLock { $0.request } }

    /// The response; nil until its head has arrived. If the body was continued after a pause, this is the response with
    /// which the body began.
    public final var response: HTTPURLResponse? { currentHead?.urlResponse }

    /// The status code of the response; nil until its head has arrived.
    public final var statusCode: Int? { currentHead?.statusCode }

    /// The body, after the operation has finished; nil if the transfer failed or the body was written to
    /// `outputStream`. The body of a response with an unacceptable status code is included.
    public final var responseData: Data? { result?.data }

    /// The result; nil until the operation has finished with an outcome.
    final var result: OperationCore.StoredResult? { hasOutcome ? core.withLock { $0.result } : nil }

    /// The body as a string; nil if the bytes cannot be decoded. The body is decoded in `responseStringEncoding` if
    /// that was set, otherwise as by a `StringResponseSerializer`: according to its byte-order mark, the charset named
    /// by the response, or the serializer's `stringEncoding`, which is UTF-8 by default.
    public final var responseString: String? {
        guard let data = responseData else { return nil }
        return responseCharset(of: data).text(of: data)
    }

    /// The encoding in which `responseString` decodes the body. Unless set, this is the Foundation encoding nearest to
    /// the charset of the body, or UTF-8 by default; `responseString` supports more charsets than Foundation does.
    public final var responseStringEncoding: String.Encoding {
        get { responseCharset(of: responseData ?? Data()).encoding ?? .utf8 }
        set { change { $0.responseStringEncoding = newValue } }
    }

    private func responseCharset(of data: Data) -> Charset {
        let values = settings.values
        if let chosen = values.responseStringEncoding { return Charset(chosen) }
        return .ofText(
            data, label: response?.textEncodingName, otherwise: Charset(values.responseSerializer.stringEncoding))
    }

    /// The reason for the failure; nil if the operation has not failed. This is a `URLError` for a failed transfer,
    /// with the URL and libcurl's message in its `userInfo`; the error thrown by `prepare`; or the serializer's error.
    public final var error: (any Error)? {
        if hasOutcome { return core.withLock { $0.result.error } }
        let life = lifecycle.value
        guard life.state == .finished else { return nil }
        if life.isExpired { return resourceTimeoutError }
        let reason = (cancellationReason as? RequestOperationQueueError).map { " \($0)" } ?? ""
        let cancelled = URLError(
            .cancelled, url: request.url, "The operation was cancelled.\(reason)", underlying: cancellationReason)
        return cancelled.hiding(connectionConfiguration.secrets)
    }

    /// Whether the operation has finished with an outcome. An outcome that arrives during a pause is hidden until the
    /// operation is resumed.
    final var hasOutcome: Bool { lifecycle.value.hasOutcome }

    // MARK: Completion

    /// The block called once on `completionQueue` when the operation has finished and its results are final, after the
    /// success or failure handler, and then released. A block that is set after the operation has finished is also
    /// called once.
    open override var completionBlock: (@Sendable () -> Void)? {
        get { core.withLock { $0.finalHandlers.completion } }
        set { setFinalHandlers { $0.completion = newValue } }
    }

    // MARK: Copying

    /// The counterpart of `NSCopying`; equivalent to `makeCopy()`.
    public final func copy(with zone: NSZone? = nil) -> Any { makeCopy() }

    /// Returns a new operation of the same class for the same request. It has the same settings and handlers, except
    /// for the completion handlers and the output stream. A subclass copies its own properties in `copySettings(to:)`.
    ///
    /// The copy depends only on the operations whose values its request still needs.
    public final func makeCopy() -> Self {
        let copy = Self(request: request)
        let (common, presetFailure, handlers) = core.withLock { ($0.common, $0.presetFailure, $0.handlers.state?.copy) }
        copy.core.withLock { core in
            core.common = common
            core.presetFailure = presetFailure
            core.handlers = OnDemand(state: handlers)
        }
        if let handlers {
            copy.declare(.progress)
            for source in handlers.inputs.flatMap(\.sources) { copy.addDependency(source) }
        }
        copy.beginToTell(common)
        // No task awaits the copy's value, so the serializer must decode it.
        if common.values.holder.awaitedValue != nil { copy.change { $0.holder.awaitedValue = nil } }
        copySettings(to: copy)
        return copy
    }

    /// Copies the stored properties of a subclass to a new operation of the same class, which already has all of the
    /// library's settings. Called by `makeCopy()`. Override it for every stored property that you add, and call
    /// `super`.
    ///
    /// ```swift
    /// override func copySettings(to copy: URLConnectionOperation) {
    ///     super.copySettings(to: copy)
    ///     (copy as? UserOperation)?.cacheKey = cacheKey
    /// }
    /// ```
    open func copySettings(to copy: URLConnectionOperation) {}

    /// A description with the class, address, state, ``ScheduledOperation/waitReason``, method, status, and URL without
    /// secrets (see `ConnectionConfiguration.sensitiveQueryItems`).
    open override var description: String {
        let url = request.url.map { Redaction.url($0.absoluteString, connectionConfiguration.secrets) }
        return "<\(type(of: self)): \(Unmanaged.passUnretained(self).toOpaque()), state: \(state), "
            + "cancelled: \(isCancelled), \(waitReason.map { "waiting: \($0), " } ?? "")"
            + "request: \(request.httpMethod ?? "GET") \(url ?? "none"), status: \(statusCode.map(String.init) ?? "none")>"
    }

    // MARK: The lifecycle

    /// Performs the action that results from a lifecycle change. Tests override this method to run other threads
    /// between the change and the action.
    package override func proceed(after transition: AtomicLifecycle.Transition) {
        guard let supervisor else { return carryOut(transition) }
        supervisor.operation(self, changes: transition) { self.carryOut(transition) }
    }

    // MARK: For HTTPRequestOperation

    /// Whether a response serializer validates and parses the response.
    package var serializesResponse: Bool { false }

    /// Whether only the library's response serializer is involved, without a user's subclass.
    package var serializesPlainly: Bool { false }

    /// Validates and parses the response, including in a user's subclass.
    package func makeResponseObject(for response: HTTPURLResponse?, data: Data?) throws -> Any? { nil }
}

/// Methods that await the end of an operation.
extension URLConnectionOperation {
    /// Waits until the operation has finished and its handlers have run. Starts the operation if it is not in a queue.
    /// Cancelling the task cancels the operation.
    ///
    /// ```swift
    /// let operation = HTTPRequestOperation(request: request)
    /// try await operation.finished()
    /// ```
    ///
    /// An operation that was neither enqueued nor started is started as soon as its dependencies have finished, and no
    /// limit of a queue applies to it. Its dependencies are not started: enqueue, start or await them as well. A paused
    /// operation waits until it is resumed; a cancelled operation finishes immediately.
    ///
    /// Adding the operation to a manager afterwards has no effect. Do not add it to an `OperationQueue`: Foundation
    /// would start it again. An operation whose `isReady` was evaluated is assumed to be in a Foundation queue, and its
    /// owner must enqueue or start it.
    ///
    /// - Throws: The operation's `error`.
    public final func finished() async throws {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                whenDelivered { continuation.resume() }
                startAwaited()
            }
        } onCancel: {
            cancel()
        }
        if let error { throw error }
    }
}
