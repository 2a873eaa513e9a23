import ConvoySecurity
import ConvoySupport
import Foundation

/// The settings of a connection, apart from those of its request.
public struct ConnectionConfiguration: Sendable, Hashable {
    /// The settings that typically apply to many requests. Copies of a configuration share their storage; the other
    /// properties differ between requests.
    struct Settings: Sendable, Hashable {
        var sensitiveHeaders: Set<String> = []
        var keepsHeadersAcrossOrigins: Set<String> = []
        var sendsBodiesAcrossOrigins = false
        var maximumRedirects = 20
        var returnsRedirects = false
        var allowsRedirectToPlainText = false
        /// The names of query items whose values are secret; nil for the standard names.
        var itemNames: SecretClassifier.ItemNames?
        var maximumHTTPVersion = HTTPVersion.http2
        var keepsDotSegments = false
        var maximumExpansion: Double? = 250
        var timeoutIntervalForHead: TimeInterval?
        var timeoutIntervalForConnecting: TimeInterval?
        var refusesUnknownEncodings = false
        var tls = TLSConfiguration()
        var routing = RoutingConfiguration()
        /// The rate and stall limits; nil for none.
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

    /// A file of certificates to trust instead of the system's. Equivalent to setting `certificateAuthorities` of
    /// `securityPolicy` to a file.
    public var certificateAuthorities: URL? {
        get {
            if case .file(let file) = securityPolicy.certificateAuthorities { file } else { nil }
        }
        set { securityPolicy.certificateAuthorities = newValue.map(CertificateAuthorities.file) ?? .system }
    }

    /// The names of additional secret header fields. Like those with well-known names such as `Authorization`,
    /// `Cookie`, `X-Api-Key` and `X-Auth-Token`, they are masked in all output and removed on a redirect to another
    /// origin. Names are case-insensitive.
    public var sensitiveHeaders: Set<String> {
        get { settings.sensitiveHeaders }
        set { settings.sensitiveHeaders = newValue }
    }

    /// The header fields to keep on a redirect to another origin, even if they are secret or not known to be harmless.
    /// Empty by default. Names are case-insensitive.
    ///
    /// By default, another origin receives only fields that are meant for any server: `Accept` and related fields,
    /// `User-Agent`, `Range` and conditions, `Cache-Control`, fields that describe the body, and `Referer` without its
    /// path. Add names with care: with `Authorization` or `Cookie`, every server that a redirect points to receives the
    /// client's secret. `Host` is never kept.
    public var keepsHeadersAcrossOrigins: Set<String> {
        get { settings.keepsHeadersAcrossOrigins }
        set { settings.keepsHeadersAcrossOrigins = newValue }
    }

    /// Whether to resend the body on a redirect to another origin, if the redirect keeps the body (307 and 308, and 301
    /// and 302 except for POST). False by default: such a redirect fails with
    /// `RedirectEvent.Refusal.bodyForOtherOrigin`, unless the operation's `redirectHandler` returns a request. A
    /// redirect from http to https on the same host, with the standard ports, always resends the body.
    public var sendsBodiesAcrossOrigins: Bool {
        get { settings.sendsBodiesAcrossOrigins }
        set { settings.sendsBodiesAcrossOrigins = newValue }
    }

    /// The maximum number of redirects to follow, 20 by default. A transfer that exceeds it fails with
    /// `URLError.httpTooManyRedirects`. If the number is 0 or less, every redirect exceeds it.
    ///
    /// To receive a redirect as the response, return nil from the operation's `redirectHandler`. An endless loop of
    /// GETs is detected before the limit is reached; see `RedirectEvent.Refusal.loop`.
    public var maximumRedirects: Int {
        get { settings.maximumRedirects }
        set { settings.maximumRedirects = newValue }
    }

    /// Whether each redirect is delivered as the response, even if the rules would refuse it, for example a redirect to
    /// another scheme. False by default.
    package var returnsRedirects: Bool {
        get { settings.returnsRedirects }
        set { settings.returnsRedirects = newValue }
    }

    /// Whether to allow redirects from https to http, where anyone on the network path can read and modify the request
    /// and its response. False by default: such a redirect fails with
    /// `URLError.appTransportSecurityRequiresSecureConnection`.
    public var allowsRedirectToPlainText: Bool {
        get { settings.allowsRedirectToPlainText }
        set { settings.allowsRedirectToPlainText = newValue }
    }

    /// The query items whose values are masked in descriptions, error messages, `curlCommand` and traces. By default,
    /// the set contains the words that make a name secret: `token`, for example, also masks `reset_token`,
    /// `sessionToken` and `X-Amz-Security-Token`. Values that are clearly not secret are shown: `code=404` is shown,
    /// `code=4/0AX…` is not.
    ///
    /// To mask another item, insert its full name; case, `-` and `_` are ignored, and in `user[name]` each part is
    /// compared. Remove a word to show the values that it masks, or set an empty set to mask nothing. The URLs
    /// themselves keep their query in requests, responses, events, and under `NSURLErrorFailingURLErrorKey`.
    /// Foundation's description of an error cast to `NSError` lists its `userInfo`, and therefore also shows the query.
    public var sensitiveQueryItems: Set<String> {
        get { settings.itemNames?.names ?? SecretName.standard }
        set { settings.itemNames = newValue == SecretName.standard ? nil : SecretClassifier.ItemNames(newValue) }
    }

    /// The highest version of HTTP to use: HTTP/2 by default, which is offered over TLS only (RFC 9113, section 3.2).
    ///
    /// A request with HTTP/1.0 has a connection of its own, which is closed after the response. It is sent without
    /// `Expect`, and fails with `URLError.badURL` if its body is a stream without a `Content-Length`.
    public var maximumHTTPVersion: HTTPVersion {
        get { settings.maximumHTTPVersion }
        set { settings.maximumHTTPVersion = newValue }
    }

    /// Whether ``maximumHTTPVersion`` is HTTP/2. False stands for HTTP/1.1, unless the version is lower already.
    public var usesHTTP2: Bool {
        get { maximumHTTPVersion == .http2 }
        set { maximumHTTPVersion = newValue ? .http2 : min(maximumHTTPVersion, .http1_1) }
    }

    /// Whether dot segments in the path of a request are sent as written instead of being resolved (RFC 3986, section
    /// 5.2.4). False by default. Those in the `Location` of a redirect are always resolved.
    package var keepsDotSegments: Bool {
        get { settings.keepsDotSegments }
        set { settings.keepsDotSegments = newValue }
    }

    /// The maximum ratio of a decoded body's size to its encoded size, applied to decoded bodies larger than 4 MiB; nil
    /// for no limit. A body that exceeds it, presumably a decompression bomb, fails with
    /// `URLError.dataLengthExceedsMaximum`.
    public var maximumExpansion: Double? {
        get { settings.maximumExpansion }
        set { settings.maximumExpansion = newValue }
    }

    /// The maximum time, in seconds, from sending the request until the response head is complete, including interim
    /// responses; nil, the default, for no limit.
    ///
    /// The request's `timeoutInterval` limits the time without any bytes. For that timeout, only the first and the last
    /// line of a head count, so that even a server that sends a line now and then times out. If the time for the head
    /// is limited, every line counts.
    public var timeoutIntervalForHead: TimeInterval? {
        get { settings.timeoutIntervalForHead }
        set { settings.timeoutIntervalForHead = newValue }
    }

    /// The maximum time, in seconds, for establishing a connection: DNS lookup, TCP, proxies and TLS; nil, the default,
    /// for no limit other than the request's `timeoutInterval`. Exceeding it fails with `URLError.timedOut`.
    public var timeoutIntervalForConnecting: TimeInterval? {
        get { settings.timeoutIntervalForConnecting }
        set { settings.timeoutIntervalForConnecting = newValue }
    }

    /// Whether a body with a content coding other than gzip, deflate, br and zstd fails with
    /// `URLError.cannotDecodeContentData`. If false, the default, such a body is delivered undecoded, as in
    /// AFNetworking.
    public var refusesUnknownEncodings: Bool {
        get { settings.refusesUnknownEncodings }
        set { settings.refusesUnknownEncodings = newValue }
    }

    /// The settings of TLS.
    package var tls: TLSConfiguration {
        get { settings.tls }
        set { settings.tls = newValue }
    }

    /// The settings of proxies and network routing.
    package var routing: RoutingConfiguration {
        get { settings.routing }
        set { settings.routing = newValue }
    }

    /// The trace that receives the events of the connection. If nil, the default, tracing has no cost.
    public var trace: ConnectionTrace? {
        get { settings.trace }
        set { settings.trace = newValue }
    }

    /// Whether the delegate receives the metrics of each request. If false, the default, metrics have no cost.
    /// Operations use their own `collectsMetrics` instead.
    public var collectsMetrics = false

    /// The classifier that determines which values are secret.
    package var secrets: SecretClassifier { SecretClassifier(fields: sensitiveHeaders, items: settings.itemNames) }

    /// The name of the user or tenant on whose behalf requests are sent; nil, the default, for none.
    ///
    /// If a name is set, the cache stores responses under the name instead of under credentials, tokens, cookies and
    /// other secret fields. Cached responses thus remain usable after a token is renewed and, if the cache is
    /// persistent, in later runs. The security policy, the client certificate and the network route still distinguish
    /// cached responses. Responses with status 401 or 403 are not stored, because the next token may be accepted.
    /// Connections serve only requests with the same name.
    ///
    /// If no name is set, cached responses are separated by the secrets in their requests. An empty string counts as no
    /// name. Names are compared by their bytes. Never use the same name for two users: each would receive the other's
    /// responses.
    public var identity: String? {
        get { routing.settings.identity?.text }
        set { routing.settings.identity = newValue.flatMap { $0.isEmpty ? nil : ExactString($0) } }
    }

    /// The authorizer that answers challenges of servers and proxies; nil for none.
    package var authorizer: AuthorizerReference?
    /// Whether to answer proxy challenges, so that credentials need not be sent before a challenge.
    package var answersChallenges = false

    /// The cookie store; nil for none.
    package var cookies: CookieKeeperReference?
    /// The response cache; nil for none.
    package var cache: ResponseCacheReference?

    /// The redirects of an earlier transfer that led to this request; nil for none.
    package var continuation: RedirectContinuation?

    /// Whether to add the standard `User-Agent` to requests without one.
    package var addsUserAgent = false

    /// Whether to request the body without an encoding, unless the request sets `Accept-Encoding`.
    package var asksForIdentity = false
    /// Whether to decode an encoded body even if the request sets `Accept-Encoding` or requests no encoding.
    package var decodesUnaskedEncodings = false

    /// The maximum number of bytes that libcurl receives in one read. libcurl allocates a buffer of this size per
    /// transfer: a small buffer is cheap, a larger one speeds up large files.
    package var receiveBufferSize = 32 << 10

    /// Whether cancelling a transfer during its body also closes its connection, unless other transfers use it. This
    /// setting is intended for bodies of unknown remaining length.
    package var closesWhenStopped = false

    /// Creates a configuration with defaults for all other settings.
    ///
    /// - Parameters:
    ///   - certificateAuthorities: A file in PEM or DER format; nil for the system's certificates.
    ///   - sensitiveHeaders: The names of secret fields, in addition to well-known ones.
    ///   - usesHTTP2: Whether to offer HTTP/2 over TLS.
    public init(certificateAuthorities: URL? = nil, sensitiveHeaders: Set<String> = [], usesHTTP2: Bool = true) {
        if !sensitiveHeaders.isEmpty { self.sensitiveHeaders = sensitiveHeaders }
        if !usesHTTP2 { self.usesHTTP2 = usesHTTP2 }
        if let certificateAuthorities { securityPolicy.certificateAuthorities = .file(certificateAuthorities) }
    }
}

/// TLS settings. Requests share a connection only if all of their TLS settings are equal.
extension ConnectionConfiguration {
    /// The policy that decides which servers are trusted. It is evaluated during the handshake, before any part of the
    /// request is sent. If a server is not trusted, the request fails with a code listed at
    /// `URLError.serverTrustFailure`. A URL without TLS whose host is pinned fails with
    /// `URLError.appTransportSecurityRequiresSecureConnection` before connecting.
    public var securityPolicy: SecurityPolicy {
        get { tls.settings.policy }
        set { tls.settings.policy = newValue }
    }

    /// The policy that decides which proxies are trusted, for TLS connections to the proxy itself.
    public var proxySecurityPolicy: SecurityPolicy {
        get { tls.settings.proxyPolicy }
        set { tls.settings.proxyPolicy = newValue }
    }

    /// The client certificate for servers that request one; nil for none. It is not presented to proxies or, after a
    /// redirect, to servers of another origin.
    public var clientIdentity: ClientIdentity? {
        get { tls.settings.identity }
        set { tls.settings.identity = newValue }
    }

    /// The minimum TLS version, 1.2 by default.
    public var minimumTLSVersion: TLSVersion {
        get { tls.settings.minimumVersion }
        set { tls.settings.minimumVersion = newValue }
    }

    /// The maximum TLS version; nil, the default, for the highest that OpenSSL supports.
    public var maximumTLSVersion: TLSVersion? {
        get { tls.settings.maximumVersion }
        set { tls.settings.maximumVersion = newValue }
    }

    /// The cipher suites to offer, by their OpenSSL names; empty, the default, for OpenSSL's own choice. Names of TLS
    /// 1.3 suites begin with "TLS_". A TLS version for which no suite is listed is not offered.
    public var cipherSuites: [String] {
        get { tls.settings.cipherSuites }
        set { tls.settings.cipherSuites = newValue }
    }
}

/// Rate limits and the stall limit.
extension ConnectionConfiguration {
    /// The limits on the rate at which response bodies are received; none by default. All of them apply, in addition to
    /// `RateLimit.shared`.
    ///
    /// Two configurations are equal only if they have the same limit objects.
    public var receiveRateLimits: [RateLimit] {
        get { settings.limits?.receiving ?? [] }
        set { setLimits { $0.receiving = newValue } }
    }

    /// The limits on the rate at which request bodies are sent; none by default. All of them apply, in addition to
    /// `RateLimit.sharedForSending`.
    public var sendRateLimits: [RateLimit] {
        get { settings.limits?.sending ?? [] }
        set { setLimits { $0.sending = newValue } }
    }

    private mutating func setLimits(_ change: (inout TransferLimits) -> Void) {
        var limits = settings.limits ?? TransferLimits()
        change(&limits)
        settings.limits = limits == TransferLimits() ? nil : limits
    }

    /// The minimum speed of a transfer, below which it fails with `URLError.timedOut`; nil, the default, for none.
    public var stallLimit: StallLimit? {
        get { settings.limits?.stall }
        set { setLimits { $0.stall = newValue } }
    }
}

extension ConnectionConfiguration: CustomStringConvertible {
    /// The settings in one line, without secrets. The client identity is shown only as being present or not.
    public var description: String {
        var parts = ["maximumHTTPVersion: \(maximumHTTPVersion)", "maximumRedirects: \(maximumRedirects)"]
        if keepsDotSegments { parts.append("keepsDotSegments") }
        if returnsRedirects { parts.append("returnsRedirects") }
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

    /// Returns the rates as a string, in bytes per second.
    private static func rates(_ limits: [RateLimit]) -> String {
        "[" + limits.map { $0.bytesPerSecond.map(String.init) ?? "none" }.joined(separator: ", ") + "]"
    }
}

extension ConnectionConfiguration: OpaqueReflectable {}

/// The state of the earlier redirects that led to the first request of a transfer.
package struct RedirectContinuation: Sendable, Hashable {
    /// The URL of the first request, whose origin may differ from that of this transfer.
    package let first: URL
    /// The number of redirects already followed.
    package let followed: Int

    package init(first: URL, followed: Int) {
        self.first = first
        self.followed = followed
    }
}
