import ConvoyCookies
import ConvoyReachability
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization

/// A manager that creates and enqueues HTTP request operations with common settings. The counterpart of
/// `AFHTTPRequestOperationManager`.
///
/// A manager runs at most 256 operations concurrently, and at most 64 per host, unless `operationQueue` has other
/// limits; further operations wait.
///
/// All members can be used from any thread. Changed settings apply to operations created afterwards.
open class HTTPRequestOperationManager: @unchecked Sendable {
    /// The default maximum number of concurrent operations in a manager's own queue: 256.
    ///
    /// Over HTTP/1.1 each operation needs a connection, and a download also needs a file. Together they use 512 of the
    /// 1,024 file descriptors that a process may usually have (`ulimit -n`). Without a limit, a burst of a few thousand
    /// requests would run out of descriptors. Browsers have the same limit of 256 connections.
    public static let defaultMaxConcurrentOperationCount = RequestOperationQueue.defaultCount

    /// The default maximum number of concurrent operations per host (name and port) in a manager's own queue: 64.
    ///
    /// This is enough to keep a fast server busy, and below the 100 streams that HTTP/2 servers commonly allow on a
    /// connection (RFC 9113, section 6.5.2); a host that does not answer takes at most a quarter of the slots. OkHttp
    /// allows 5 (and 64 in total), `URLSession` and browsers 6, AsyncHTTPClient 8. Set such a limit for HTTP/1.1
    /// servers that are not your own.
    public static let defaultMaxConcurrentOperationCountPerHost = RequestOperationQueue.defaultCountPerHost

    let state: Locked<ManagerState>

    /// The URL against which relative URLs are resolved. A slash is appended to its path if missing, so that `users`
    /// under `http://host/v1` is `http://host/v1/users`.
    public let baseURL: URL?
    /// The string form of `baseURL`, if most references can simply be appended to it; otherwise nil.
    let base: SimpleURLBase?
    let baseHost: String?

    /// Creates a manager with its own queue.
    ///
    /// - Parameters:
    ///   - baseURL: The base of relative URLs; nil if all URLs are absolute.
    ///   - completionQueue: The queue on which handlers run; nil for the main queue.
    ///   - configuration: The connection settings.
    public init(
        baseURL: URL? = nil, completionQueue: DispatchQueue? = nil, configuration: ConnectionConfiguration = .init()
    ) {
        self.baseURL = baseURL.map(Self.directory)
        base = self.baseURL.flatMap(SimpleURLBase.init)
        baseHost = Target.place(of: self.baseURL)
        var values = RequestSettings.Values()
        values.serializer = PreparedSerializer(JSONResponseSerializer())
        values.holder.addsUserAgent = false
        values.holder.secretScope = SecretScope(base: self.baseURL, origins: [])
        values.decoder = JSONDecoder.acceptingInternetDates()
        values.cookies = CookieKeeperReference(CookieStore())
        values.credentials = CredentialStore()
        values.completionQueue = completionQueue
        values.connectionConfiguration = configuration
        let queue = RequestOperationQueue.withDefaultLimits(named: "Convoy.Operations")
        state = Locked(ManagerState(settings: RequestSettings(values), operationQueue: queue))
    }

    // MARK: Settings of the operations

    /// The settings of operations created later.
    public final var settings: RequestSettings {
        get { state.withLock { $0.settings } }
        set { updateSettings { $0 = newValue } }
    }

    /// Updates the settings without losing concurrent changes made by other threads. See
    /// `RequestConfigurable/updateSettings(_:)`.
    public final func updateSettings<Result>(_ update: (inout RequestSettings) throws -> Result) rethrows -> Result {
        try RequestSettings.update(update, read: { settings }) { old, new in
            var forgotten: [ObjectIdentifier: RequestSettings] = [:]
            return state.withLock { state in
                guard state.settings.replace(old, by: new) else { return false }
                swap(&forgotten, &state.awaiting)
                return true
            }
        }
    }

    /// Changes the manager's own state. Replaced values are released outside the lock.
    final func change(_ body: (inout ManagerState) -> Void) {
        let old = state.withLock { state in
            let old = state
            body(&state)
            state.awaiting = [:]
            return old
        }
        withExtendedLifetime(old) {}
    }

    /// The queue in which operations run. By default, this is the manager's own `RequestOperationQueue`, which runs at
    /// most `defaultMaxConcurrentOperationCount` (256) operations concurrently, and at most
    /// `defaultMaxConcurrentOperationCountPerHost` (64) per host.
    ///
    /// The queue's `maxConcurrentOperationCount` can be changed at any time. For a different limit per host, set a
    /// `RequestOperationQueue` with that limit. A queue that you create has no limits, like Foundation's.
    public final var operationQueue: OperationQueue {
        get { state.withLock { $0.operationQueue } }
        set { change { $0.operationQueue = newValue } }
    }

    // MARK: Operations

    /// Returns the URL for a string, resolved against `baseURL` (RFC 3986, section 5.2).
    ///
    /// The string may contain characters that are not allowed in a URL, such as spaces and non-ASCII letters: they are
    /// percent-encoded according to the rules for their part of the URL. Existing percent-encodings (`%20`) are kept. A
    /// `\` is also encoded, and never treated as a `/`.
    ///
    /// - Throws: `URLError.badURL` for a string that is not a URL, has no host or an ambiguous host, or is relative
    ///   without a base.
    public final func url(for string: String) throws(URLError) -> URL {
        if let plain = SimpleURLReference(string, under: base)?.address(appending: ""), let url = URL(string: plain.text) {
            return url
        }
        let isUsable = baseURL.map { $0.absoluteURL.scheme != nil && $0.absoluteURL.host != nil } ?? true
        guard let url = URLReference.url(string, relativeTo: isUsable ? baseURL : nil) else {
            let (baseURL, secrets) = (baseURL, connectionConfiguration.secrets)
            let shown = Redaction.url(string, secrets).debugDescription
            guard let baseURL else {
                let advice = "Pass an absolute URL or set a base URL that begins with \"http://\" or \"https://\"."
                throw URLError(.badURL, url: nil, "Invalid URL \(shown): it is relative, but no base URL is set. \(advice)")
            }
            guard !isUsable else { throw URLError(.badURL, url: nil, "Invalid URL \(shown).") }
            let base = Redaction.url(baseURL.absoluteString, secrets).debugDescription
            throw URLError(
                .badURL, url: baseURL, "Invalid base URL \(base): it must begin with \"http://\" or \"https://\" and a host."
            )
        }
        return url
    }

    /// Creates an operation for a request, with the manager's settings, without enqueuing it. Override this method to
    /// change all operations of a manager.
    open func makeOperation(request: URLRequest) -> HTTPRequestOperation {
        let (settings, handlers) = state.withLock { ($0.settings, $0.handlers) }
        return Self.operation(TransferRequest(request), settings, handlers)
    }

    /// Adds operations to `operationQueue`, in the given order.
    public final func enqueue(_ operations: [Operation]) {
        for case let operation as URLConnectionOperation in operations { operation.enterCompletionGroup() }
        let queue = currentQueue
        for operation in operations { queue.addUnlessTaken(operation) }
    }

    /// Adds an operation to `operationQueue`, and returns it, without the array of `enqueue([operation])`.
    @discardableResult
    package final func enqueue<Enqueued: Operation>(_ operation: Enqueued) -> Enqueued {
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

/// The state of a manager, guarded by its lock: its settings and serializers, and the objects shared by its operations.
struct ManagerState {
    /// The settings of the next operation.
    var settings: RequestSettings
    /// The settings for async calls, by the type of their value. Each change to the state discards these settings.
    var awaiting: [ObjectIdentifier: RequestSettings] = [:]
    var operationQueue: OperationQueue
    var requestSerializer: any HTTPRequestSerialization = HTTPRequestSerializer()
    /// The template that creates most requests; nil if the serializer must create each request.
    var template: RequestTemplate? = RequestTemplate(HTTPRequestSerializer())
    /// The number of times the request serializer has been set.
    var serializerChanges = 0
    /// The origins set by the user; the settings' `secretScope` is derived from them.
    var authorizationOrigins: Set<URL> = []
    /// The handlers inherited by operations, if any.
    var handlers: InheritedHandlers?
    var reachabilityManager = NetworkReachabilityManager.shared
    var encoder = JSONEncoder.withInternetDates()
    /// The transport that replaces the shared network thread, if any.
    var transport: (any Transport)? {
        didSet { settings.values.holder.transport = transport ?? NetworkThread.shared }
    }

    init(settings: RequestSettings, operationQueue: OperationQueue) {
        self.settings = settings
        self.operationQueue = operationQueue
    }

    /// Returns the settings of the next operation whose value a task awaits.
    mutating func settings<Value: Decodable & Sendable>(awaiting type: Value.Type) -> RequestSettings {
        let key = ObjectIdentifier(type)
        if let made = awaiting[key] { return made }
        var made = settings
        made.values.await(type)
        awaiting[key] = made
        return made
    }
}

/// The handlers inherited by a manager's operations. They are not part of `RequestSettings`, because an operation
/// releases its handlers when they have run.
final class InheritedHandlers: Sendable {
    let challenge: URLConnectionOperation.AuthenticationChallengeHandler?
    let traceContext: URLConnectionOperation.TraceContextProvider?

    init(
        challenge: URLConnectionOperation.AuthenticationChallengeHandler?,
        traceContext: URLConnectionOperation.TraceContextProvider?
    ) {
        self.challenge = challenge
        self.traceContext = traceContext
    }

    func give(to operation: URLConnectionOperation) {
        if let challenge { operation.authenticationChallengeHandler = challenge }
        if let traceContext { operation.traceContextProvider = traceContext }
    }
}
