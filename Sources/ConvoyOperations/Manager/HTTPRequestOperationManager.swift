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

    private struct Settings {
        var requestSerializer: any URLRequestSerialization = HTTPRequestSerializer()
        /// The header of a GET without parameters, if the serializer is one that adds nothing else to it.
        var preparedHeader: PreparedHeader? = PreparedHeader(HTTPRequestSerializer())
        /// What the operations have in common; the transport is that of the thread whose turn it is.
        var common: CommonSettings.Values
        /// The same as objects that operations share, one for each thread; empty after a change.
        var shared: [CommonSettings] = []
        var threads = [NetworkThread.shared]
        var nextThread = 0
        var operationQueue: OperationQueue

        /// The same for values of a type that are awaited, by the type.
        var awaiting: [ObjectIdentifier: [CommonSettings]] = [:]

        /// The settings of the next operation.
        mutating func settingsOfNextOperation() -> CommonSettings {
            if shared.isEmpty { shared = settingsForThreads { _ in } }
            nextThread = (nextThread + 1) % shared.count
            return shared[nextThread]
        }

        /// The settings of the next operation whose value is awaited.
        mutating func settingsOfNextOperation<Value>(awaiting type: Value.Type) -> CommonSettings
        where Value: Decodable & Sendable {
            let key = ObjectIdentifier(type)
            let settings = awaiting[key] ?? settingsForThreads { $0.await(type) }
            awaiting[key] = settings
            nextThread = (nextThread + 1) % settings.count
            return settings[nextThread]
        }

        private func settingsForThreads(_ change: (inout CommonSettings.Values) -> Void) -> [CommonSettings] {
            threads.map { thread in
                var values = common
                values.transport = thread
                change(&values)
                return CommonSettings(values)
            }
        }

        /// The settings have changed. Returns what to let go of.
        mutating func forgetShared() -> [CommonSettings] {
            defer { (shared, awaiting) = ([], [:]) }
            return shared + awaiting.values.joined()
        }
    }

    private let settings: Locked<Settings>

    /// What relative URLs are relative to. Its path ends in a slash, which is added where it is missing, so that
    /// `users` under `http://host/v1` is `http://host/v1/users`.
    public let baseURL: URL?
    /// `baseURL` as text, where a plain path need only be put behind it.
    private let basePrefix: String?

    /// - Parameter baseURL: nil where every URL is given whole.
    public init(baseURL: URL? = nil) {
        self.baseURL = baseURL.map(Self.directory)
        basePrefix = self.baseURL.flatMap(Self.prefix)
        let queue = RequestOperationQueue()
        queue.name = "Convoy.Operations"
        queue.maxConcurrentOperationCount = Self.defaultMaxConcurrentOperationCount
        queue.maxConcurrentOperationCountPerHost = Self.defaultMaxConcurrentOperationCountPerHost
        var common = CommonSettings.Values()
        common.serializer = SerializerFacts(JSONResponseSerializer())
        common.baseHost = self.baseURL.flatMap { HostKey.of($0) }
        settings = Locked(Settings(common: common, operationQueue: queue))
    }

    /// Makes requests of parameters. `HTTPRequestSerializer`, unless set.
    public final var requestSerializer: any URLRequestSerialization {
        get { settings.withLock { $0.requestSerializer } }
        set {
            let header = PreparedHeader(newValue)
            let old = settings.withLock { settings in
                defer { (settings.requestSerializer, settings.preparedHeader) = (newValue, header) }
                return settings.requestSerializer
            }
            withExtendedLifetime(old) {}
        }
    }

    /// Validates and parses responses. `JSONResponseSerializer`, unless set.
    public final var responseSerializer: any URLResponseSerialization {
        get { settings.withLock { $0.common.serializer.serializer } }
        set {
            let facts = SerializerFacts(newValue)
            change { $0.serializer = facts }
        }
    }

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
    private func change(_ body: (inout CommonSettings.Values) -> Void) {
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

    /// An operation for a method, a URL and parameters. Not enqueued.
    ///
    /// - Parameters:
    ///   - urlString: absolute, or relative to `baseURL`.
    ///   - headers: win over the serializer's; nil takes one of those away.
    /// - Throws: `URLError.badURL`, or the request serializer's error.
    public final func makeOperation(
        _ method: HTTPMethod, _ urlString: String, parameters: Parameters? = nil, headers: [String: String?] = [:]
    ) throws -> HTTPRequestOperation {
        if parameters == nil, headers.isEmpty, method == .get,
            let operation = makePreparedOperation(urlString, { $0.settingsOfNextOperation() })
        {
            return operation
        }
        let request = try requestSerializer.request(
            method: method, url: try url(for: urlString), parameters: parameters, headers: headers)
        return makeOperation(request: request)
    }

    /// An operation for a GET of a plain path, of which nothing need be checked; nil for others, and where a subclass
    /// makes the operations.
    private func makePreparedOperation(
        _ path: String, _ choose: (inout Settings) -> CommonSettings
    ) -> HTTPRequestOperation? {
        guard let basePrefix, Self.isPlainPath(path), type(of: self) == HTTPRequestOperationManager.self else { return nil }
        let (header, common) = settings.withLock { settings in
            (settings.preparedHeader, settings.preparedHeader == nil ? nil : choose(&settings))
        }
        guard let header, let common else { return nil }
        let request = PreparedRequest(
            address: basePrefix + path, method: "GET", header: header.header, timeoutInterval: header.timeoutInterval)
        return HTTPRequestOperation(.prepared(request), settings: common)
    }

    /// An operation whose value a task awaits, and decodes itself where it can. Not enqueued.
    final func makeOperation<Value: Decodable & Sendable>(
        _ method: HTTPMethod, _ urlString: String, parameters: Parameters?, headers: [String: String?],
        awaiting type: Value.Type
    ) throws -> HTTPRequestOperation {
        if parameters == nil, headers.isEmpty, method == .get,
            let operation = makePreparedOperation(urlString, { $0.settingsOfNextOperation(awaiting: type) })
        {
            return operation
        }
        let operation = try makeOperation(method, urlString, parameters: parameters, headers: headers)
        operation.change { $0.await(type) }
        return operation
    }

    /// Adds operations to `operationQueue`, in this order.
    public final func enqueue(_ operations: [Operation]) {
        for case let operation as URLConnectionOperation in operations { operation.enterCompletionGroup() }
        // One that was started by hand may have finished: a queue of Foundation's would stop the program.
        operationQueue.addOperations(operations.filter { !$0.isFinished }, waitUntilFinished: false)
    }

    /// Adds an operation to `operationQueue`, and returns it.
    @discardableResult
    public final func enqueue<Enqueued: Operation>(_ operation: Enqueued) -> Enqueued {
        (operation as? URLConnectionOperation)?.enterCompletionGroup()
        if !operation.isFinished { operationQueue.addOperation(operation) }
        return operation
    }

    /// What a relative path is put behind: the base's text up to its last slash.
    private static func prefix(_ base: URL) -> String? {
        guard base.host != nil, base.query == nil, base.fragment == nil else { return nil }
        return base.path.isEmpty ? base.absoluteString + "/" : base.absoluteString.hasSuffix("/") ? base.absoluteString : nil
    }

    /// Whether a reference is a path of plain characters, which resolving would only append: the common case, at a
    /// fifth of the cost.
    private static func isPlainPath(_ string: String) -> Bool {
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
