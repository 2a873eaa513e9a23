import ConvoyCache
import ConvoyCookies
import ConvoyOperations
import ConvoySecurity
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The settings of a session. The counterpart of `URLSessionConfiguration`.
///
/// A value: a manager takes a copy, and later changes of the original change nothing. What is not here is in ``connection``,
/// the settings of all connections: redirects, HTTP/2, proxies, addresses, TLS, rates.
///
/// What `URLSessionConfiguration` has and this has not, as Linux has none of it: background sessions
/// (`DownloadQueue` is what outlives the process here), `sharedContainerIdentifier`, `sessionSendsLaunchEvents`,
/// `isDiscretionary`, `shouldUseExtendedBackgroundIdleMode`, `multipathServiceType`, and `protocolClasses`: there is one
/// engine. `httpShouldUsePipelining` is left out, as no engine does that any more.
public struct SessionConfiguration: Sendable {
    /// How many seconds a transfer may be without a byte. With nil, the default, the `timeoutInterval` of each request says
    /// it, or that of the request serializer: 60, unless set.
    public var timeoutIntervalForRequest: TimeInterval?

    /// How many seconds a task may take in all, retries and suspensions included: seven days, unless set.
    public var timeoutIntervalForResource: TimeInterval? = 7 * 24 * 60 * 60

    /// Header fields of all requests that have no such field of their own. Names are case-insensitive.
    ///
    /// As of all header fields, `Authorization` among them is not sent on to another origin.
    public var httpAdditionalHeaders: [String: String] = [:]

    /// What requests want of the cache that have `.useProtocolCachePolicy`, as all have by default.
    public var requestCachePolicy = URLRequest.CachePolicy.useProtocolCachePolicy

    /// The cache of responses; nil, the default, for none. Several sessions may share one.
    public var cache: HTTPCache?

    /// What keeps the cookies; nil for none. ``default`` has `CookieStore.shared`, and ``ephemeral`` makes each session a
    /// store of its own, in memory.
    public var cookieStore: CookieStore? {
        get { if case .store(let store) = cookies { store } else { nil } }
        set { cookies = newValue.map(Cookies.store) ?? .none }
    }

    /// Credentials by who asks for them; nil for none. As long as it is not set, it is nil too, and each session makes a store
    /// of its own. Set `CredentialStore.shared`, or another one, for sessions that send what others were told.
    public var credentialStore: CredentialStore? {
        get { if case .store(let store) = credentials { store } else { nil } }
        set { credentials = newValue.map(Credentials.store) ?? .none }
    }

    /// A name for the one on whose behalf the session's requests are sent: the same as that of ``connection``. nil by default.
    public var identity: String? {
        get { connection.identity }
        set { connection.identity = newValue }
    }

    /// Which servers are trusted: the same as that of ``connection``.
    public var securityPolicy: SecurityPolicy {
        get { connection.securityPolicy }
        set { connection.securityPolicy = newValue }
    }

    /// How many tasks run at a time for one host, by name and port: 64, unless set. Over HTTP/1.1 each has a connection;
    /// over HTTP/2 they share one.
    ///
    /// `URLSession` allows 6. Set such a limit for HTTP/1.1 servers that are not your own.
    public var httpMaximumConnectionsPerHost = HTTPRequestOperationManager.defaultMaxConcurrentOperationCountPerHost

    /// How many tasks run at a time in all: 256, unless set.
    public var maximumConnections = HTTPRequestOperationManager.defaultMaxConcurrentOperationCount

    /// Through which proxies connections are made; those of the environment by default. The counterpart of
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

    /// The oldest version of TLS that is spoken: 1.2, unless set. The counterpart of `tlsMinimumSupportedProtocolVersion`.
    public var minimumTLSVersion: TLSVersion {
        get { connection.minimumTLSVersion }
        set { connection.minimumTLSVersion = newValue }
    }

    /// The newest version of TLS that is spoken; nil, the default, for the newest that there is.
    public var maximumTLSVersion: TLSVersion? {
        get { connection.maximumTLSVersion }
        set { connection.maximumTLSVersion = newValue }
    }

    /// Whether a task that cannot connect because there is no network waits for one, up to
    /// ``timeoutIntervalForResource``, in place of failing. False by default.
    public var waitsForConnectivity = false

    /// What kind of traffic the requests are that say nothing of it themselves: the priority of their packets in the system's
    /// queues (`SO_PRIORITY`), and what routers that mind it are told (DSCP). The same as that of ``connection``.
    public var networkServiceType: NetworkServiceType {
        get { connection.networkServiceType }
        set { connection.networkServiceType = newValue }
    }

    /// Whether requests may go over a mobile network. True by default. If not, or if a request has
    /// `allowsCellularAccess` set to false, its task fails with `URLError.dataNotAllowed` where the kernel says, when the task
    /// begins, that the way to the host is over a link of such a kind.
    ///
    /// A host with a name is taken for one that the way to the Internet leads to. A modem that is another device, as a router
    /// or a telephone with WLAN, is not told apart from other networks.
    public var allowsCellularAccess = true

    /// Whether and when failed requests are retried; nil, the default, for only those of which provably nothing was sent.
    public var retryPolicy: RetryPolicy?

    /// Everything else about connections.
    public var connection = ConnectionConfiguration()

    /// The directory in which the files of downloads are until they are moved to their places. It is made if it is not
    /// there, and must be the user's own, with nobody else allowed to write to it; otherwise the downloads fail.
    ///
    /// It should be on the file system of the downloads' destinations, so that they can be moved without being copied. By
    /// default it is one in the system's directory for temporary files; whoever clears that away takes the partial files of
    /// `ResumeData` with it.
    public var temporaryDirectory = TemporaryFiles.standard

    /// The thread on which transfers run; nil, the default, for one of the session's own, which ends with it.
    public var networkThread: NetworkThread?

    enum Cookies: Sendable { case none, own, store(CookieStore) }
    enum Credentials: Sendable { case none, own, store(CredentialStore) }
    var cookies = Cookies.store(.shared)
    var credentials = Credentials.own

    /// The settings that sessions have by default.
    public init() {}

    /// The settings that sessions have by default: with the cookies that all share.
    public static var `default`: SessionConfiguration { SessionConfiguration() }

    /// Settings for sessions that share nothing and keep nothing: cookies, as credentials by default, are of each session
    /// alone, and in memory.
    public static var ephemeral: SessionConfiguration {
        var configuration = SessionConfiguration()
        configuration.cookies = .own
        return configuration
    }

    /// Applies the settings to what makes the operations of a session's tasks.
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
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
