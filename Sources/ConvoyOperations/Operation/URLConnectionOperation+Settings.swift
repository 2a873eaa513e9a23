import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// What a user can set on an operation before it begins.
extension URLConnectionOperation {
    /// Rewrites the request with what the dependencies have delivered: called once, when they have finished and the
    /// operation begins, on a queue of the library's own. What it throws becomes the operation's error.
    public final var prepare: Preparation? {
        get { core.withLock { $0.rareHandlers?.prepare } }
        set { setHandler(\.prepare, newValue) }
    }

    /// What a failed or cancelled dependency does to the operation. `.run`, unless set.
    public final var dependencyFailurePolicy: DependencyFailurePolicy {
        get { core.withLock { $0.common.values.dependencyFailurePolicy } }
        set { change { $0.dependencyFailurePolicy = newValue } }
    }

    /// Whether the request may share one transfer with identical GETs that are in flight. False, unless set.
    ///
    /// Identical are requests with the same URL, headers, timeout and configuration. Cancelling or pausing one
    /// leaves the others. An operation with a `redirectHandler` does not share.
    public final var coalescesIdenticalRequests: Bool {
        get { core.withLock { $0.common.values.coalesces } }
        set { change { $0.coalesces = newValue } }
    }

    /// What the connection does beyond the request: certificates to trust, headers that stay behind on a redirect.
    public final var connectionConfiguration: ConnectionConfiguration {
        get { core.withLock { $0.common.values.configuration } }
        set { change { $0.configuration = newValue } }
    }

    /// The request's body as a stream: the request's `httpBodyStream`. Read on a thread of the library's own.
    public final var inputStream: InputStream? {
        get { request.httpBodyStream }
        set {
            struct Input: @unchecked Sendable { let stream: InputStream? }
            let input = Input(stream: newValue)
            core.withLock { core in
                var request = core.request.urlRequest
                request.httpBodyStream = input.stream
                core.request = .foundation(request)
            }
        }
    }

    /// Where the body goes instead of `responseData`. Opened when the operation begins, closed when it finishes.
    ///
    /// A response with a status that the operation does not accept leaves it alone. For a response that must be
    /// fetched from its start again after a pause, the stream must be able to start over: `FileOutputStream` can.
    ///
    /// The stream is opened, written, set back and closed on a thread of the library's own, so it may block; only a
    /// `FileOutputStream` to a file on a local disk is written on the network thread. What counts is what `write`
    /// returns: `hasSpaceAvailable`, which AFNetworking asks, is not asked.
    public final var outputStream: OutputStream? {
        get { core.withLock { $0.outputStream }?.stream }
        set {
            let box = newValue.map(StreamBox.init(stream:))
            core.withLock { $0.outputStream = box }
        }
    }

    /// The greatest body that is kept in memory, in bytes after decompression. 256 MiB, unless set; less where the
    /// response serializer's `limits` allow less. A greater one is `URLError.dataLengthExceedsMaximum` as soon as it
    /// is known to be that. What goes to `outputStream` is not limited.
    public final var maximumBodySize: Int {
        get { core.withLock { $0.common.values.maximumBodySize } }
        set { change { $0.maximumBodySize = newValue } }
    }

    /// Where the handlers run; nil, as in AFNetworking, is the main queue.
    ///
    /// On one serial queue the completion handlers of all operations run in the order in which the operations
    /// finished, a dependency's before a dependent's. On a concurrent one they are submitted in that order.
    public final var completionQueue: DispatchQueue? {
        get { core.withLock { $0.common.values.completionQueue } }
        set { change { $0.completionQueue = newValue } }
    }

    /// A group that the operation is in from its start, or from its being enqueued in a `RequestOperationQueue` or
    /// by a manager, until its handlers have run.
    public final var completionGroup: DispatchGroup? {
        get { core.withLock { $0.common.values.completionGroup } }
        set { change { $0.completionGroup = newValue } }
    }

    /// For the user; the library does not look at it.
    public final var userInfo: [String: any Sendable] {
        get { core.withLock { $0.common.values.userInfo } }
        set {
            let old = change { values in
                defer { values.userInfo = newValue }
                return values.userInfo
            }
            withExtendedLifetime(old) {}
        }
    }

    /// Whether `networkingOperationDidStart` and `networkingOperationDidFinish` are posted. True, unless set.
    public final var postsNotifications: Bool {
        get { core.withLock { $0.common.values.postsNotifications } }
        set { change { $0.postsNotifications = newValue } }
    }

    /// Hears of bytes that have arrived, on `completionQueue`. Calls that would follow each other faster than the
    /// queue takes them are made one. After a pause, the total goes on where it was.
    public final var downloadProgressHandler: ProgressHandler? {
        get { core.withLock { $0.rareHandlers?.download } }
        set {
            setHandler(\.download, newValue)
            if newValue != nil { onlookers.insert(.progress) }
        }
    }

    /// Hears of bytes of the request's body that have gone out, on `completionQueue`.
    public final var uploadProgressHandler: ProgressHandler? {
        get { core.withLock { $0.rareHandlers?.upload } }
        set {
            setHandler(\.upload, newValue)
            if newValue != nil { onlookers.insert(.progress) }
        }
    }

    /// Asked about each redirect, on `completionQueue`, or where there is none on a thread of the library's own, which
    /// it may block. The transfer waits for the answer. Without it, redirects are followed.
    public final var redirectHandler: RedirectHandler? {
        get { core.withLock { $0.rareHandlers?.redirect } }
        set { setHandler(\.redirect, newValue) }
    }

    /// The progress of the response's body in bytes. Its `cancel()`, `pause()` and `resume()` are the operation's.
    ///
    /// It changes on one queue of the library's own, the same for all operations: Foundation's `Progress` is not
    /// safe for threads.
    public final var progress: Progress {
        onlookers.insert(.progress)
        return progressReport.progress(of: self)
    }

    /// Made with its first use.
    final var progressReport: ProgressReport {
        core.withLock { core in
            let report = core.progressReport ?? ProgressReport()
            core.progressReport = report
            return report
        }
    }

    /// Made with its first use.
    final var observationCenter: ObservationCenter {
        core.withLock { core in
            let center = core.observationCenter ?? ObservationCenter()
            core.observationCenter = center
            return center
        }
    }

    /// Sets a handler. What the old one holds may run a user's code when it is let go of: not under the lock.
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

/// `pauseAll()` and `resumeAll()` of a `RequestOperationQueue` reach it.
extension URLConnectionOperation: PausableOperation {}
