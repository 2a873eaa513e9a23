import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// What a user can set on an operation before it begins.
extension URLConnectionOperation {
    /// Rewrites the request with what the dependencies have delivered: called once, when they have finished and the
    /// operation begins, on a queue of the library's own. What it throws becomes the operation's error.
    public final var prepare: Preparation? {
        get { settings.withLock { $0.handlers.prepare } }
        set { exchange(\.handlers.prepare, newValue) }
    }

    /// What a failed or cancelled dependency does to the operation. `.run`, unless set.
    public final var dependencyFailurePolicy: DependencyFailurePolicy {
        get { settings.withLock { $0.dependencyFailurePolicy } }
        set { settings.withLock { $0.dependencyFailurePolicy = newValue } }
    }

    /// Whether the request may share one transfer with identical GETs that are in flight. False, unless set.
    ///
    /// Identical are requests with the same URL, headers, timeout and configuration. Cancelling or pausing one
    /// leaves the others. An operation with a `redirectHandler` does not share.
    public final var coalescesIdenticalRequests: Bool {
        get { settings.withLock { $0.coalesces } }
        set { settings.withLock { $0.coalesces = newValue } }
    }

    /// What the connection does beyond the request: certificates to trust, headers that stay behind on a redirect.
    public final var connectionConfiguration: ConnectionConfiguration {
        get { settings.withLock { $0.configuration } }
        set { settings.withLock { $0.configuration = newValue } }
    }

    /// The request's body as a stream: the request's `httpBodyStream`. Read on a thread of the library's own.
    public final var inputStream: InputStream? {
        get { request.httpBodyStream }
        set {
            struct Box: @unchecked Sendable { let stream: InputStream? }
            let box = Box(stream: newValue)
            settings.withLock { $0.request.httpBodyStream = box.stream }
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
        get { outputStreamBox?.stream }
        set {
            let box = newValue.map(StreamBox.init(stream:))
            settings.withLock { $0.outputStream = box }
        }
    }

    var outputStreamBox: StreamBox? { settings.withLock { $0.outputStream } }

    /// The greatest body that is kept in memory, in bytes after decompression. 256 MiB, unless set; less where the
    /// response serializer's `limits` allow less. A greater one is `URLError.dataLengthExceedsMaximum` as soon as it
    /// is known to be that. What goes to `outputStream` is not limited.
    public final var maximumBodySize: Int {
        get { settings.withLock { $0.maximumBodySize } }
        set { settings.withLock { $0.maximumBodySize = newValue } }
    }

    /// Where the handlers run; nil, as in AFNetworking, is the main queue.
    ///
    /// On one serial queue the completion handlers of all operations run in the order in which the operations
    /// finished, a dependency's before a dependent's. On a concurrent one they are submitted in that order.
    public final var completionQueue: DispatchQueue? {
        get { settings.withLock { $0.completionQueue } }
        set { settings.withLock { $0.completionQueue = newValue } }
    }

    /// A group that the operation is in from its start, or from its being enqueued in a `RequestOperationQueue` or
    /// by a manager, until its handlers have run.
    public final var completionGroup: DispatchGroup? {
        get { settings.withLock { $0.completionGroup } }
        set { settings.withLock { $0.completionGroup = newValue } }
    }

    /// For the user; the library does not look at it.
    public final var userInfo: [String: any Sendable] {
        get { settings.withLock { $0.userInfo } }
        set { exchange(\.userInfo, newValue) }
    }

    /// Whether `networkingOperationDidStart` and `networkingOperationDidFinish` are posted. True, unless set.
    public final var postsNotifications: Bool {
        get { settings.withLock { $0.postsNotifications } }
        set { settings.withLock { $0.postsNotifications = newValue } }
    }

    /// Hears of bytes that have arrived, on `completionQueue`. Calls that would follow each other faster than the
    /// queue takes them are made one. After a pause, the total goes on where it was.
    public final var downloadProgressHandler: ProgressHandler? {
        get { settings.withLock { $0.handlers.download } }
        set { exchange(\.handlers.download, newValue) }
    }

    /// Hears of bytes of the request's body that have gone out, on `completionQueue`.
    public final var uploadProgressHandler: ProgressHandler? {
        get { settings.withLock { $0.handlers.upload } }
        set { exchange(\.handlers.upload, newValue) }
    }

    /// Asked about each redirect, on `completionQueue`, or where there is none on a thread of the library's own, which
    /// it may block. The transfer waits for the answer. Without it, redirects are followed.
    public final var redirectHandler: RedirectHandler? {
        get { settings.withLock { $0.handlers.redirect } }
        set { exchange(\.handlers.redirect, newValue) }
    }

    /// The progress of the response's body in bytes. Its `cancel()`, `pause()` and `resume()` are the operation's.
    ///
    /// It changes on one queue of the library's own, the same for all operations: Foundation's `Progress` is not
    /// safe for threads.
    public final var progress: Progress { progressReport.progress(of: self) }

    /// Sets a member whose old value may run a user's code when it is let go of: not under the lock.
    final func exchange<Value: Sendable>(_ member: WritableKeyPath<Settings, Value> & Sendable, _ value: Value) {
        let old = settings.withLock { settings in
            let old = settings[keyPath: member]
            settings[keyPath: member] = value
            return old
        }
        withExtendedLifetime(old) {}
    }
}
