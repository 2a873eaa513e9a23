import ConvoyCache
import ConvoyCookies
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The settings of requests: what managers, sessions and operations have in common. ``Values`` names them.
///
/// A value, copied when it is changed. An operation gets its manager's when it is made, and later changes of the one do not
/// reach the other. Each setting is a member of this value, and under the same name of all that are `RequestConfigurable`:
///
/// ```swift
/// manager.retryPolicy = RetryPolicy()
/// manager.settings.retryPolicy = RetryPolicy()  // the same
/// uploads.settings = manager.settings           // all of them at once
/// ```
@dynamicMemberLookup
public struct RequestSettings: Sendable {
    private var storage: Storage

    private final class Storage: Sendable {
        let values: Values
        let prepared = OnceReference<PreparedSettings>()
        let ofParts = OnceReference<PartSettings>()

        init(_ values: Values) { self.values = values }

        static let standard = Storage(Values())
    }

    /// The settings of an operation without a manager.
    public init() { storage = .standard }

    init(_ values: Values) { storage = Storage(values) }

    /// A setting.
    public subscript<Value>(dynamicMember member: WritableKeyPath<Values, Value>) -> Value {
        get { storage.values[keyPath: member] }
        set { values[keyPath: member] = newValue }
    }

    /// All settings, for the library's own code, without key paths.
    var values: Values {
        @inline(__always) _read { yield storage.values }
        _modify {
            var values = storage.values
            defer { storage = Storage(values) }
            yield &values
        }
    }

    /// The values that attempts need.
    var prepared: PreparedSettings {
        if let prepared = storage.prepared.object { return prepared }
        let made = PreparedSettings(storage.values)
        return storage.prepared.set(made) ? made : storage.prepared.object ?? made
    }

    // MARK: Parts

    /// The settings of the parts of operations with the same settings.
    private final class PartSettings: Sendable {
        let decoding: Bool
        let identity: Bool
        let storage: Storage

        init(_ values: Values, decoding: Bool, identity: Bool) {
            (self.decoding, self.identity, storage) = (decoding, identity, Storage(values))
        }
    }

    /// The settings of an operation that is a part of one with these; see `adoptSettings(of:decoding:identity:)`. Made once
    /// for all of them, as far as they are equal.
    func ofPart(decoding: Bool, identity: Bool) -> RequestSettings {
        var settings = self
        if let made = storage.ofParts.object, made.decoding == decoding, made.identity == identity {
            settings.storage = made.storage
            return settings
        }
        var values = storage.values
        values.serializer = SerializerFacts(HTTPResponseSerializer(statusesOf: values.serializer.serializer))
        values.connectionConfiguration.decodesUnaskedEncodings = decoding
        values.connectionConfiguration.asksForIdentity = identity
        (values.retryPolicy, values.totalTimeout, values.completionGroup, values.storedResponses) = (nil, nil, nil, nil)
        (values.postsNotifications, values.coalescesIdenticalRequests, values.holder.awaitedValue) = (false, false, nil)
        (values.waitsForConnectivity, values.holder.isPart) = (false, true)
        let parts = PartSettings(values, decoding: decoding, identity: identity)
        _ = storage.ofParts.set(parts)
        settings.storage = parts.storage
        return settings
    }

    /// Makes what all parts of an operation share: one transport, and one store of answered challenges.
    mutating func makeShared() {
        if storage.values.holder.transports.hasSeveral { values.holder.transports.pin() }
        guard storage.values.shouldUseCredentialStorage, storage.values.credentials == nil else { return }
        values.credentials = CredentialStore()
    }

    private func isIdentical(to other: RequestSettings) -> Bool { storage === other.storage }

    /// These settings with the holder of others.
    private func held(asBy other: RequestSettings) -> RequestSettings {
        var settings = self
        settings.values.holder = other.values.holder
        return settings
    }

    // MARK: Changing them behind a lock

    /// Changes settings behind a lock, which is not held while user code runs: the update, and the release of replaced
    /// values.
    static func update<Result>(
        _ update: (inout RequestSettings) throws -> Result, read: () -> RequestSettings,
        replace: (_ old: RequestSettings, _ new: RequestSettings) -> Bool
    ) rethrows -> Result {
        while true {
            let old = read()
            var new = old
            let result = try update(&new)
            if new.isIdentical(to: old) { return result }
            new = new.held(asBy: old)
            if replace(old, new) { return result }
        }
    }

    /// Replaces the settings. False if these were changed since they were read.
    mutating func replace(_ old: RequestSettings, by new: RequestSettings) -> Bool {
        guard isIdentical(to: old) else { return false }
        self = new
        return true
    }
}

extension RequestSettings {
    /// The settings, by their names.
    public struct Values: Sendable {
        // MARK: Handlers

        /// The queue on which the handlers run; nil, as in AFNetworking, is the main queue.
        ///
        /// On one serial queue the completion handlers of all operations run in the order in which the operations
        /// finished, a dependency's before a dependent's. On a concurrent one they are submitted in that order.
        public var completionQueue: DispatchQueue?
        /// A group that each operation enters when it is started, or enqueued in a `RequestOperationQueue` or by a manager,
        /// and leaves after its handlers have run.
        public var completionGroup: DispatchGroup?
        /// Values for your own use; the library ignores them.
        public var userInfo: [String: any Sendable] = [:]
        /// Whether `networkingOperationDidStart` and `networkingOperationDidFinish` are posted. True by default. A
        /// session's tasks post their own instead.
        public var postsNotifications = true
        /// Monitors of what happens to the operations: why they wait, what their requests do, and how they end. None by
        /// default, which costs nothing. Set them right after making an operation: once it has a monitor, changes have
        /// no effect.
        ///
        /// What they report of the requests is measured as for `URLConnectionOperation.metrics`, and operations with
        /// monitors share transfers (``coalescesIdenticalRequests``) only with others that are measured.
        public var eventMonitors: [EventMonitor] = []
        /// Whether operations collect their `metrics`: their waits, and the duration of each phase of each request.
        /// False by default, which costs nothing. Set it right after making an operation: earlier times are not in the
        /// metrics.
        ///
        /// Operations that collect metrics share transfers (``coalescesIdenticalRequests``) only with each other.
        public var collectsMetrics = false

        // MARK: Failures

        /// Whether and when a request is retried after a failure. With nil, the default, only a request of which provably
        /// nothing was sent is retried.
        public var retryPolicy: RetryPolicy?
        /// Whether an operation waits for a network instead of failing without one; false by default. The counterpart
        /// of `URLSessionConfiguration.waitsForConnectivity`.
        ///
        /// It waits if nothing of the request was sent yet, because no connection could be made, and the kernel reports
        /// that there is no route: to the host (or the proxy) where that is an address, and to the Internet where it is
        /// a name. As soon as there is one, the request is sent again, whatever its method and its ``retryPolicy``. A
        /// name is looked up meanwhile, and a way to one of its addresses is enough: it may be that of a host in a
        /// network without a way to the Internet. While it waits the operation holds no slot of a
        /// `RequestOperationQueue`, can be paused and cancelled, and ends when its ``totalTimeout`` is over; without
        /// that it may wait for ever. The `retryHandler` is called with each wait.
        ///
        /// A network that goes while a request is on its way is a matter of ``retryPolicy``. On a machine that never
        /// has a way to the Internet, a name that cannot be found is waited for, too.
        public var waitsForConnectivity = false
        /// How many seconds transfers may be without a byte. By default the request decides: 60, or the
        /// `timeoutInterval` of the request serializer.
        public var idleTimeout: TimeInterval?
        /// How many seconds an operation may take in total, including retries, the waits before them, and pauses. No
        /// limit by default, and none for zero, a negative number, infinity or NaN.
        ///
        /// The time runs from the first start of its work, or from when its queue first holds it back at the closed
        /// gate of its host, until it finishes, and goes on during pauses. `URLSession` counts its
        /// `timeoutIntervalForResource` in the same way. (``idleTimeout`` is another limit: how long a transfer may go
        /// without a byte.) When the time is over, the operation finishes with `URLError.timedOut`, at once or when its
        /// transfer has stopped. It is not cancelled, and its dependents run. Setting this after the time has begun to
        /// run has no effect.
        public var totalTimeout: TimeInterval?
        /// How an operation reacts to a failed or cancelled dependency. `.run` by default; but an operation that takes
        /// a value from a dependency, by `depend(on:prepare:)`, fails with that one's error, unless `.run` was set for
        /// it.
        public var dependencyFailurePolicy: DependencyFailurePolicy {
            get { chosenDependencyFailurePolicy ?? .run }
            set { chosenDependencyFailurePolicy = newValue }
        }
        var chosenDependencyFailurePolicy: DependencyFailurePolicy?

        // MARK: Connections

        /// Settings for the connections, such as certificates to trust, or headers to remove on a redirect to another
        /// origin.
        public var connectionConfiguration = ConnectionConfiguration()
        /// Which servers are trusted: that of `connectionConfiguration`. Operations share no connections with another
        /// policy.
        ///
        /// Where it pins the host of a URL without TLS, an operation fails with
        /// `URLError.appTransportSecurityRequiresSecureConnection` before anything is connected.
        public var securityPolicy: SecurityPolicy {
            get { connectionConfiguration.securityPolicy }
            set { connectionConfiguration.securityPolicy = newValue }
        }
        /// The minimum speed of a transfer, below which the attempt fails with `URLError.timedOut`; nil, the default,
        /// for none. That of `connectionConfiguration`.
        public var stallLimit: StallLimit? {
            get { connectionConfiguration.stallLimit }
            set { connectionConfiguration.stallLimit = newValue }
        }
        /// An operation's own limits, besides those of `connectionConfiguration`.
        var receiveRateLimit: RateLimit?
        var sendRateLimit: RateLimit?
        /// Whether a request may share one transfer with identical GETs that are in flight. False by default.
        ///
        /// Requests are identical if they have the same URL, headers, timeout, cache policy and configuration. Cancelling or
        /// pausing one does not affect the others. An operation with a `redirectHandler` or an `outputStream` does not
        /// share.
        public var coalescesIdenticalRequests = false

        // MARK: Responses

        /// Validates and parses responses, on a queue of the library's own. A plain `HTTPResponseSerializer`, which
        /// delivers the body as it is, unless set; a manager's is a `JSONResponseSerializer`. A `URLConnectionOperation`
        /// that is no `HTTPRequestOperation` parses nothing.
        ///
        /// Its status codes, content types and limits hold for awaited values too. It can be changed in place:
        /// `manager.responseSerializer.acceptableContentTypes = nil`.
        public var responseSerializer: any HTTPResponseSerialization {
            get { serializer.serializer }
            set { serializer = SerializerFacts(newValue) }
        }
        var serializer = SerializerFacts(HTTPResponseSerializer())
        /// Decodes JSON, where the serializer has no decoder of its own: the manager's. nil for a plain one.
        var decoder: JSONDecoder?
        /// The size of the largest body that is kept in memory, in bytes after decompression. 256 MiB by default; the
        /// response serializer's `limits` apply too. A larger body fails with `URLError.dataLengthExceedsMaximum` as soon
        /// as its size is known; the body of an error is cut there, and its status is the error. A body that goes to an
        /// `outputStream` is not limited.
        public var maximumBodySize = 256 << 20
        var responseStringEncoding: String.Encoding?

        // MARK: Stores

        /// The store of cookies: requests have its cookies, and those of responses go into it, also of redirects (RFC
        /// 6265bis). Each manager has one of its own, in memory, by default; an operation without a manager has none.
        ///
        /// Give several managers the same store to share it, or one with a file, to keep cookies beyond the process. A copy
        /// of a manager shares its store. Where a manager works for several users, each needs a store (or none).
        ///
        /// A request with `httpShouldHandleCookies` false neither sends nor takes cookies. One with a `Cookie` field of its
        /// own sends that alone. `mainDocumentURL` is the site for which the request is made, where cookies are for their
        /// own site only (`SameSite`); without one, each request counts as made by its server's site. What a proxy sets with
        /// a 407, or in its answer to CONNECT, is not taken.
        public var cookieStore: CookieStore? {
            get { cookies?.keeper as? CookieStore }
            set { cookies = newValue.map { CookieKeeperReference($0) } }
        }
        var cookies: CookieKeeperReference?
        /// The cache that answers requests and stores responses (RFC 9111); nil, the default, for none. Several managers may
        /// share one.
        ///
        /// `URLRequest.cachePolicy` says what a request wants of it. A response out of the cache arrives as one from the
        /// network does, with the same handlers, notifications and order; `URLConnectionOperation.cacheUse` tells them
        /// apart. It holds the bytes that the server sent, before content decoding. Responses to requests that say who
        /// sends them (by `credential`, a token, cookies of a store, a client certificate, a field that is secret) are
        /// served only to requests that say the same; with an ``identity``, only to those of that name.
        public var cache: HTTPCache? {
            get { storedResponses?.cache as? HTTPCache }
            set { storedResponses = newValue.map { ResponseCacheReference($0) } }
        }
        var storedResponses: ResponseCacheReference?

        // MARK: Who the client is

        /// The user name and password for servers that ask for them, sent only if a server asks, or has asked an earlier
        /// request for them. nil by default. A request with an `Authorization` of its own is sent with that until the server
        /// asks.
        ///
        /// An operation's go to no other server (scheme, host and port) than its request's, also not after a redirect; but
        /// to the same host where the request is redirected from http to https, at the standard ports. A manager's with a
        /// `baseURL` go only to its origin and to the `authorizationOrigins`. A proxy's are in its configuration.
        public var credential: URLCredential?
        /// Whether the `credentialStore` is used if `credential` is nil or is for another server. True by default.
        public var shouldUseCredentialStorage = true
        var credentials: CredentialStore?
        /// The name of the user on whose behalf requests are sent: that of `connectionConfiguration`. nil by default.
        /// With a name, a refreshed token keeps its cache, and connections are of that name alone; see
        /// `ConnectionConfiguration.identity`.
        ///
        /// ```swift
        /// api.cache = cache
        /// api.identity = "ada"
        /// ```
        public var identity: String? {
            get { connectionConfiguration.identity }
            set { connectionConfiguration.identity = newValue }
        }
        /// Sends a token with each request; a manager's with a `baseURL` to its origin and to the `authorizationOrigins`.
        /// nil by default.
        public var authenticator: Authenticator?

        var holder = Holder()

        var areNotificationsPosted: Bool { postsNotifications && holder.allowsNotifications }

        /// Whether the requests are measured, for metrics or monitors.
        var wantsTransactions: Bool { collectsMetrics || !eventMonitors.isEmpty }
    }

    /// What a manager or an operation keeps when its settings are replaced.
    struct Holder: Sendable {
        var transports = TransportPool([NetworkThread.shared])
        var clock: any SchedulingClock = MonotonicClock()
        /// Whether requests without a `User-Agent` get the standard one. Not a manager's: its serializer sets one,
        /// unless the user removed it.
        var addsUserAgent = true
        /// Whether notifications may be posted at all.
        var allowsNotifications = true
        /// Whether the operation is a part of another one.
        var isPart = false
        /// Whether the operation was made by the refresh of a token.
        var isOfRefresh = false
        /// Set if the awaiting task decodes the body of a plainly acceptable response.
        var awaitedValue: (any PlainJSONAcceptance)?
        /// The targets that receive the credential and the tokens; nil for all, if a manager has no base URL.
        var authorizedTargets: Set<Target>?
    }
}
