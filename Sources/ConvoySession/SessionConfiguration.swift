import ConvoyCache
import ConvoyCookies
import ConvoyOperations
import ConvoySecurity
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The settings of a session. The counterpart of `URLSessionConfiguration`.
///
/// A value: a manager takes a copy, and later changes of the original have no effect. The settings of connections are
/// in ``connection``: redirects, HTTP/2, proxies, addresses, TLS, rates.
///
/// Linux lacks these features of `URLSessionConfiguration`: background sessions (use `DownloadQueue` for downloads that
/// outlive the process), `sharedContainerIdentifier`, `sessionSendsLaunchEvents`, `isDiscretionary`,
/// `shouldUseExtendedBackgroundIdleMode` and `multipathServiceType`. There is no `protocolClasses`, because there is a
/// single engine, and no `httpShouldUsePipelining`, because engines no longer pipeline.
public struct SessionConfiguration: Sendable {
    /// The seconds without a byte after which a transfer fails. nil, the default, uses the `timeoutInterval` of each
    /// request, or that of the request serializer: 60, unless set.
    public var timeoutIntervalForRequest: TimeInterval?

    /// The maximum total time of a task in seconds, including retries and suspensions: seven days, unless set.
    public var timeoutIntervalForResource: TimeInterval? = 7 * 24 * 60 * 60

    /// Header fields that are added to requests without a field of that name. Names are case-insensitive.
    ///
    /// Like that of any request, an `Authorization` among them is not forwarded to another origin. A manager with a base URL
    /// sends those that are secrets, by their names or its `sensitiveHeaders`, only to that origin and its
    /// `authorizationOrigins`.
    public var httpAdditionalHeaders: [String: String] = [:]

    /// The cache policy of requests with `.useProtocolCachePolicy`, the default of requests.
    public var requestCachePolicy = URLRequest.CachePolicy.useProtocolCachePolicy

    /// The cache of responses; nil, the default, for none. Several sessions may share one.
    public var cache: HTTPCache?

    /// The store of cookies; nil for none. ``default`` uses `CookieStore.shared`, and ``ephemeral`` a new store in
    /// memory for each session.
    public var cookieStore: CookieStore? {
        get { if case .store(let store) = cookies { store } else { nil } }
        set { cookies = newValue.map(Cookies.store) ?? .none }
    }

    /// The store of credentials; nil for none. Until it is set, it is nil and each session makes its own store. Set
    /// `CredentialStore.shared`, or another one, to share credentials between sessions.
    public var credentialStore: CredentialStore? {
        get { if case .store(let store) = credentials { store } else { nil } }
        set { credentials = newValue.map(Credentials.store) ?? .none }
    }

    /// The name of the identity that the session's requests act as: the one of ``connection``. nil by default.
    public var identity: String? {
        get { connection.identity }
        set { connection.identity = newValue }
    }

    /// The policy of server trust: the one of ``connection``.
    public var securityPolicy: SecurityPolicy {
        get { connection.securityPolicy }
        set { connection.securityPolicy = newValue }
    }

    /// The maximum number of tasks that run at the same time for one host and port: 64, unless set. Over HTTP/1.1 each
    /// has a connection; over HTTP/2 they share one.
    ///
    /// `URLSession` allows 6. Set such a limit for HTTP/1.1 servers that are not your own.
    public var httpMaximumConnectionsPerHost = HTTPRequestOperationManager.defaultMaxConcurrentOperationCountPerHost

    /// The maximum number of tasks that run at the same time: 256, unless set.
    public var maximumConnections = HTTPRequestOperationManager.defaultMaxConcurrentOperationCount

    /// The proxies for connections; those of the environment by default. The counterpart of
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

    /// The lowest accepted TLS version: 1.2, unless set. The counterpart of `tlsMinimumSupportedProtocolVersion`.
    public var minimumTLSVersion: TLSVersion {
        get { connection.minimumTLSVersion }
        set { connection.minimumTLSVersion = newValue }
    }

    /// The highest accepted TLS version; nil, the default, for the highest supported one.
    public var maximumTLSVersion: TLSVersion? {
        get { connection.maximumTLSVersion }
        set { connection.maximumTLSVersion = newValue }
    }

    /// Whether a task without a network waits for one, up to ``timeoutIntervalForResource``, rather than failing. False
    /// by default.
    public var waitsForConnectivity = false

    /// The traffic class of requests that do not set one: it determines the priority of packets in the system's queues
    /// (`SO_PRIORITY`) and their DSCP for routers. The one of ``connection``.
    public var networkServiceType: NetworkServiceType {
        get { connection.networkServiceType }
        set { connection.networkServiceType = newValue }
    }

    /// Whether requests may go over a mobile network. True by default. If false, here or in a request, the task fails
    /// with `URLError.dataNotAllowed` if the route to the host is over a mobile link when the task starts.
    ///
    /// For a host name, the default route decides. A modem in another device, such as a router or a telephone with
    /// WLAN, cannot be detected.
    public var allowsCellularAccess = true

    /// The policy for retrying failed requests; nil, the default, retries only those of which provably nothing was
    /// sent.
    public var retryPolicy: RetryPolicy?

    /// All other settings of connections.
    public var connection = ConnectionConfiguration()

    /// The directory for the files of downloads until they are moved to their destinations. It is made if missing. It
    /// must belong to the user, and no other user may write to it; otherwise downloads fail.
    ///
    /// Choose one on the file system of the destinations, so that moving a file does not copy it. The default is in the
    /// system's directory for temporary files; clearing that also removes the partial files of `ResumeData`.
    public var temporaryDirectory = TemporaryFiles.standard

    /// The thread on which transfers run; nil, the default, for a thread of the session, which ends with it.
    package var networkThread: NetworkThread?

    enum Cookies: Sendable { case none, own, store(CookieStore) }
    enum Credentials: Sendable { case none, own, store(CredentialStore) }
    var cookies = Cookies.store(.shared)
    var credentials = Credentials.own

    /// Makes the default settings.
    public init() {}

    /// The default settings, with the shared cookies.
    public static var `default`: SessionConfiguration { SessionConfiguration() }

    /// Settings for sessions that share and store nothing: each session has its own cookies, like credentials by
    /// default, in memory.
    public static var ephemeral: SessionConfiguration {
        var configuration = SessionConfiguration()
        configuration.cookies = .own
        return configuration
    }

    /// Applies the settings to the manager of a session's operations.
    func apply(to operations: HTTPRequestOperationManager) {
        operations.connectionConfiguration = connection
        (operations.idleTimeout, operations.totalTimeout) = (timeoutIntervalForRequest, timeoutIntervalForResource)
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

extension SessionConfiguration: CustomReflectable {
    /// Empty, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Encodes the settings that are values, for storing them or sending them to another process.
///
/// Objects, and values with secrets of their own, are not encoded: the cache, the stores, the network thread, the retry
/// policy, the proxies, and the rest of ``connection``. Unless they were set to a custom store, cookies and credentials
/// are encoded as shared, private to each session, or off. ``httpAdditionalHeaders`` are encoded, so protect the
/// encoded form like them.
///
/// Missing values get their defaults, so that configurations of other versions can be decoded.
extension SessionConfiguration: Codable {
    private enum CodingKeys: String, CodingKey {
        case timeoutIntervalForRequest, timeoutIntervalForResource, httpAdditionalHeaders, requestCachePolicy
        case httpMaximumConnectionsPerHost, maximumConnections, waitsForConnectivity, allowsCellularAccess
        case securityPolicy, usesHTTP2, minimumTLSVersion, maximumTLSVersion, temporaryDirectory, cookies, credentials
        case networkServiceType, identity
    }

    /// Which sessions share a store.
    private enum StoreScope: String, Codable {
        case off = "nobody"
        case session
        case all
    }

    /// - Throws: The decoder's errors; `DecodingError.dataCorrupted` for a number that is out of range.
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
        // null stands for no limit.
        if values.contains(.timeoutIntervalForResource) {
            timeoutIntervalForResource = try values.decodeIfPresent(TimeInterval.self, forKey: .timeoutIntervalForResource)
        }
        for (key, time) in [
            (CodingKeys.timeoutIntervalForRequest, timeoutIntervalForRequest),
            (.timeoutIntervalForResource, timeoutIntervalForResource),
        ] {
            if let time, !(time >= 0) { throw corrupted(key, "A time is not negative.") }
        }
        try read(.httpAdditionalHeaders, &httpAdditionalHeaders)
        if let policy = try values.decodeIfPresent(UInt.self, forKey: .requestCachePolicy) {
            guard let policy = URLRequest.CachePolicy(rawValue: policy) else {
                throw corrupted(.requestCachePolicy, "There is no such cache policy.")
            }
            requestCachePolicy = policy
        }
        try read(.httpMaximumConnectionsPerHost, &httpMaximumConnectionsPerHost)
        try read(.maximumConnections, &maximumConnections)
        guard httpMaximumConnectionsPerHost >= 1 else {
            throw corrupted(.httpMaximumConnectionsPerHost, "It is at least 1.")
        }
        guard maximumConnections >= 1 else { throw corrupted(.maximumConnections, "It is at least 1.") }
        try read(.waitsForConnectivity, &waitsForConnectivity)
        try read(.allowsCellularAccess, &allowsCellularAccess)
        try read(.securityPolicy, &connection.securityPolicy)
        try read(.usesHTTP2, &connection.usesHTTP2)
        try read(.minimumTLSVersion, &connection.minimumTLSVersion)
        connection.maximumTLSVersion = try values.decodeIfPresent(TLSVersion.self, forKey: .maximumTLSVersion)
        try read(.temporaryDirectory, &temporaryDirectory)
        guard temporaryDirectory.isFileURL else { throw corrupted(.temporaryDirectory, "It is no file URL.") }
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
                throw corrupted(.networkServiceType, "There is no such type of traffic.")
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
