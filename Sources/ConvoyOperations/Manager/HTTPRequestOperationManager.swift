import ConvoyCookies
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// Makes and enqueues HTTP request operations with common settings. The counterpart of `AFHTTPRequestOperationManager`.
///
/// It runs at most 256 operations at a time, and 64 per host, unless `operationQueue` has other limits; the others
/// wait.
///
/// All members can be used from any thread. Changed settings apply to operations made afterwards.
open class HTTPRequestOperationManager: @unchecked Sendable {
    /// How many operations a manager's own queue runs at a time: 256.
    ///
    /// Over HTTP/1.1 each operation needs a connection, and a download a file too: 512 of the 1,024 file descriptors
    /// that a process usually may have (`ulimit -n`). Without a limit, a burst of a few thousand requests runs out of
    /// descriptors. Browsers have the same limit of 256 connections.
    public static let defaultMaxConcurrentOperationCount = RequestOperationQueue.defaultCount

    /// How many operations a manager's own queue runs at a time per host (name and port): 64.
    ///
    /// This is enough to keep a fast server busy, and below the 100 streams that HTTP/2 servers commonly allow on a
    /// connection (RFC 9113, section 6.5.2); a host that does not answer takes at most a quarter of the slots. OkHttp
    /// allows 5 (and 64 in all), `URLSession` and browsers 6, AsyncHTTPClient 8: set such a limit for HTTP/1.1 servers
    /// that are not your own.
    public static let defaultMaxConcurrentOperationCountPerHost = RequestOperationQueue.defaultCountPerHost

    let settings: Locked<ManagerSettings>

    /// The URL against which relative URLs are resolved. A slash is added to its path if there is none at the end, so
    /// that `users` under `http://host/v1` is `http://host/v1/users`.
    public let baseURL: URL?
    /// `baseURL` where most references need only be appended to its text.
    let base: PlainBase?
    let baseHost: HostKey?

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
        base = self.baseURL.flatMap(PlainBase.init)
        baseHost = self.baseURL.flatMap { HostKey.of($0) }
        let queue = RequestOperationQueue.withDefaultLimits(named: "Convoy.Operations")
        var common = CommonSettings.Values()
        common.serializer = SerializerFacts(JSONResponseSerializer())
        common.addsUserAgent = false
        common.authorizedTargets = Self.authorizedTargets(self.baseURL, [])
        common.cookies = CookieKeeperReference(CookieStore())
        common.credentialStore = CredentialStore()
        common.completionQueue = completionQueue
        common.configuration = configuration
        settings = Locked(ManagerSettings(common: common, operationQueue: queue))
    }

    // MARK: Settings of the operations

    /// Settings for the operations' connections.
    public final var connectionConfiguration: ConnectionConfiguration {
        get { settings.withLock { $0.common.configuration } }
        set { change { $0.configuration = newValue } }
    }

    /// Whether and when failed requests are retried. nil, the default, allows only the immediate retries of requests of
    /// which provably nothing was sent.
    public final var retryPolicy: RetryPolicy? {
        get { settings.withLock { $0.common.retryPolicy } }
        set { change { $0.retryPolicy = newValue } }
    }

    /// Whether operations wait for the network where there is none, in place of failing. False by default; see
    /// `URLConnectionOperation.waitsForConnectivity`.
    public final var waitsForConnectivity: Bool {
        get { settings.withLock { $0.common.waitsForConnectivity } }
        set { change { $0.waitsForConnectivity = newValue } }
    }

    /// How many seconds the operations' transfers may be without a byte. Unless set, it is for the request to say: 60,
    /// or the `timeoutInterval` of the request serializer.
    public final var idleTimeout: TimeInterval? {
        get { settings.withLock { $0.common.idleTimeout } }
        set { change { $0.idleTimeout = newValue } }
    }

    /// How many seconds each operation may take in all, retries and pauses included. No limit, unless set. See
    /// `URLConnectionOperation.totalTimeout`.
    public final var totalTimeout: TimeInterval? {
        get { settings.withLock { $0.common.totalTimeout } }
        set { change { $0.totalTimeout = newValue } }
    }

    /// Whether operations may share one transfer with identical GETs that are in flight. False by default.
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
        // The old settings may hold the last reference to a user's objects, which must not be released under the lock.
        withExtendedLifetime(old) {}
    }

    /// How many network threads the operations are spread over, in turn. 1 by default: the shared one.
    ///
    /// One thread handles tens of thousands of requests per second. More threads help if TLS or decompression saturates
    /// a core. Each thread has its own connections.
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

    /// The queue in which the operations run. By default a `RequestOperationQueue` of the manager's own, which runs at
    /// most `defaultMaxConcurrentOperationCount` (256) operations at a time, and
    /// `defaultMaxConcurrentOperationCountPerHost` (64) per host.
    ///
    /// Its `maxConcurrentOperationCount` can be changed at any time. For another limit per host, set a
    /// `RequestOperationQueue` with that limit. A queue that you create has no limits, like Foundation's.
    public final var operationQueue: OperationQueue {
        get { settings.withLock { $0.operationQueue } }
        set {
            let old = settings.withLock { settings in
                defer { settings.operationQueue = newValue }
                return settings.operationQueue
            }
            withExtendedLifetime(old) {}
        }
    }

    /// The queue on which the operations' handlers run; nil is the main queue.
    public final var completionQueue: DispatchQueue? {
        get { settings.withLock { $0.common.completionQueue } }
        set { change { $0.completionQueue = newValue } }
    }

    /// A group that each operation enters when it is enqueued and leaves after its handlers have run.
    public final var completionGroup: DispatchGroup? {
        get { settings.withLock { $0.common.completionGroup } }
        set { change { $0.completionGroup = newValue } }
    }

    // MARK: Operations

    /// The URL that a string stands for under `baseURL` (RFC 3986, section 5.2).
    ///
    /// The string may contain characters that are not allowed in a URL, such as spaces and non-ASCII letters: they are
    /// percent-encoded, by the rules of their part of the URL. What is encoded already (`%20`) is kept. A `\` is
    /// encoded too, and never treated as a `/`.
    ///
    /// - Throws: `URLError.badURL` for a string that is not a URL, has no host or an ambiguous one, or is relative
    ///   without a base.
    public final func url(for string: String) throws(URLError) -> URL {
        if let plain = PlainReference(string, under: base)?.address(appending: ""), let url = URL(string: plain.text) {
            return url
        }
        guard let url = URLReference.url(string, relativeTo: baseURL) else {
            let reason = baseURL == nil ? "is not a URL, or a relative one without a base URL." : "is not a URL."
            let shown = Redaction.url(string, connectionConfiguration.secrets).debugDescription
            throw URLError(.badURL, url: nil, "\(shown) \(reason)")
        }
        return url
    }

    /// An operation for a request, with the manager's settings. Not enqueued. Override it to change all operations of a
    /// manager.
    open func makeOperation(request: URLRequest) -> HTTPRequestOperation {
        let (common, handlers) = settings.withLock { ($0.settingsOfNextOperation(), $0.handlers) }
        return Self.operation(.foundation(request), common, handlers)
    }

    /// Adds operations to `operationQueue`, in this order.
    public final func enqueue(_ operations: [Operation]) {
        for case let operation as URLConnectionOperation in operations { operation.enterCompletionGroup() }
        let queue = currentQueue
        for operation in operations { queue.addUnlessTaken(operation) }
    }

    /// Adds an operation to `operationQueue`, and returns it.
    @discardableResult
    public final func enqueue<Enqueued: Operation>(_ operation: Enqueued) -> Enqueued {
        (operation as? URLConnectionOperation)?.enterCompletionGroup()
        currentQueue.addUnlessTaken(operation)
        return operation
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
