import ConvoyCache
import ConvoyCookies
import ConvoySecurity
import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking

/// An object with request settings: a manager, a session or an operation. Nearly all settings are also properties of
/// that object.
public protocol RequestConfigurable: AnyObject, Sendable {
    /// The request settings. The settings of a manager or a session apply to operations that it creates afterwards. An
    /// operation's settings are read when an attempt begins, handlers when they are called. A debug build warns once on
    /// standard error if an operation's setting is changed too late for the attempt in progress. Available from any
    /// thread.
    ///
    /// If two threads change a setting in place concurrently, the last change wins; ``updateSettings(_:)`` loses no
    /// change.
    var settings: RequestSettings { get set }

    /// Updates the settings without losing concurrent changes made by other threads.
    ///
    /// - Parameter update: A closure that changes a copy of the settings. It is called again if another thread has
    ///   changed the settings in the meantime.
    /// - Throws: The error thrown by `update`, in which case the settings are unchanged.
    func updateSettings<Result>(_ update: (inout RequestSettings) throws -> Result) rethrows -> Result
}

/// The settings by name; see ``RequestSettings/Values`` for details.
extension RequestConfigurable {
    /// The queue on which handlers run; nil for the main queue.
    public var completionQueue: DispatchQueue? {
        get { settings.values.completionQueue }
        set { updateSettings { $0.values.completionQueue = newValue } }
    }

    /// A group that each operation enters, and leaves after its handlers have run.
    public var completionGroup: DispatchGroup? {
        get { settings.values.completionGroup }
        set { updateSettings { $0.values.completionGroup = newValue } }
    }

    /// Values for your own use, ignored by the library.
    public var userInfo: [String: any Sendable] {
        get { settings.values.userInfo }
        set { updateSettings { $0.values.userInfo = newValue } }
    }

    /// Whether operations, or a session's tasks, post notifications. False by default.
    public var postsNotifications: Bool {
        get { settings.values.postsNotifications }
        set { updateSettings { $0.values.postsNotifications = newValue } }
    }

    /// Monitors that observe the operations. Empty by default.
    public var eventMonitors: [EventMonitor] {
        get { settings.values.eventMonitors }
        set { updateSettings { $0.values.eventMonitors = newValue } }
    }

    /// Whether operations collect their `metrics`. False by default.
    public var collectsMetrics: Bool {
        get { settings.values.collectsMetrics }
        set { updateSettings { $0.values.collectsMetrics = newValue } }
    }

    /// The policy that decides whether and when failed requests are retried. nil by default.
    public var retryPolicy: RetryPolicy? {
        get { settings.values.retryPolicy }
        set { updateSettings { $0.values.retryPolicy = newValue } }
    }

    /// Whether an operation waits for a network instead of failing without one. False by default.
    public var waitsForConnectivity: Bool {
        get { settings.values.waitsForConnectivity }
        set { updateSettings { $0.values.waitsForConnectivity = newValue } }
    }

    /// The maximum time without any bytes transferred, in seconds. If this is nil, which is the default, the request's
    /// own timeout applies.
    public var idleTimeout: TimeInterval? {
        get { settings.values.idleTimeout }
        set { updateSettings { $0.values.idleTimeout = newValue } }
    }

    /// The maximum duration of an operation, in seconds. nil, the default, means no limit.
    public var totalTimeout: TimeInterval? {
        get { settings.values.totalTimeout }
        set { updateSettings { $0.values.totalTimeout = newValue } }
    }

    /// The reaction of an operation to a failed or cancelled dependency. `.run` by default.
    public var dependencyFailurePolicy: DependencyFailurePolicy {
        get { settings.values.dependencyFailurePolicy }
        set { updateSettings { $0.values.dependencyFailurePolicy = newValue } }
    }

    /// The settings of the connections.
    public var connectionConfiguration: ConnectionConfiguration {
        get { settings.values.connectionConfiguration }
        set { updateSettings { $0.values.connectionConfiguration = newValue } }
    }

    /// The policy that decides which servers are trusted.
    public var securityPolicy: SecurityPolicy {
        get { settings.values.securityPolicy }
        set { updateSettings { $0.values.securityPolicy = newValue } }
    }

    /// The minimum speed of a transfer. nil, the default, means that any speed is accepted.
    public var stallLimit: StallLimit? {
        get { settings.values.stallLimit }
        set { updateSettings { $0.values.stallLimit = newValue } }
    }

    /// Whether identical GETs may share one transfer. False by default.
    public var coalescesIdenticalRequests: Bool {
        get { settings.values.coalescesIdenticalRequests }
        set { updateSettings { $0.values.coalescesIdenticalRequests = newValue } }
    }

    /// The serializer that validates and parses responses.
    public var responseSerializer: any HTTPResponseSerialization {
        get { settings.values.responseSerializer }
        set { updateSettings { $0.values.responseSerializer = newValue } }
    }

    /// The maximum size of a body kept in memory, in bytes. 256 MiB by default.
    public var maximumBodySize: Int {
        get { settings.values.maximumBodySize }
        set { updateSettings { $0.values.maximumBodySize = newValue } }
    }

    /// The cookie store; nil for none.
    public var cookieStore: CookieStore? {
        get { settings.values.cookieStore }
        set { updateSettings { $0.values.cookieStore = newValue } }
    }

    /// The response cache. nil, the default, disables caching.
    public var cache: HTTPCache? {
        get { settings.values.cache }
        set { updateSettings { $0.values.cache = newValue } }
    }

    /// The user name and password for servers that require them. nil by default.
    public var credential: URLCredential? {
        get { settings.values.credential }
        set { updateSettings { $0.values.credential = newValue } }
    }

    /// Whether the ``credentialStore`` is used. True by default.
    public var shouldUseCredentialStorage: Bool {
        get { settings.values.shouldUseCredentialStorage }
        set { updateSettings { $0.values.shouldUseCredentialStorage = newValue } }
    }

    /// The name of the user on whose behalf requests are sent. nil by default.
    public var identity: String? {
        get { settings.values.identity }
        set { updateSettings { $0.values.identity = newValue } }
    }

    /// The authenticator that adds a token to each request. nil by default.
    public var authenticator: Authenticator? {
        get { settings.values.authenticator }
        set { updateSettings { $0.values.authenticator = newValue } }
    }

    /// The store of credentials by protection space, and of the answers of challenge handlers that servers have
    /// accepted. By default, each manager, and each operation without a manager, has its own store. Assign the same
    /// store, such as `.shared`, to several managers or operations to share the answers. A copy of a manager shares its
    /// store.
    public var credentialStore: CredentialStore {
        get { settings.values.credentials ?? updateSettings { $0.values.credentials.made(by: CredentialStore()) } }
        set { updateSettings { $0.values.credentials = newValue } }
    }
}
