import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The settings of an operation.
extension URLConnectionOperation {
    /// A closure that completes the request with the results of the dependencies. It is called once, on an internal
    /// thread, which it may block, when the dependencies have finished and the operation begins. An error that it
    /// throws becomes the operation's error. Set it before the operation starts. If it is set too late for the attempt
    /// in progress, a debug build warns once on standard error.
    public final var prepare: Preparation? {
        get { handler(\.prepare) }
        set {
            if newValue != nil { reportLateChange(of: "prepare") }
            setHandler(\.prepare, newValue)
        }
    }

    /// The rate limit for received bytes, or nil, the default, for none. It applies in addition to the manager's
    /// `connectionConfiguration.receiveRateLimits` and `RateLimit.shared`.
    ///
    /// This property is read at the start of each attempt. The rate of the `RateLimit` can be changed at any time, with
    /// immediate effect.
    public final var receiveRateLimit: RateLimit? {
        get { settings.values.receiveRateLimit }
        set { updateSettings { $0.values.receiveRateLimit = newValue } }
    }

    /// The rate limit for sent bytes of the request body, or nil, the default, for none. It applies in addition to the
    /// manager's `connectionConfiguration.sendRateLimits` and `RateLimit.sharedForSending`, like ``receiveRateLimit``.
    public final var sendRateLimit: RateLimit? {
        get { settings.values.sendRateLimit }
        set { updateSettings { $0.values.sendRateLimit = newValue } }
    }

    /// The request body as a stream (the request's `httpBodyStream`), which is read on an internal thread.
    public final var inputStream: InputStream? {
        get { request.httpBodyStream }
        set {
            if newValue != nil { reportLateChange(of: "inputStream") }
            changeRequest { $0.httpBodyStream = newValue }
        }
    }

    /// The stream that receives the body instead of `responseData`. It is opened when the operation begins and closed
    /// when the operation finishes.
    ///
    /// The body of a response with an unacceptable status code is not written to the stream. If a response must be
    /// fetched again from the start after a pause, the stream must be able to start over, as `FileOutputStream` can.
    ///
    /// The stream is opened, written, rewound and closed on an internal thread, so it may block; only a
    /// `FileOutputStream` to a file on a local disk is written on the network thread. Unlike in AFNetworking, only the
    /// return value of `write` is used, not `hasSpaceAvailable`.
    ///
    /// Set this before the operation starts. A later change has no effect, and a debug build warns about it once on
    /// standard error.
    public final var outputStream: OutputStream? {
        get { extra(\.place)?.stream }
        set {
            if newValue != nil { reportLateChange(of: "outputStream") }
            set(newValue.map { BodyDestination($0) }) { swap(&$0.place, &$1) }
        }
    }

    /// The handler called on `completionQueue` when bytes have been received. Calls are combined if the queue cannot
    /// keep up. After a pause, the total continues from its previous value.
    public final var downloadProgressHandler: ProgressHandler? {
        get { handler(\.download) }
        set {
            setHandler(\.download, newValue)
            if newValue != nil { declare(.progress) }
        }
    }

    /// The handler called on `completionQueue` when bytes of the request body have been sent.
    public final var uploadProgressHandler: ProgressHandler? {
        get { handler(\.upload) }
        set {
            setHandler(\.upload, newValue)
            if newValue != nil { declare(.progress) }
        }
    }

    /// The progress of the transfer: the bytes sent and received. The length of the response is added when it becomes
    /// known. Its `cancel()`, `pause()` and `resume()` act on the operation.
    ///
    /// The object is updated on one serial queue shared by all operations, because Foundation's `Progress` is not
    /// thread-safe.
    public final var progress: Progress {
        declare(.progress)
        return progressReport.progress(of: self)
    }

    /// The progress report, created on first use.
    final var progressReport: ProgressReport {
        core.withLock { $0.progressReport.made(by: ProgressReport()) }
    }

    /// Returns a handler that few operations have. Inlined, the compiler replaces the key path by an access, which saves
    /// 700 instructions.
    @inline(__always)
    final func handler<Handler: Sendable>(
        _ member: KeyPath<OperationCore.OptionalHandlers, Handler?> & Sendable
    ) -> Handler? {
        core.withLock { $0.handlers.state?[keyPath: member] }
    }

    /// Sets a handler. The old one is released outside the lock, because its release may run user code.
    @inline(__always)
    final func setHandler<Handler: Sendable>(
        _ member: ReferenceWritableKeyPath<OperationCore.OptionalHandlers, Handler?> & Sendable, _ handler: Handler?
    ) {
        let old: Handler? = core.withLock { core in
            guard handler != nil || core.handlers.exists else { return nil }
            // A handler set after the others have run would never be called or released.
            guard !core.areHandlersDone else { return nil }
            let handlers = core.handlers.made
            defer { handlers[keyPath: member] = handler }
            return handlers[keyPath: member]
        }
        withExtendedLifetime(old) {}
    }

    /// Sends the body to an internal sink instead of memory or a user's stream. Set it before the operation begins.
    package final func setBodySink(_ sink: any BodySink) {
        set(BodyDestination?.some(BodyDestination(sink))) { swap(&$0.place, &$1) }
    }
}

/// Lets `pauseAll()` and `resumeAll()` of a `RequestOperationQueue` act on the operation.
extension URLConnectionOperation: PausableOperation {}

extension ThrottledBodyStream {
    /// The rate limit of the body, derived from its packet size and delay; nil if either is not set. The rate is at
    /// least one byte per second, unless the delay is infinite.
    var rateLimit: RateLimit? {
        guard packetSize > 0, packetSize < .max, delay > 0 else { return nil }
        let rate = delay.isFinite ? min(max(1, Double(packetSize) / delay), 1e15) : 0
        return RateLimit(bytesPerSecond: Int64(rate))
    }
}

extension URLConnectionOperation {
    /// A closure called with the number of bytes transferred since the last call, the total so far, and the expected
    /// total if known.
    public typealias ProgressHandler = @Sendable (_ bytes: Int64, _ total: Int64, _ expected: Int64?) -> Void

    /// A closure that decides about a redirect. It returns the request to follow, as proposed or modified, or nil to
    /// treat the redirect response as the final response.
    ///
    /// The returned request is sent unchanged.
    public typealias RedirectHandler =
        @Sendable (
            _ operation: URLConnectionOperation, _ request: URLRequest, _ response: HTTPURLResponse?
        ) -> URLRequest?

    /// A closure that modifies the request after the operation's dependencies have finished, or throws to fail the
    /// operation.
    ///
    /// Foundation's `setValue` ignores a value with a line break; see `URLConnectionOperation.init(request:)`.
    public typealias Preparation = @Sendable (_ request: inout URLRequest) throws -> Void
}

extension URLConnectionOperation {
    /// Warns in a debug build about a setting that was changed too late to affect the attempt in progress.
    ///
    /// - Parameter name: The name of the setting; nil if nothing has changed.
    final func reportLateChange(of name: @autoclosure () -> String?) {
        #if DEBUG
        if isTooLateForSettings, let name = name() { UsageWarning.lateSetting.give(about: name) }
        #endif
    }

    /// Whether the operation has finished, or an attempt in progress has read the settings.
    final var isTooLateForSettings: Bool {
        core.withLock { core in
            guard !core.isFinished, let attempt = core.attempt else { return core.isFinished }
            return attempt.transport != nil && attempt.phase.isUnderWay
        }
    }
}
