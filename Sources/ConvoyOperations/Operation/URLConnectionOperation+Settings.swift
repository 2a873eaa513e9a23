import ConvoySecurity
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// The settings of an operation.
extension URLConnectionOperation {
    /// Rewrites the request with the results of the dependencies. Called once, when they have finished and the
    /// operation begins, on one of the library's threads, which it may block. An error that it throws becomes the
    /// operation's error.
    public final var prepare: Preparation? {
        get { core.withLock { $0.rareHandlers?.prepare } }
        set { setHandler(\.prepare, newValue) }
    }

    /// What a failed or cancelled dependency does to the operation. `.run` by default; but an operation that takes a value
    /// from a dependency, by `depend(on:prepare:)`, fails with that one's error, unless `.run` was set for it.
    public final var dependencyFailurePolicy: DependencyFailurePolicy {
        get { core.withLock { $0.common.values.dependencyFailurePolicy } ?? .run }
        set { change { $0.dependencyFailurePolicy = newValue } }
    }

    /// Whether the request may share one transfer with identical GETs that are in flight. False by default.
    ///
    /// Requests are identical if they have the same URL, headers, timeout, cache policy and configuration. Cancelling
    /// or pausing one does not affect the others. An operation with a `redirectHandler` or an `outputStream` does not share.
    public final var coalescesIdenticalRequests: Bool {
        get { core.withLock { $0.common.values.coalesces } }
        set { change { $0.coalesces = newValue } }
    }

    /// Settings for the connection, such as certificates to trust, or headers to remove on a redirect to another
    /// origin.
    public final var connectionConfiguration: ConnectionConfiguration {
        get { core.withLock { $0.common.values.configuration } }
        set { set(\.configuration, to: newValue) }
    }

    /// Which servers are trusted: that of `connectionConfiguration`. The counterpart of `securityPolicy`.
    ///
    /// Where it pins the host of a URL without TLS, the operation fails with
    /// `URLError.appTransportSecurityRequiresSecureConnection` before anything is connected.
    public final var securityPolicy: SecurityPolicy {
        get { core.withLock { $0.common.values.configuration.securityPolicy } }
        set { set(\.configuration.securityPolicy, to: newValue) }
    }

    /// The request's body as a stream: its `httpBodyStream`. Read on one of the library's threads.
    public final var inputStream: InputStream? {
        get { request.httpBodyStream }
        set {
            struct Input: @unchecked Sendable { let stream: InputStream? }
            let input = Input(stream: newValue)
            let old = core.withLock { core in
                let old = core.request
                var request = old.urlRequest
                request.httpBodyStream = input.stream
                core.request = .foundation(request)
                return old
            }
            withExtendedLifetime(old) {}
        }
    }

    /// The stream that gets the body, in place of `responseData`. Opened when the operation begins, closed when it
    /// finishes.
    ///
    /// The body of a response whose status is not accepted is not written to it. If a response must be fetched again
    /// from its start after a pause, the stream must be able to start over, as `FileOutputStream` can.
    ///
    /// The stream is opened, written, rewound and closed on one of the library's threads, so it may block; only a
    /// `FileOutputStream` to a file on a local disk is written on the network thread. Unlike in AFNetworking, only the
    /// return value of `write` counts; `hasSpaceAvailable` is not used.
    public final var outputStream: OutputStream? {
        get { core.withLock { $0.outputStream }?.stream }
        set { set(own: \.outputStream, to: newValue.map(OutputStreamBox.init(stream:))) }
    }

    /// The size of the largest body that is kept in memory, in bytes after decompression. 256 MiB by default; the
    /// response serializer's `limits` apply too. A larger body fails with `URLError.dataLengthExceedsMaximum` as soon
    /// as its size is known. A body that goes to `outputStream` is not limited.
    public final var maximumBodySize: Int {
        get { core.withLock { $0.common.values.maximumBodySize } }
        set { change { $0.maximumBodySize = newValue } }
    }

    /// The queue on which the handlers run; nil, as in AFNetworking, is the main queue.
    ///
    /// On one serial queue the completion handlers of all operations run in the order in which the operations
    /// finished, a dependency's before a dependent's. On a concurrent one they are submitted in that order.
    public final var completionQueue: DispatchQueue? {
        get { core.withLock { $0.common.values.completionQueue } }
        set { set(\.completionQueue, to: newValue) }
    }

    /// A group that the operation enters when it is started, or enqueued in a `RequestOperationQueue` or by a manager,
    /// and leaves after its handlers have run.
    public final var completionGroup: DispatchGroup? {
        get { core.withLock { $0.common.values.completionGroup } }
        set { set(\.completionGroup, to: newValue) }
    }

    /// Values for your own use; the library ignores them.
    public final var userInfo: [String: any Sendable] {
        get { core.withLock { $0.common.values.userInfo } }
        set { set(\.userInfo, to: newValue) }
    }

    /// Whether `networkingOperationDidStart` and `networkingOperationDidFinish` are posted. True by default.
    public final var postsNotifications: Bool {
        get { core.withLock { $0.common.values.postsNotifications } }
        set { change { $0.postsNotifications = newValue } }
    }

    /// Called with the bytes that have arrived, on `completionQueue`. Calls are combined if the queue cannot keep up.
    /// After a pause, the total continues where it was.
    public final var downloadProgressHandler: ProgressHandler? {
        get { core.withLock { $0.rareHandlers?.download } }
        set {
            setHandler(\.download, newValue)
            if newValue != nil { onlookers.insert(.progress) }
        }
    }

    /// Called with the bytes of the request's body that have been sent, on `completionQueue`.
    public final var uploadProgressHandler: ProgressHandler? {
        get { core.withLock { $0.rareHandlers?.upload } }
        set {
            setHandler(\.upload, newValue)
            if newValue != nil { onlookers.insert(.progress) }
        }
    }

    /// The progress of the response's body in bytes. Its `cancel()`, `pause()` and `resume()` act on the operation.
    ///
    /// It is updated on one serial queue of the library, the same for all operations, as Foundation's `Progress` is not
    /// thread-safe.
    public final var progress: Progress {
        onlookers.insert(.progress)
        return progressReport.progress(of: self)
    }

    /// Made with its first use.
    final var progressReport: ProgressReport {
        core.withLock { $0.progressReport.made(by: ProgressReport()) }
    }

    /// Sets a handler. Releasing the old one may run user code, so it is released outside the lock.
    final func setHandler<Handler: Sendable>(
        _ member: ReferenceWritableKeyPath<OperationCore.RareHandlers, Handler?> & Sendable, _ handler: Handler?
    ) {
        let old: Handler? = core.withLock { core in
            guard handler != nil || core.rareHandlers != nil else { return nil }
            // Nobody will call it, or let go of it.
            guard !core.areHandlersDone else { return nil }
            let handlers = core.handlers
            defer { handlers[keyPath: member] = handler }
            return handlers[keyPath: member]
        }
        withExtendedLifetime(old) {}
    }
}

/// For `pauseAll()` and `resumeAll()` of a `RequestOperationQueue`.
extension URLConnectionOperation: PausableOperation {}
