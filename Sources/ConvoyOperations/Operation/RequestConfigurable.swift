import ConvoyCache
import ConvoyCookies
import ConvoySecurity
import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Has settings of requests: managers, sessions and operations. Nearly all settings are properties of each of them.
public protocol RequestConfigurable: AnyObject, Sendable {
    /// The settings. A manager's or a session's are those of the operations that it makes from now on; an operation's
    /// are read when an attempt begins, those of handlers when they are called. A debug build reports once on standard
    /// error if an operation's setting is changed too late for the attempt in progress. Any thread.
    ///
    /// Of two threads that change a setting in place at once, the last one wins; ``updateSettings(_:)`` loses no
    /// change.
    var settings: RequestSettings { get set }

    /// Changes settings, without losing a change that another thread makes meanwhile.
    ///
    /// - Parameter update: changes a copy of the settings. Called again if another thread made a change meanwhile.
    /// - Throws: what the block throws; then nothing has changed.
    func updateSettings<Result>(_ update: (inout RequestSettings) throws -> Result) rethrows -> Result
}

/// The settings by their names; see ``RequestSettings/Values`` for details.
extension RequestConfigurable {
    /// The queue on which the handlers run; nil is the main queue.
    public var completionQueue: DispatchQueue? {
        get { settings.values.completionQueue }
        set { updateSettings { $0.values.completionQueue = newValue } }
    }

    /// A group that each operation is in until its handlers have run.
    public var completionGroup: DispatchGroup? {
        get { settings.values.completionGroup }
        set { updateSettings { $0.values.completionGroup = newValue } }
    }

    /// Values for your own use; the library ignores them.
    public var userInfo: [String: any Sendable] {
        get { settings.values.userInfo }
        set { updateSettings { $0.values.userInfo = newValue } }
    }

    /// Whether operations post notifications. True by default.
    public var postsNotifications: Bool {
        get { settings.values.postsNotifications }
        set { updateSettings { $0.values.postsNotifications = newValue } }
    }

    /// Monitors of what happens to the operations. None by default.
    public var eventMonitors: [EventMonitor] {
        get { settings.values.eventMonitors }
        set { updateSettings { $0.values.eventMonitors = newValue } }
    }

    /// Whether operations collect their `metrics`. False by default.
    public var collectsMetrics: Bool {
        get { settings.values.collectsMetrics }
        set { updateSettings { $0.values.collectsMetrics = newValue } }
    }

    /// Whether and when failed requests are retried. nil by default.
    public var retryPolicy: RetryPolicy? {
        get { settings.values.retryPolicy }
        set { updateSettings { $0.values.retryPolicy = newValue } }
    }

    /// Whether an operation waits for a network instead of failing without one. False by default.
    public var waitsForConnectivity: Bool {
        get { settings.values.waitsForConnectivity }
        set { updateSettings { $0.values.waitsForConnectivity = newValue } }
    }

    /// How many seconds transfers may be without a byte; nil, the default, leaves it to the request.
    public var idleTimeout: TimeInterval? {
        get { settings.values.idleTimeout }
        set { updateSettings { $0.values.idleTimeout = newValue } }
    }

    /// How many seconds an operation may take in total; nil, the default, for no limit.
    public var totalTimeout: TimeInterval? {
        get { settings.values.totalTimeout }
        set { updateSettings { $0.values.totalTimeout = newValue } }
    }

    /// How an operation reacts to a failed or cancelled dependency. `.run` by default.
    public var dependencyFailurePolicy: DependencyFailurePolicy {
        get { settings.values.dependencyFailurePolicy }
        set { updateSettings { $0.values.dependencyFailurePolicy = newValue } }
    }

    /// Settings for the connections.
    public var connectionConfiguration: ConnectionConfiguration {
        get { settings.values.connectionConfiguration }
        set { updateSettings { $0.values.connectionConfiguration = newValue } }
    }

    /// Which servers are trusted.
    public var securityPolicy: SecurityPolicy {
        get { settings.values.securityPolicy }
        set { updateSettings { $0.values.securityPolicy = newValue } }
    }

    /// The minimum speed of a transfer; nil, the default, for none.
    public var stallLimit: StallLimit? {
        get { settings.values.stallLimit }
        set { updateSettings { $0.values.stallLimit = newValue } }
    }

    /// Whether identical GETs may share one transfer. False by default.
    public var coalescesIdenticalRequests: Bool {
        get { settings.values.coalescesIdenticalRequests }
        set { updateSettings { $0.values.coalescesIdenticalRequests = newValue } }
    }

    /// Validates and parses responses.
    public var responseSerializer: any HTTPResponseSerialization {
        get { settings.values.responseSerializer }
        set { updateSettings { $0.values.responseSerializer = newValue } }
    }

    /// The size of the largest body that is kept in memory, in bytes. 256 MiB by default.
    public var maximumBodySize: Int {
        get { settings.values.maximumBodySize }
        set { updateSettings { $0.values.maximumBodySize = newValue } }
    }

    /// The store of cookies; nil for none.
    public var cookieStore: CookieStore? {
        get { settings.values.cookieStore }
        set { updateSettings { $0.values.cookieStore = newValue } }
    }

    /// The cache of responses; nil, the default, for none.
    public var cache: HTTPCache? {
        get { settings.values.cache }
        set { updateSettings { $0.values.cache = newValue } }
    }

    /// The user name and password for servers that ask for them. nil by default.
    public var credential: URLCredential? {
        get { settings.values.credential }
        set { updateSettings { $0.values.credential = newValue } }
    }

    /// Whether the ``credentialStore`` is asked for credentials. True by default.
    public var shouldUseCredentialStorage: Bool {
        get { settings.values.shouldUseCredentialStorage }
        set { updateSettings { $0.values.shouldUseCredentialStorage = newValue } }
    }

    /// The name of the user on whose behalf requests are sent. nil by default.
    public var identity: String? {
        get { settings.values.identity }
        set { updateSettings { $0.values.identity = newValue } }
    }

    /// Sends a token with each request. nil by default.
    public var authenticator: Authenticator? {
        get { settings.values.authenticator }
        set { updateSettings { $0.values.authenticator = newValue } }
    }

    /// The credentials by protection space, and the accepted answers of handlers: a store of the manager's own by
    /// default, and without a manager one of the operation's. Give several the same store, such as `.shared`, to share
    /// the answers. A copy of a manager shares its store.
    public var credentialStore: CredentialStore {
        get { settings.values.credentials ?? updateSettings { $0.values.credentials.made(by: CredentialStore()) } }
        set { updateSettings { $0.values.credentials = newValue } }
    }
}
