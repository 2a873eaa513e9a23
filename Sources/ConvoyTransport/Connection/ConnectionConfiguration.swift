import ConvoySecurity
import ConvoySupport
import Foundation

/// The settings of a connection that are not part of its request.
public struct ConnectionConfiguration: Sendable, Hashable {
    /// The settings that a program shares between many requests; copies of a configuration share the storage. The
    /// properties beside it differ between requests.
    struct Settings: Sendable, Hashable {
        var sensitiveHeaders: Set<String> = []
        var keepsHeadersAcrossOrigins: Set<String> = []
        var sendsBodiesAcrossOrigins = false
        var maximumRedirects = 20
        var allowsRedirectToPlainText = false
        /// nil for the standard ones.
        var itemNames: SecretClassifier.ItemNames?
        var usesHTTP2 = true
        var maximumExpansion: Double? = 250
        var timeoutIntervalForHead: TimeInterval?
        var timeoutIntervalForConnecting: TimeInterval?
        var refusesUnknownEncodings = false
        var tls = TLSConfiguration()
        var routing = RoutingConfiguration()
        /// How fast and how slow a transfer may be; nil without limits.
        var limits: TransferLimits?
        var trace: ConnectionTrace?
    }

    private final class Storage: Sendable, Hashable {
        let settings: Settings
        init(_ settings: Settings) { self.settings = settings }

        static func == (one: Storage, other: Storage) -> Bool { one === other || one.settings == other.settings }

        func hash(into hasher: inout Hasher) { hasher.combine(settings) }
    }

    private var storage = Self.standard
    private static let standard = Storage(Settings())

    var settings: Settings {
        get { storage.settings }
        set { storage = Storage(newValue) }
    }

    /// A file of certificates to trust in place of the system's: the same as
    /// `certificateAuthorities` of `securityPolicy` with a file.
    public var certificateAuthorities: URL? {
        get {
            if case .file(let file) = securityPolicy.certificateAuthorities { file } else { nil }
        }
        set { securityPolicy.certificateAuthorities = newValue.map(CertificateAuthorities.file) ?? .system }
    }

    /// Header fields that are secrets, besides those with telling names such as `Authorization`, `Cookie`, `X-Api-Key`
    /// and `X-Auth-Token`: they are masked in all output, and removed when a redirect leads to another origin. Names
    /// are case-insensitive.
    public var sensitiveHeaders: Set<String> {
        get { settings.sensitiveHeaders }
        set { settings.sensitiveHeaders = newValue }
    }

    /// Header fields that a redirect to another origin keeps, though they are secrets or not known to be harmless. Empty by
    /// default. Names are case-insensitive.
    ///
    /// Without it another origin gets only what is meant for any: `Accept` and the like, `User-Agent`, `Range` and
    /// conditions, `Cache-Control`, what describes the body, and `Referer` without its path. A name in here is a decision:
    /// with `Authorization` or `Cookie` every server that a redirect leads to gets the client's secret. `Host` is never kept.
    public var keepsHeadersAcrossOrigins: Set<String> {
        get { settings.keepsHeadersAcrossOrigins }
        set { settings.keepsHeadersAcrossOrigins = newValue }
    }

    /// Whether a body is sent again where a redirect that keeps it (307 and 308, and 301 and 302 unless for POST) leads to
    /// another origin. False by default: it is an error, see `RedirectEvent.Refusal.bodyForOtherOrigin`, unless the
    /// operation's `redirectHandler` answers with a request. From http to https on the same host, with the standard ports,
    /// it is sent in any case.
    public var sendsBodiesAcrossOrigins: Bool {
        get { settings.sendsBodiesAcrossOrigins }
        set { settings.sendsBodiesAcrossOrigins = newValue }
    }

    /// How many redirects are followed, 20 by default. One more is an error, `URLError.httpTooManyRedirects`; with 0,
    /// or less, any redirect is.
    ///
    /// To receive a redirect as the response, answer with nil in the operation's `redirectHandler`. A loop of GETs that
    /// nothing can end is found before the limit is reached: see `RedirectEvent.Refusal.loop`.
    public var maximumRedirects: Int {
        get { settings.maximumRedirects }
        set { settings.maximumRedirects = newValue }
    }

    /// Whether a redirect may lead from https to http, where anyone on the way can read and change the request and its
    /// response. False by default: it is an error, `URLError.appTransportSecurityRequiresSecureConnection`.
    public var allowsRedirectToPlainText: Bool {
        get { settings.allowsRedirectToPlainText }
        set { settings.allowsRedirectToPlainText = newValue }
    }

    /// The query items whose values are masked: in descriptions, in the texts of errors, in `curlCommand` and in
    /// traces. By default the words that make a name secret: with `token`, `reset_token`, `sessionToken` and
    /// `X-Amz-Security-Token` are hidden. A value that is no secret is shown: `code=404` is, `code=4/0AX…` is not.
    ///
    /// To add a name, insert it: it counts as a whole, without regard to case, `-` and `_`, and in `user[name]` each
    /// part counts. Remove a word to show what it hides; to hide nothing, set an empty set. The URLs themselves keep
    /// their query: those of requests, responses and events, and that of an error under `NSURLErrorFailingURLErrorKey`,
    /// so that Foundation's description of an error that was cast to `NSError`, which lists its `userInfo`, shows it
    /// too.
    public var sensitiveQueryItems: Set<String> {
        get { settings.itemNames?.names ?? SecretName.standard }
        set { settings.itemNames = newValue == SecretName.standard ? nil : SecretClassifier.ItemNames(newValue) }
    }

    /// Whether to offer HTTP/2 over TLS (RFC 9113, section 3.2).
    public var usesHTTP2: Bool {
        get { settings.usesHTTP2 }
        set { settings.usesHTTP2 = newValue }
    }

    /// How many times larger than its encoded form a decoded body may be, if it exceeds 4 MiB; nil for no limit. A
    /// larger one, which only a decompression bomb should be, fails with `URLError.dataLengthExceedsMaximum`.
    public var maximumExpansion: Double? {
        get { settings.maximumExpansion }
        set { settings.maximumExpansion = newValue }
    }

    /// How many seconds may pass from the sending of the request until the head of the response is complete, including
    /// interim responses; nil, the default, for no such limit.
    ///
    /// The request's `timeoutInterval` limits the time without a byte. Only the first and the last line of a head count
    /// as bytes for it, so that a server that sends a line now and then also times out. If this limit is set, every
    /// line counts.
    public var timeoutIntervalForHead: TimeInterval? {
        get { settings.timeoutIntervalForHead }
        set { settings.timeoutIntervalForHead = newValue }
    }

    /// How many seconds making a connection may take: name lookup, connecting, proxies and TLS; nil, the default, for
    /// no such limit beside the request's `timeoutInterval`. More is `URLError.timedOut`.
    public var timeoutIntervalForConnecting: TimeInterval? {
        get { settings.timeoutIntervalForConnecting }
        set { settings.timeoutIntervalForConnecting = newValue }
    }

    /// Whether a body with a content coding other than gzip, deflate, br and zstd is an error,
    /// `URLError.cannotDecodeContentData`. False, the default, delivers the bytes as they came, as AFNetworking did.
    public var refusesUnknownEncodings: Bool {
        get { settings.refusesUnknownEncodings }
        set { settings.refusesUnknownEncodings = newValue }
    }

    /// The settings of TLS.
    package var tls: TLSConfiguration {
        get { settings.tls }
        set { settings.tls = newValue }
    }

    /// Where connections are made to.
    package var routing: RoutingConfiguration {
        get { settings.routing }
        set { settings.routing = newValue }
    }

    /// Receives what the connection does; nil, the default, costs nothing.
    public var trace: ConnectionTrace? {
        get { settings.trace }
        set { settings.trace = newValue }
    }

    /// Whether the delegate receives the metrics of each request. False by default, which costs nothing. For an
    /// operation, its own `collectsMetrics` counts.
    public var collectsMetrics = false

    /// Decides what is secret.
    package var secrets: SecretClassifier { SecretClassifier(fields: sensitiveHeaders, items: settings.itemNames) }

    /// The name of the user or tenant on whose behalf requests are sent; nil, the default, for none.
    ///
    /// With a name, a cache keeps what is stored under it: the name stands in place of credentials, tokens, cookies and
    /// other secret fields, so that a token that is exchanged for a new one keeps its cache, in a directory also that
    /// of an earlier run. The policy, the client's certificate and where connections lead still count; a 401 and a 403
    /// are not stored, as the next token may be accepted. And connections serve only requests with the same name.
    ///
    /// Without a name, what is stored is kept apart by what requests say of themselves. An empty text is no name. It is
    /// compared by its bytes. It must not be the same for two users: each would be served what the other was sent.
    public var identity: String? {
        get { routing.settings.identity?.text }
        set { routing.settings.identity = newValue.flatMap { $0.isEmpty ? nil : ExactString($0) } }
    }

    /// Authorizes requests to the servers and proxies that ask for it.
    package var authorizer: AuthorizerReference?
    /// Whether challenges of proxies are answered, so that no credentials need be sent before one.
    package var answersChallenges = false

    /// Stores the cookies; nil for none.
    package var cookies: CookieKeeperReference?
    /// Stores responses; nil for none.
    package var cache: ResponseCacheReference?

    /// The redirects that led to the request in an earlier transfer; nil for none.
    package var continuation: RedirectContinuation?

    /// Whether a request that has no `User-Agent` gets the standard one.
    package var addsUserAgent = false

    /// Whether the body is asked for without an encoding, unless the request has an `Accept-Encoding` of its own.
    package var asksForIdentity = false
    /// Whether an encoded body is decoded though the request has an `Accept-Encoding` of its own, or asks for none.
    package var decodesUnaskedEncodings = false

    /// How many bytes libcurl receives at once. It allocates a buffer for each transfer, which is cheap only if it is
    /// small; a large file arrives faster with a larger one.
    package var receiveBufferSize = 32 << 10

    /// Whether cancelling a transfer during its body also closes its connection, unless others use it: for bodies of
    /// unknown remaining length.
    package var closesWhenStopped = false

    /// A configuration with defaults for all other settings.
    ///
    /// - Parameters:
    ///   - certificateAuthorities: a file in PEM or DER; nil for the system's.
    ///   - sensitiveHeaders: fields that are secrets, besides those with telling names.
    ///   - usesHTTP2: whether HTTP/2 is offered over TLS.
    public init(certificateAuthorities: URL? = nil, sensitiveHeaders: Set<String> = [], usesHTTP2: Bool = true) {
        if !sensitiveHeaders.isEmpty { self.sensitiveHeaders = sensitiveHeaders }
        if !usesHTTP2 { self.usesHTTP2 = usesHTTP2 }
        if let certificateAuthorities { securityPolicy.certificateAuthorities = .file(certificateAuthorities) }
    }
}

/// TLS. Two requests use the same connection only if all of these settings are equal.
extension ConnectionConfiguration {
    /// Which servers are trusted. It decides inside the handshake, before anything of the request is sent. A server that
    /// is not trusted fails with the codes that `URLError.serverTrustFailure` names; a host that is pinned and a URL
    /// without TLS fail with `URLError.appTransportSecurityRequiresSecureConnection`, before anything is connected.
    public var securityPolicy: SecurityPolicy {
        get { tls.settings.policy }
        set { tls.settings.policy = newValue }
    }

    /// Which proxies are trusted, where TLS is spoken with the proxy itself.
    public var proxySecurityPolicy: SecurityPolicy {
        get { tls.settings.proxyPolicy }
        set { tls.settings.proxyPolicy = newValue }
    }

    /// Authenticates the client to servers that ask for it; nil for none. It is presented neither to proxies nor, after
    /// a redirect, to servers of another origin.
    public var clientIdentity: ClientIdentity? {
        get { tls.settings.identity }
        set { tls.settings.identity = newValue }
    }

    /// The lowest version of TLS that is accepted, 1.2 by default.
    public var minimumTLSVersion: TLSVersion {
        get { tls.settings.minimumVersion }
        set { tls.settings.minimumVersion = newValue }
    }

    /// The highest version of TLS that is accepted; nil, the default, for the highest that OpenSSL supports.
    public var maximumTLSVersion: TLSVersion? {
        get { tls.settings.maximumVersion }
        set { tls.settings.maximumVersion = newValue }
    }

    /// The cipher suites that are offered, by OpenSSL's names; empty, the default, for its own choice. Those of TLS 1.3
    /// begin with "TLS_"; a version without any named suite is not offered.
    public var cipherSuites: [String] {
        get { tls.settings.cipherSuites }
        set { tls.settings.cipherSuites = newValue }
    }
}

/// Rate limits and the stall limit.
extension ConnectionConfiguration {
    /// The limits of how many bytes of responses' bodies come in a second; none by default. All of them hold, and
    /// `RateLimit.shared` besides.
    ///
    /// Two configurations are equal only if they have the same objects.
    public var receiveRateLimits: [RateLimit] {
        get { settings.limits?.receiving ?? [] }
        set { setLimits { $0.receiving = newValue } }
    }

    /// The limits of how many bytes of requests' bodies are sent in a second; none by default. All of them hold, and
    /// `RateLimit.sharedForSending` besides.
    public var sendRateLimits: [RateLimit] {
        get { settings.limits?.sending ?? [] }
        set { setLimits { $0.sending = newValue } }
    }

    private mutating func setLimits(_ change: (inout TransferLimits) -> Void) {
        var limits = settings.limits ?? TransferLimits()
        change(&limits)
        settings.limits = limits == TransferLimits() ? nil : limits
    }

    /// How slow a transfer may be, before it fails with `URLError.timedOut`; nil, the default, for no such limit.
    public var stallLimit: StallLimit? {
        get { settings.limits?.stall }
        set { setLimits { $0.stall = newValue } }
    }
}

extension ConnectionConfiguration: CustomStringConvertible {
    /// The settings in a line, without secrets: of the client's identity only whether there is one.
    public var description: String {
        var parts = ["usesHTTP2: \(usesHTTP2)", "maximumRedirects: \(maximumRedirects)"]
        if allowsRedirectToPlainText { parts.append("allowsRedirectToPlainText") }
        if !sensitiveHeaders.isEmpty { parts.append("sensitiveHeaders: \(sensitiveHeaders.sorted())") }
        if !keepsHeadersAcrossOrigins.isEmpty {
            parts.append("keepsHeadersAcrossOrigins: \(keepsHeadersAcrossOrigins.sorted())")
        }
        if sendsBodiesAcrossOrigins { parts.append("sendsBodiesAcrossOrigins") }
        if let timeoutIntervalForHead { parts.append("timeoutIntervalForHead: \(timeoutIntervalForHead)") }
        if let maximumExpansion { parts.append("maximumExpansion: \(maximumExpansion)") }
        if securityPolicy.allowInvalidCertificates { parts.append("allowInvalidCertificates") }
        if securityPolicy.isPinning { parts.append("pins: \(securityPolicy.effectivePinningMode)") }
        if networkServiceType != .default { parts.append("networkServiceType: \(networkServiceType)") }
        if !receiveRateLimits.isEmpty { parts.append("receiveRateLimits: \(Self.rates(receiveRateLimits))") }
        if !sendRateLimits.isEmpty { parts.append("sendRateLimits: \(Self.rates(sendRateLimits))") }
        if let stallLimit { parts.append("stallLimit: \(stallLimit.bytesPerSecond) in \(stallLimit.duration) s") }
        if clientIdentity != nil { parts.append("clientIdentity") }
        if identity != nil { parts.append("identity") }
        return "ConnectionConfiguration(\(parts.joined(separator: ", ")))"
    }

    /// In bytes per second.
    private static func rates(_ limits: [RateLimit]) -> String {
        "[" + limits.map { $0.bytesPerSecond.map(String.init) ?? "none" }.joined(separator: ", ") + "]"
    }
}

extension ConnectionConfiguration: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
