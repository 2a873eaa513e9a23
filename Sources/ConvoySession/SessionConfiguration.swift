import ConvoyCache
import ConvoyCookies
import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The settings of a session. The counterpart of `URLSessionConfiguration`.
///
/// A configuration is a value: a manager takes a copy, and later changes to the original have no effect. The settings
/// of connections are in ``connection``: redirects, HTTP/2, proxies, addresses, TLS and rates.
///
/// These features of `URLSessionConfiguration` do not exist on Linux: background sessions (use `DownloadQueue` for
/// downloads that outlive the process), `sharedContainerIdentifier`, `sessionSendsLaunchEvents`, `isDiscretionary`,
/// `shouldUseExtendedBackgroundIdleMode` and `multipathServiceType`. `protocolClasses` is missing because there is a
/// single engine, and `httpShouldUsePipelining` because engines no longer pipeline.
public struct SessionConfiguration: Sendable {
    /// The time without data after which a transfer fails, in seconds; nil, the default, for the `timeoutInterval` of
    /// each request or of the request serializer, which is 60 by default.
    public var timeoutIntervalForRequest: TimeInterval?

    /// The maximum total time of a task, in seconds, including retries and suspensions. Seven days by default.
    public var timeoutIntervalForResource: TimeInterval? = 7 * 24 * 60 * 60

    /// Header fields to add to requests that do not have a field of that name. Names are case-insensitive.
    ///
    /// As in any request, `Authorization` is not forwarded to another origin. A manager with a base URL sends secret
    /// fields, which are determined by their names or by its `sensitiveHeaders`, only to that origin and to its
    /// `authorizationOrigins`.
    public var httpAdditionalHeaders: [String: String] = [:]

    /// The cache policy of requests with `.useProtocolCachePolicy`, which is the default of requests.
    public var requestCachePolicy = URLRequest.CachePolicy.useProtocolCachePolicy

    /// The response cache; nil, the default, disables caching. Several sessions may share a cache.
    public var cache: HTTPCache?

    /// The cookie store; nil disables cookies. ``default`` uses `CookieStore.shared`, and ``ephemeral`` a new in-memory
    /// store for each session.
    public var cookieStore: CookieStore? {
        get { if case .store(let store) = cookies { store } else { nil } }
        set { cookies = newValue.map(Cookies.store) ?? .none }
    }

    /// The credential store; nil for none. If it has not been set, this is nil and each session creates its own store.
    /// To share credentials between sessions, set `CredentialStore.shared` or another store.
    public var credentialStore: CredentialStore? {
        get { if case .store(let store) = credentials { store } else { nil } }
        set { credentials = newValue.map(Credentials.store) ?? .none }
    }

    /// The identity under which the session's requests act, as in ``connection``. nil by default.
    public var identity: String? {
        get { connection.identity }
        set { connection.identity = newValue }
    }

    /// The server trust policy, as in ``connection``.
    public var securityPolicy: SecurityPolicy {
        get { connection.securityPolicy }
        set { connection.securityPolicy = newValue }
    }

    /// The maximum number of concurrent tasks per host and port: 64 by default. With HTTP/1.1 each task has its own
    /// connection; with HTTP/2 they share one.
    ///
    /// `URLSession` allows 6. Set such a limit for HTTP/1.1 servers that are not your own.
    public var httpMaximumConnectionsPerHost = HTTPRequestOperationManager.defaultMaxConcurrentOperationCountPerHost

    /// The maximum number of concurrent tasks: 256 by default.
    public var maximumConnections = HTTPRequestOperationManager.defaultMaxConcurrentOperationCount

    /// The proxies for connections; by default those of the environment. The counterpart of
    /// `connectionProxyDictionary`.
    public var proxy: ProxySelection {
        get { connection.proxy }
        set { connection.proxy = newValue }
    }

    /// Whether HTTP/2 is offered over TLS. True by default.
    public var usesHTTP2: Bool {
        get { connection.usesHTTP2 }
        set { connection.usesHTTP2 = newValue }
    }

    /// The minimum TLS version: 1.2 by default. The counterpart of `tlsMinimumSupportedProtocolVersion`.
    public var minimumTLSVersion: TLSVersion {
        get { connection.minimumTLSVersion }
        set { connection.minimumTLSVersion = newValue }
    }

    /// The maximum TLS version; nil, the default, for the highest supported version.
    public var maximumTLSVersion: TLSVersion? {
        get { connection.maximumTLSVersion }
        set { connection.maximumTLSVersion = newValue }
    }

    /// Whether a task without a network waits for one, for at most ``timeoutIntervalForResource``, instead of failing.
    /// False by default.
    public var waitsForConnectivity = false

    /// The traffic class of requests that do not set one. It determines the priority of packets in the system's queues
    /// (`SO_PRIORITY`) and their DSCP for routers. As in ``connection``.
    public var networkServiceType: NetworkServiceType {
        get { connection.networkServiceType }
        set { connection.networkServiceType = newValue }
    }

    /// Whether requests may use a mobile network. True by default. If false, here or in a request, the task fails with
    /// `URLError.dataNotAllowed` if the route to the host uses a mobile link when the task starts.
    ///
    /// For a host name, the default route is used. A modem in another device, for example a router or a phone that
    /// shares its connection over Wi-Fi, cannot be detected.
    public var allowsCellularAccess = true

    /// The policy for retrying failed requests. nil, the default, retries only requests of which provably nothing was
    /// sent.
    public var retryPolicy: RetryPolicy?

    /// All other settings of connections.
    public var connection = ConnectionConfiguration()

    /// The directory for downloaded files until they are moved to their destinations. It is created if it is missing.
    /// It must belong to the user and must not be writable by others; otherwise downloads fail.
    ///
    /// Choose a directory on the file system of the destinations, so that files are moved without copying. The default
    /// is in the system's directory for temporary files. Clearing that directory also removes the partial files of
    /// `ResumeData`.
    public var temporaryDirectory = TemporaryFiles.standard

    /// The thread on which transfers run. If nil, the default, each session creates a thread, which ends with the
    /// session.
    package var networkThread: NetworkThread?

    enum Cookies: Sendable { case none, own, store(CookieStore) }
    enum Credentials: Sendable { case none, own, store(CredentialStore) }
    var cookies = Cookies.store(.shared)
    var credentials = Credentials.own

    /// Creates the default settings.
    public init() {}

    /// The default settings, with the shared cookies.
    public static var `default`: SessionConfiguration { SessionConfiguration() }

    /// Settings for sessions that share and store nothing: each session has its own in-memory cookies and, as in any
    /// session by default, its own credentials.
    public static var ephemeral: SessionConfiguration {
        var configuration = SessionConfiguration()
        configuration.cookies = .own
        return configuration
    }

    /// Applies the settings to the manager of a session's operations.
    func apply(to operations: HTTPRequestOperationManager) {
        operations.connectionConfiguration = connection
        operations.idleTimeout = timeoutIntervalForRequest
        operations.totalTimeout = timeoutIntervalForResource
        operations.cache = cache
        switch cookies {
        case .none: operations.cookieStore = nil
        case .own: operations.cookieStore = CookieStore()
        case .store(let store): operations.cookieStore = store
        }
        switch credentials {
        case .none: operations.shouldUseCredentialStorage = false
        case .own: operations.credentialStore = CredentialStore()
        case .store(let store): operations.credentialStore = store
        }
        operations.retryPolicy = retryPolicy
        operations.waitsForConnectivity = waitsForConnectivity
        operations.maxConcurrentOperationCount = max(1, maximumConnections)
        operations.maxConcurrentOperationCountPerHost = max(1, httpMaximumConnectionsPerHost)
    }
}

extension SessionConfiguration: OpaqueReflectable {}

/// The settings that are values can be encoded, to store them or send them to another process.
///
/// Objects, and values that contain secrets, are not encoded: the cache, the stores, the network thread, the retry
/// policy, the proxies, and the rest of ``connection``. Cookies and credentials are encoded as shared, private to each
/// session, or off, unless a custom store was set. ``httpAdditionalHeaders`` are encoded, so protect the encoded form
/// as you protect the headers.
///
/// Missing values have their defaults, so that configurations from other versions can be decoded.
extension SessionConfiguration: Codable {
    private enum CodingKeys: String, CodingKey {
        case timeoutIntervalForRequest, timeoutIntervalForResource, httpAdditionalHeaders, requestCachePolicy
        case httpMaximumConnectionsPerHost, maximumConnections, waitsForConnectivity, allowsCellularAccess
        case securityPolicy, usesHTTP2, minimumTLSVersion, maximumTLSVersion, temporaryDirectory, cookies, credentials
        case networkServiceType, identity
    }

    /// The sessions that share a store.
    private enum StoreScope: String, Codable {
        case off = "nobody"
        case session
        case all
    }

    /// Decodes the settings that are values.
    ///
    /// - Throws: The decoder's errors; `DecodingError.dataCorrupted` if a number is out of range.
    public init(from decoder: any Decoder) throws {
        self.init()
        let values = try decoder.container(keyedBy: CodingKeys.self)
        func read<Value: Decodable>(_ key: CodingKeys, _ place: inout Value) throws {
            if let value = try values.decodeIfPresent(Value.self, forKey: key) { place = value }
        }
        func corrupted(_ key: CodingKeys, _ what: String) -> DecodingError {
            .dataCorruptedError(forKey: key, in: values, debugDescription: what)
        }
        timeoutIntervalForRequest = try values.decodeIfPresent(TimeInterval.self, forKey: .timeoutIntervalForRequest)
        // A null timeout stands for no limit.
        if values.contains(.timeoutIntervalForResource) {
            timeoutIntervalForResource = try values.decodeIfPresent(TimeInterval.self, forKey: .timeoutIntervalForResource)
        }
        for (key, time) in [
            (CodingKeys.timeoutIntervalForRequest, timeoutIntervalForRequest),
            (.timeoutIntervalForResource, timeoutIntervalForResource),
        ] {
            if let time, !(time >= 0) { throw corrupted(key, "The timeout must not be negative.") }
        }
        try read(.httpAdditionalHeaders, &httpAdditionalHeaders)
        if let policy = try values.decodeIfPresent(UInt.self, forKey: .requestCachePolicy) {
            guard let policy = URLRequest.CachePolicy(rawValue: policy) else {
                throw corrupted(.requestCachePolicy, "The number is not a cache policy of URLRequest.")
            }
            requestCachePolicy = policy
        }
        try read(.httpMaximumConnectionsPerHost, &httpMaximumConnectionsPerHost)
        try read(.maximumConnections, &maximumConnections)
        guard httpMaximumConnectionsPerHost >= 1 else {
            throw corrupted(.httpMaximumConnectionsPerHost, "Allow at least one connection per host.")
        }
        guard maximumConnections >= 1 else { throw corrupted(.maximumConnections, "Allow at least one connection.") }
        try read(.waitsForConnectivity, &waitsForConnectivity)
        try read(.allowsCellularAccess, &allowsCellularAccess)
        try read(.securityPolicy, &connection.securityPolicy)
        try read(.usesHTTP2, &connection.usesHTTP2)
        try read(.minimumTLSVersion, &connection.minimumTLSVersion)
        connection.maximumTLSVersion = try values.decodeIfPresent(TLSVersion.self, forKey: .maximumTLSVersion)
        try read(.temporaryDirectory, &temporaryDirectory)
        guard temporaryDirectory.isFileURL else { throw corrupted(.temporaryDirectory, "The directory must be a file URL.") }
        switch try values.decodeIfPresent(StoreScope.self, forKey: .cookies) {
        case .off: cookies = .none
        case .session: cookies = .own
        case .all, nil: cookies = .store(.shared)
        }
        switch try values.decodeIfPresent(StoreScope.self, forKey: .credentials) {
        case .off: credentials = .none
        case .session, nil: credentials = .own
        case .all: credentials = .store(.shared)
        }
        if let type = try values.decodeIfPresent(String.self, forKey: .networkServiceType) {
            guard let type = NetworkServiceType.allCases.first(where: { "\($0)" == type }) else {
                throw corrupted(.networkServiceType, "Unknown type of traffic: use a case of NetworkServiceType.")
            }
            networkServiceType = type
        }
        identity = try values.decodeIfPresent(String.self, forKey: .identity)
    }

    /// Encodes the settings that are values.
    public func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encodeIfPresent(timeoutIntervalForRequest, forKey: .timeoutIntervalForRequest)
        try values.encode(timeoutIntervalForResource, forKey: .timeoutIntervalForResource)
        try values.encode(httpAdditionalHeaders, forKey: .httpAdditionalHeaders)
        try values.encode(requestCachePolicy.rawValue, forKey: .requestCachePolicy)
        try values.encode(httpMaximumConnectionsPerHost, forKey: .httpMaximumConnectionsPerHost)
        try values.encode(maximumConnections, forKey: .maximumConnections)
        try values.encode(waitsForConnectivity, forKey: .waitsForConnectivity)
        try values.encode(allowsCellularAccess, forKey: .allowsCellularAccess)
        try values.encode(securityPolicy, forKey: .securityPolicy)
        try values.encode(usesHTTP2, forKey: .usesHTTP2)
        try values.encode(minimumTLSVersion, forKey: .minimumTLSVersion)
        try values.encodeIfPresent(maximumTLSVersion, forKey: .maximumTLSVersion)
        try values.encode(temporaryDirectory, forKey: .temporaryDirectory)
        let cookieScope: StoreScope =
            switch cookies {
            case .none: .off;
            case .own: .session;
            case .store: .all
            }
        let credentialScope: StoreScope =
            switch credentials {
            case .none: .off;
            case .own: .session;
            case .store: .all
            }
        try values.encode(cookieScope, forKey: .cookies)
        try values.encode(credentialScope, forKey: .credentials)
        try values.encode("\(networkServiceType)", forKey: .networkServiceType)
        try values.encodeIfPresent(identity, forKey: .identity)
    }
}
