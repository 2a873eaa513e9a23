import ConvoyCache
import ConvoyCookies
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The request settings shared by managers, sessions and operations. ``Values`` lists them.
///
/// Settings are a value with copy-on-write semantics. An operation gets a copy of its manager's settings when it is
/// created; later changes to either copy do not affect the other. Each setting is a member of this value and, under the
/// same name, of every `RequestConfigurable` object:
///
/// ```swift
/// manager.retryPolicy = RetryPolicy()
/// manager.settings.retryPolicy = RetryPolicy()  // the same
/// uploads.settings = manager.settings           // all of them at once
/// ```
@dynamicMemberLookup
public struct RequestSettings: Sendable {
    private var storage: Storage

    /// The values, which change only while a single value of the structure refers to the object, and nothing has been
    /// prepared from them.
    private final class Storage: @unchecked Sendable {
        @exclusivity(unchecked) var values: Values
        let prepared = AtomicOnce<AttemptSettings>()
        let ofParts = AtomicOnce<PartSettings>()

        init(_ values: Values) { self.values = values }

        static let standard = Storage(Values())
    }

    /// Creates the settings of an operation without a manager.
    public init() { storage = .standard }

    init(_ values: Values) { storage = Storage(values) }

    /// Accesses a setting.
    public subscript<Value>(dynamicMember member: WritableKeyPath<Values, Value>) -> Value {
        get { storage.values[keyPath: member] }
        set { values[keyPath: member] = newValue }
    }

    /// All settings. Internal code uses them without key paths.
    package var values: Values {
        @inline(__always) _read { yield storage.values }
        _modify {
            if !isKnownUniquelyReferenced(&storage) || storage.prepared.isSet || storage.ofParts.isSet {
                storage = Storage(storage.values)
            }
            yield &storage.values
        }
    }

    /// The values that attempts need, prepared on first use.
    var prepared: AttemptSettings {
        if let prepared = storage.prepared.object { return prepared }
        let made = AttemptSettings(storage.values)
        return storage.prepared.set(made) ? made : storage.prepared.object ?? made
    }

    // MARK: Parts

    /// The settings for the parts of operations that share one `Storage`.
    private final class PartSettings: Sendable {
        let decoding: Bool
        let identity: Bool
        let storage: Storage

        init(_ settings: RequestSettings, decoding: Bool, identity: Bool) {
            self.decoding = decoding
            self.identity = identity
            storage = settings.storage
        }
    }

    /// Returns the settings for a part of an operation that has these settings; see
    /// `adoptSettings(of:decoding:identity:)`. They are created once for all parts that can share them.
    func ofPart(decoding: Bool, identity: Bool) -> RequestSettings {
        var settings = self
        if let made = storage.ofParts.object, made.decoding == decoding, made.identity == identity {
            settings.storage = made.storage
            return settings
        }
        settings.values.becomePart(decoding: decoding, identity: identity)
        _ = storage.ofParts.set(PartSettings(settings, decoding: decoding, identity: identity))
        return settings
    }

    /// Creates the resource that all parts of an operation share: one store of answered challenges.
    mutating func makeShared() {
        guard storage.values.shouldUseCredentialStorage, storage.values.credentials == nil else { return }
        values.credentials = CredentialStore()
    }

    /// Whether no setting was changed since the settings were created.
    package var isStandard: Bool { storage === Storage.standard }

    private func isIdentical(to other: RequestSettings) -> Bool { storage === other.storage }

    // MARK: Locked changes

    /// Updates settings guarded by a lock. The lock is not held while user code runs, that is, during the update and
    /// the release of replaced values.
    static func update<Result>(
        _ update: (inout RequestSettings) throws -> Result, read: () -> RequestSettings,
        replace: (_ old: RequestSettings, _ new: RequestSettings) -> Bool
    ) rethrows -> Result {
        while true {
            let old = read()
            var new = old
            let result = try update(&new)
            if new.isIdentical(to: old) { return result }
            if !new.values.holder.isSame(as: old.values.holder) { new.values.holder = old.values.holder }
            if replace(old, new) { return result }
        }
    }

    /// Replaces the settings. Returns false if they have changed since they were read.
    mutating func replace(_ old: RequestSettings, by new: RequestSettings) -> Bool {
        guard isIdentical(to: old) else { return false }
        self = new
        return true
    }
}

extension RequestSettings {
    /// All settings by name.
    public struct Values: Sendable {
        // MARK: Handlers

        /// The queue on which handlers run; nil, the default as in AFNetworking, means the main queue.
        ///
        /// On a serial queue, the completion handlers of all operations run in the order in which the operations
        /// finish, so a dependency's handlers run before its dependent's. On a concurrent queue, they are submitted in
        /// that order.
        public var completionQueue: DispatchQueue?
        /// A group that each operation enters when it is started or enqueued in a `RequestOperationQueue` or by a
        /// manager, and leaves after its handlers have run.
        public var completionGroup: DispatchGroup?
        /// Values for your own use, ignored by the library.
        public var userInfo: [String: any Sendable] = [:]
        /// Whether `networkingOperationDidStart` and `networkingOperationDidFinish` are posted. A session's tasks post
        /// `networkingTaskDidResume`, `networkingTaskDidSuspend` and `networkingTaskDidComplete` instead. False by
        /// default: with or without an observer, the posts cost a sixth of all instructions of a small request.
        public var postsNotifications = false
        /// Monitors that observe why operations wait, what their requests do, and how they end. Empty by default, which
        /// costs nothing. Set this right after creating an operation: once an operation has a monitor, changes have no
        /// effect.
        ///
        /// Requests are measured for monitors as they are for `URLConnectionOperation.metrics`. Operations with
        /// monitors share transfers (``coalescesIdenticalRequests``) only with other operations that are measured.
        public var eventMonitors: [EventMonitor] = []
        /// Whether operations collect their `metrics`, which cover their waits and the duration of each phase of each
        /// request. False by default, which costs nothing. Set this right after creating an operation: earlier times
        /// are not included in the metrics.
        ///
        /// Operations that collect metrics share transfers (``coalescesIdenticalRequests``) only with each other.
        public var collectsMetrics = false

        // MARK: Failures

        /// The policy that decides whether and when a failed request is retried. If this is nil, which is the default,
        /// a request is retried only if provably no part of it was sent.
        public var retryPolicy: RetryPolicy?
        /// Whether an operation waits for a network instead of failing without one. False by default. The counterpart
        /// of `URLSessionConfiguration.waitsForConnectivity`.
        ///
        /// The operation waits if no connection could be made, so that no part of the request was sent, and the kernel
        /// reports that no route exists. If the host or proxy is given by address, the route to that address is
        /// checked; if it is given by name, the route to the Internet is checked. As soon as a route exists, the
        /// request is sent again, regardless of its method and its ``retryPolicy``. In the meantime, names are looked
        /// up: a route to one of the resulting addresses is enough, because the host may be in a network without
        /// Internet access. While it waits, the operation holds no slot of a `RequestOperationQueue` and can be paused
        /// and cancelled. It fails when its ``totalTimeout`` expires; without a time limit, it may wait forever. The
        /// `retryHandler` is called for each wait.
        ///
        /// If the network is lost during a request, ``retryPolicy`` applies. On a machine that never has Internet
        /// access, operations also wait for names that cannot be resolved.
        public var waitsForConnectivity = false
        /// The maximum time without any bytes transferred, in seconds. If this is nil, which is the default, the
        /// request's own timeout applies: 60, or the `timeoutInterval` of the request serializer.
        public var idleTimeout: TimeInterval?
        /// The maximum duration of an operation, in seconds, including retries, the waits before them, and pauses. nil
        /// by default. With nil, zero, a negative number, infinity or NaN, the duration is unlimited.
        ///
        /// The time starts when the operation first starts its work, or when its queue first holds it at the closed
        /// gate of its host. It runs until the operation finishes, including during pauses, like
        /// `timeoutIntervalForResource` of `URLSession`. (``idleTimeout`` is a different limit: the time that a
        /// transfer may go without a byte.) When the time expires, the operation finishes with `URLError.timedOut`,
        /// immediately or when its transfer has stopped. It is not cancelled, and its dependents run. Setting this
        /// after the time has started has no effect.
        public var totalTimeout: TimeInterval?
        /// The reaction of an operation to a failed or cancelled dependency. `.run` by default. However, an operation
        /// that takes a value from a dependency with `depend(on:prepare:)` fails with the dependency's error unless
        /// `.run` was set explicitly.
        public var dependencyFailurePolicy: DependencyFailurePolicy {
            get { chosenDependencyFailurePolicy ?? .run }
            set { chosenDependencyFailurePolicy = newValue }
        }
        var chosenDependencyFailurePolicy: DependencyFailurePolicy?

        // MARK: Connections

        /// Connection settings, such as certificates to trust and headers to remove on a redirect to another origin.
        public var connectionConfiguration = ConnectionConfiguration()
        /// The policy that decides which servers are trusted, as in `connectionConfiguration`. Operations with
        /// different policies do not share connections.
        ///
        /// If the policy pins the host of a URL without TLS, the operation fails with
        /// `URLError.appTransportSecurityRequiresSecureConnection` before it connects.
        public var securityPolicy: SecurityPolicy {
            get { connectionConfiguration.securityPolicy }
            set { connectionConfiguration.securityPolicy = newValue }
        }
        /// The minimum speed of a transfer, below which the attempt fails with `URLError.timedOut`, as in
        /// `connectionConfiguration`. nil, the default, means that any speed is accepted.
        public var stallLimit: StallLimit? {
            get { connectionConfiguration.stallLimit }
            set { connectionConfiguration.stallLimit = newValue }
        }
        /// The operation's own rate limit for received bytes, which applies in addition to the limits of
        /// `connectionConfiguration`.
        var receiveRateLimit: RateLimit?
        var sendRateLimit: RateLimit?
        /// Whether a request may share one transfer with identical GETs that are in flight. False by default.
        ///
        /// Requests are identical if they have the same URL, headers, timeout, cache policy and configuration.
        /// Cancelling or pausing one operation does not affect the others. An operation with a `redirectHandler` or an
        /// `outputStream` does not share transfers.
        public var coalescesIdenticalRequests = false

        // MARK: Responses

        /// The serializer that validates and parses responses on an internal queue. By default this is a plain
        /// `HTTPResponseSerializer`, which delivers the body unchanged; a manager's default is a
        /// `JSONResponseSerializer`. A `URLConnectionOperation` that is not an `HTTPRequestOperation` does not parse
        /// responses.
        ///
        /// The serializer's status codes, content types and limits also apply to async calls. It can be changed in
        /// place: `manager.responseSerializer.acceptableContentTypes = nil`.
        public var responseSerializer: any HTTPResponseSerialization {
            get { serializer.serializer }
            set { serializer = PreparedSerializer(newValue) }
        }
        var serializer = PreparedSerializer(HTTPResponseSerializer())
        /// The manager's JSON decoder, used unless the serializer has its own; if this is nil, a `JSONDecoder` with
        /// default settings is used.
        var decoder: JSONDecoder?
        /// The maximum size of a body kept in memory, in bytes after decompression. 256 MiB by default; the response
        /// serializer's `limits` apply too. A larger body fails with `URLError.dataLengthExceedsMaximum` as soon as its
        /// size is known. The body of an error response is truncated to that size, and the operation's error reports
        /// its status. A body written to an `outputStream` is not limited.
        public var maximumBodySize = 256 << 20
        var responseStringEncoding: String.Encoding?

        // MARK: Stores

        /// The cookie store. Requests send its cookies, and cookies set by responses, including redirects, are stored
        /// in it (RFC 6265bis). By default, each manager has its own store in memory, and an operation without a
        /// manager has no store.
        ///
        /// Assign the same store to several managers to share it, or use a store with a file to keep cookies after the
        /// process ends. A copy of a manager shares its store. If a manager sends requests for several users, each user
        /// needs a separate store (or none).
        ///
        /// A request whose `httpShouldHandleCookies` is false neither sends nor stores cookies. A request with its own
        /// `Cookie` field sends only that field. The request's `mainDocumentURL` determines the site on whose behalf it
        /// is made, which matters for `SameSite` cookies. Without that property, each request counts as made on behalf
        /// of the site of its server. Cookies set by a proxy in a 407 or in its response to CONNECT are ignored.
        public var cookieStore: CookieStore? {
            get { cookies?.keeper as? CookieStore }
            set { cookies = newValue.map { CookieKeeperReference($0) } }
        }
        var cookies: CookieKeeperReference?
        /// The cache that serves and stores responses (RFC 9111). nil, the default, disables caching. Several managers
        /// may share one cache.
        ///
        /// `URLRequest.cachePolicy` controls how a request uses the cache. A cached response is delivered like a
        /// response from the network, with the same handlers, notifications and order; only
        /// `URLConnectionOperation.cacheUse` shows the difference. The cache stores the bytes sent by the server,
        /// before content decoding. A response to a request that identifies its sender (by `credential`, a token,
        /// cookies of a store, a client certificate, or a secret field) is served only to requests with the same
        /// identification; with an ``identity``, only to requests of that identity.
        public var cache: HTTPCache? {
            get { storedResponses?.cache as? HTTPCache }
            set { storedResponses = newValue.map { ResponseCacheReference($0) } }
        }
        var storedResponses: ResponseCacheReference?

        // MARK: Client identity

        /// The user name and password for servers that require them. They are sent only if the server challenges this
        /// request or has challenged an earlier one. nil by default. A request with its own `Authorization` field is
        /// sent with that field until the server sends a challenge.
        ///
        /// An operation's credential is sent only to its request's server (scheme, host and port), even after a
        /// redirect. The exception is a redirect from http to https on the same host at the standard ports. If a
        /// manager has a `baseURL`, its credential is sent only to that origin and to the `authorizationOrigins`. Proxy
        /// credentials are part of the proxy's configuration.
        public var credential: URLCredential?
        /// Whether the `credentialStore` is used if `credential` is nil or is for a different server. True by default.
        public var shouldUseCredentialStorage = true
        var credentials: CredentialStore?
        /// The name of the user on whose behalf requests are sent, as in `connectionConfiguration`. nil by default.
        /// With an identity, cached responses remain usable after a token refresh, and connections are used only for
        /// that identity; see `ConnectionConfiguration.identity`.
        ///
        /// ```swift
        /// api.cache = cache
        /// api.identity = "ada"
        /// ```
        public var identity: String? {
            get { connectionConfiguration.identity }
            set { connectionConfiguration.identity = newValue }
        }
        /// The authenticator that adds a token to each request. If a manager has a `baseURL`, tokens are sent only to
        /// that origin and to the `authorizationOrigins`. nil by default.
        public var authenticator: Authenticator?

        var holder = InternalSettings()

        var areNotificationsPosted: Bool { postsNotifications && holder.allowsNotifications }

        /// Whether requests are measured, for metrics or monitors.
        var wantsTransactions: Bool { collectsMetrics || !eventMonitors.isEmpty }
    }

    /// The values that a manager or an operation keeps when its settings are replaced.
    struct InternalSettings: Sendable {
        /// The network services of the operations.
        var transport: any Transport = NetworkThread.shared
        var clock: any SchedulingClock = MonotonicClock()
        /// Whether requests without a `User-Agent` get the standard one. False for managers, whose request serializer
        /// sets the field unless the user removed it.
        var addsUserAgent = true
        /// Whether notifications may be posted at all.
        var allowsNotifications = true
        /// Whether the operation is a part of another operation.
        var isPart = false
        /// Whether the operation was created by a token refresh.
        var isOfRefresh = false
        /// The serializer with which the awaiting task decodes the body of an acceptable response, if any.
        var awaitedValue: (any DirectJSONDecoding)?
        /// The targets that receive the credential and the tokens.
        var secretScope = SecretScope.everywhere

        /// Returns whether another owner keeps the same values, so that both can share settings and what was prepared
        /// from them.
        func isSame(as other: InternalSettings) -> Bool {
            transport === other.transport && clock is MonotonicClock && other.clock is MonotonicClock
                && addsUserAgent == other.addsUserAgent && allowsNotifications == other.allowsNotifications
                && isPart == other.isPart && isOfRefresh == other.isOfRefresh && awaitedValue == nil
                && other.awaitedValue == nil && secretScope == other.secretScope
        }
    }
}

extension RequestSettings.Values {
    /// Turns the settings of an operation into those of its parts.
    fileprivate mutating func becomePart(decoding: Bool, identity: Bool) {
        serializer = PreparedSerializer(HTTPResponseSerializer(statusesOf: serializer.serializer))
        connectionConfiguration.decodesUnaskedEncodings = decoding
        connectionConfiguration.asksForIdentity = identity
        retryPolicy = nil
        totalTimeout = nil
        completionGroup = nil
        storedResponses = nil
        postsNotifications = false
        coalescesIdenticalRequests = false
        waitsForConnectivity = false
        holder.awaitedValue = nil
        holder.isPart = true
    }
}
