import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// Makes and enqueues HTTP request operations that have much in common: the counterpart of
/// `AFHTTPRequestOperationManager`.
///
/// It runs at most 256 operations at a time, and 64 for one host, unless `operationQueue` is given other limits; the
/// others wait.
///
/// All members can be used from any thread. What is changed applies to operations made afterwards.
open class HTTPRequestOperationManager: @unchecked Sendable {
    /// How many operations a manager's own queue runs at a time: 256.
    ///
    /// Over HTTP/1.1 each needs a connection, and a download a file too: 512 descriptors of the 1,024 that a process
    /// usually may have (`ulimit -n`). Without a limit a burst of a few thousand requests fails for want of descriptors.
    /// Browsers keep to 256 connections, too.
    public static let defaultMaxConcurrentOperationCount = 256

    /// How many operations a manager's own queue runs at a time for one host, by name and port: 64.
    ///
    /// Enough to keep a fast server busy, and below the 100 streams that HTTP/2 servers commonly allow on a connection
    /// (RFC 9113, section 6.5.2); and a host that does not answer takes a quarter of the slots at most. Others take 5
    /// (OkHttp, with 64 in all), 6 (`URLSession` and browsers) or 8 (AsyncHTTPClient): set such a limit for a
    /// server over HTTP/1.1 that is not one's own.
    public static let defaultMaxConcurrentOperationCountPerHost = 64

    let settings: Locked<ManagerSettings>

    /// What relative URLs are relative to. Its path ends in a slash, which is added where it is missing, so that
    /// `users` under `http://host/v1` is `http://host/v1/users`.
    public let baseURL: URL?
    /// `baseURL` as text, where a plain path need only be put behind it.
    let basePrefix: String?

    /// A manager with a queue of its own.
    ///
    /// - Parameters:
    ///   - baseURL: what relative URLs are relative to; nil where every URL is given whole.
    ///   - completionQueue: where handlers run; nil is the main queue.
    ///   - configuration: what the operations' connections do beyond their requests.
    public init(
        baseURL: URL? = nil, completionQueue: DispatchQueue? = nil, configuration: ConnectionConfiguration = .init()
    ) {
        self.baseURL = baseURL.map(Self.directory)
        basePrefix = self.baseURL.flatMap(Self.prefix)
        let queue = RequestOperationQueue()
        queue.name = "Convoy.Operations"
        queue.maxConcurrentOperationCount = Self.defaultMaxConcurrentOperationCount
        queue.maxConcurrentOperationCountPerHost = Self.defaultMaxConcurrentOperationCountPerHost
        var common = CommonSettings.Values()
        common.serializer = SerializerFacts(JSONResponseSerializer())
        common.baseHost = self.baseURL.flatMap { HostKey.of($0) }
        common.completionQueue = completionQueue
        common.configuration = configuration
        settings = Locked(ManagerSettings(common: common, operationQueue: queue))
    }

    // MARK: Settings of the operations

    /// What the operations' connections do beyond their requests.
    public final var connectionConfiguration: ConnectionConfiguration {
        get { settings.withLock { $0.common.configuration } }
        set { change { $0.configuration = newValue } }
    }

    /// Whether and when the operations' requests are tried again. nil, no retries, unless set.
    public final var retryPolicy: RetryPolicy? {
        get { settings.withLock { $0.common.retryPolicy } }
        set { change { $0.retryPolicy = newValue } }
    }

    /// How many seconds the operations' transfers may be without a byte. Unless set, it is for the request to say: 60,
    /// or the `timeoutInterval` of the request serializer.
    public final var idleTimeout: TimeInterval? {
        get { settings.withLock { $0.common.idleTimeout } }
        set { change { $0.idleTimeout = newValue } }
    }

    /// How many seconds each operation may take in all, retries and pauses included. No limit, unless set. See
    /// `URLConnectionOperation.timeoutIntervalForResource`.
    public final var timeoutIntervalForResource: TimeInterval? {
        get { settings.withLock { $0.common.timeoutIntervalForResource } }
        set { change { $0.timeoutIntervalForResource = newValue } }
    }

    /// Whether the operations may share one transfer with identical GETs that are in flight. False, unless set.
    public final var coalescesIdenticalRequests: Bool {
        get { settings.withLock { $0.common.coalesces } }
        set { change { $0.coalesces = newValue } }
    }

    /// Changes what the operations have in common.
    final func change(_ body: (inout CommonSettings.Values) -> Void) {
        let old = settings.withLock { settings in
            let old = (settings.common, settings.forgetShared())
            body(&settings.common)
            return old
        }
        // It may be the last to refer to a user's objects: not under the lock.
        withExtendedLifetime(old) {}
    }

    /// How many network threads the operations are spread over, in turn. 1, the shared one, unless set.
    ///
    /// One thread carries tens of thousands of requests a second. More help where TLS or decompression fill a core;
    /// each keeps connections of its own.
    public final var networkThreadCount: Int {
        get { settings.withLock { $0.threads.count } }
        set {
            let threads = [NetworkThread.shared] + (1..<max(1, newValue)).map { _ in NetworkThread() }
            let old = settings.withLock { settings in
                defer { settings.threads = threads }
                return (settings.threads, settings.forgetShared())
            }
            withExtendedLifetime(old) {}
        }
    }

    /// Where the operations run. Unless set, a `RequestOperationQueue` of the manager's own, which lets
    /// `defaultMaxConcurrentOperationCount` (256) operations run at a time, and
    /// `defaultMaxConcurrentOperationCountPerHost` (64) for one host.
    ///
    /// Its `maxConcurrentOperationCount` can be changed at any time. For another limit per host, set a
    /// `RequestOperationQueue` with that limit; a queue made by hand has none, as Foundation's has none.
    public final var operationQueue: OperationQueue {
        get { settings.withLock { $0.operationQueue } }
        set { settings.withLock { $0.operationQueue = newValue } }
    }

    /// Where the operations' handlers run; nil is the main queue.
    public final var completionQueue: DispatchQueue? {
        get { settings.withLock { $0.common.completionQueue } }
        set { change { $0.completionQueue = newValue } }
    }

    /// A group that each operation is in from its being enqueued until its handlers have run.
    public final var completionGroup: DispatchGroup? {
        get { settings.withLock { $0.common.completionGroup } }
        set { change { $0.completionGroup = newValue } }
    }

    // MARK: Operations

    /// The URL that a string stands for under `baseURL` (RFC 3986, section 5.2).
    ///
    /// The string may have characters that a URL cannot have, such as spaces and letters beyond ASCII: they are
    /// percent-encoded, each in its part of the URL, and what is encoded already (`%20`) stays as it is. A `\` is
    /// encoded too and never taken for a `/`.
    ///
    /// - Throws: `URLError.badURL` for a string that is no URL, has no host or not one that can be told for certain,
    ///   or is relative without a base.
    public final func url(for string: String) throws(URLError) -> URL {
        if let prefix = basePrefix, Self.isPlainPath(string), let url = URL(string: prefix + string) { return url }
        guard let url = URLReference.url(string, relativeTo: baseURL) else {
            let reason = baseURL == nil ? "is not a URL, or a relative one without a base URL." : "is not a URL."
            throw URLError(.badURL, url: nil, "\(string.debugDescription) \(reason)")
        }
        return url
    }

    /// An operation for a request, with the manager's settings. Not enqueued. The place to override where all
    /// operations of a manager need something more.
    open func makeOperation(request: URLRequest) -> HTTPRequestOperation {
        HTTPRequestOperation(.foundation(request), settings: settings.withLock { $0.settingsOfNextOperation() })
    }

    /// Adds operations to `operationQueue`, in this order.
    public final func enqueue(_ operations: [Operation]) {
        for case let operation as URLConnectionOperation in operations { operation.enterCompletionGroup() }
        let queue = operationQueue
        for operation in operations { queue.addUnlessTaken(operation) }
    }

    /// Adds an operation to `operationQueue`, and returns it.
    @discardableResult
    public final func enqueue<Enqueued: Operation>(_ operation: Enqueued) -> Enqueued {
        (operation as? URLConnectionOperation)?.enterCompletionGroup()
        operationQueue.addUnlessTaken(operation)
        return operation
    }

    /// What a relative path is put behind: the base's text up to its last slash.
    private static func prefix(_ base: URL) -> String? {
        guard base.host != nil, base.query == nil, base.fragment == nil else { return nil }
        return base.path.isEmpty ? base.absoluteString + "/" : base.absoluteString.hasSuffix("/") ? base.absoluteString : nil
    }

    /// Whether a reference is a path of plain characters, which resolving would only append: the common case, at a
    /// fifth of the cost.
    static func isPlainPath(_ string: String) -> Bool {
        guard string.utf8.first != UInt8(ascii: "/") else { return false }
        return string.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "/"):
                true
            default: false
            }
        }
    }

    private static func directory(_ url: URL) -> URL {
        guard !url.path.isEmpty, !url.absoluteString.hasSuffix("/"),
            var components = URLComponents(url: url, resolvingAgainstBaseURL: true),
            !components.percentEncodedPath.hasSuffix("/")
        else { return url }
        components.percentEncodedPath += "/"
        return components.url ?? url
    }
}
