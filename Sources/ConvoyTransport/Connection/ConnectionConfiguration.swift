import ConvoySecurity
import ConvoySupport
import Foundation

/// The settings of a connection that are not part of its request.
public struct ConnectionConfiguration: Sendable, Hashable {
    /// A file of certificates to trust in place of the system's: the same as
    /// `certificateAuthorities` of `securityPolicy` with a file.
    public var certificateAuthorities: URL? {
        get {
            if case .file(let file) = securityPolicy.certificateAuthorities { file } else { nil }
        }
        set { securityPolicy.certificateAuthorities = newValue.map(CertificateAuthorities.file) ?? .system }
    }

    /// Header fields that are secrets, besides those whose names tell it, such as `Authorization`, `Cookie`, `X-Api-Key` and
    /// `X-Auth-Token`: they are not written out, and are removed when a redirect leads to another origin. Names are
    /// case-insensitive.
    public var sensitiveHeaders: Set<String>

    /// Header fields that a redirect to another origin keeps, though they are secrets or not known to be harmless. Empty by
    /// default. Names are case-insensitive.
    ///
    /// Without it another origin gets only what is meant for any: `Accept` and the like, `User-Agent`, `Range` and
    /// conditions, `Cache-Control`, what describes the body, and `Referer` without its path. A name in here is a decision:
    /// with `Authorization` or `Cookie` every server that a redirect leads to gets the client's secret. `Host` is never kept.
    public var keepsHeadersAcrossOrigins: Set<String> = []

    /// Whether a body is sent again where a redirect that keeps it (307 and 308, and 301 and 302 unless for POST) leads to
    /// another origin. False by default: it is an error, see `RedirectEvent.Refusal.bodyForOtherOrigin`, unless the
    /// operation's `redirectHandler` answers with a request. From http to https on the same host, with the standard ports,
    /// it is sent in any case.
    public var sendsBodiesAcrossOrigins = false

    /// How many redirects are followed, 20 by default. One more is an error, `URLError.httpTooManyRedirects`; with 0,
    /// or less, any redirect is.
    ///
    /// To receive a redirect as the response, answer with nil in the operation's `redirectHandler`. A loop of GETs that
    /// nothing can end is found before the limit is reached: see `RedirectEvent.Refusal.loop`.
    public var maximumRedirects = 20

    /// Whether a redirect may lead from https to http, where everybody on the way can read and change the request and
    /// its response. False by default: it is an error, `URLError.appTransportSecurityRequiresSecureConnection`.
    public var allowsRedirectToPlainText = false

    /// The query items whose values are not written out: in descriptions, in the texts of errors, in `curlCommand` and in
    /// traces. By default the words that make a name that of a secret: with `token`, `reset_token`, `sessionToken` and
    /// `X-Amz-Security-Token` are hidden. A value that is no secret is shown: `code=404` is, `code=4/0AX…` is not.
    ///
    /// To add a name, insert it: it counts as a whole, without regard to case, `-` and `_`, and in `user[name]` each part
    /// counts. Remove a word to show what it hides; to hide nothing, set an empty set. The URLs themselves keep their query: those of requests, responses and events, and
    /// that of an error under `NSURLErrorFailingURLErrorKey`, so that Foundation's description of an error that was
    /// cast to `NSError`, which lists its `userInfo`, shows it too.
    public var sensitiveQueryItems: Set<String> {
        get { itemNames?.names ?? SecretName.standard }
        set { itemNames = newValue == SecretName.standard ? nil : SecretClassifier.ItemNames(newValue) }
    }

    /// Whether to offer HTTP/2 over TLS (RFC 9113, section 3.2).
    public var usesHTTP2: Bool

    /// How many times larger than its encoded form a decoded body may be, if it exceeds 4 MiB; nil for no limit. A
    /// larger one, which only a decompression bomb should be, fails with `URLError.dataLengthExceedsMaximum`.
    public var maximumExpansion: Double? = 250

    /// How many seconds may pass from the sending of the request until the head of the response is complete, including
    /// interim responses; nil, the default, for no such limit.
    ///
    /// The request's `timeoutInterval` limits the time without a byte. Only the first and the last line of a head count
    /// as bytes for it, so that a server that sends a line now and then also times out. If this limit is set, every
    /// line counts.
    public var timeoutIntervalForHead: TimeInterval?

    /// How many seconds the way to the server may take: the name, the connection, proxies and TLS, each time a connection is
    /// made; nil, the default, for no such limit beside the request's `timeoutInterval`. More is `URLError.timedOut`.
    public var timeoutIntervalForConnecting: TimeInterval?

    /// Whether a body with a content coding other than gzip, deflate, br and zstd is an error,
    /// `URLError.cannotDecodeContentData`. False, the default, delivers the bytes as they came, as AFNetworking did.
    public var refusesUnknownEncodings = false

    /// The settings of TLS; see `ConnectionConfiguration+TLS.swift`.
    package var tls = TLSConfiguration()

    /// To whom connections are made; see `ConnectionConfiguration+Routes.swift`.
    package var routing = RoutingConfiguration()

    /// How fast and how slow a transfer may be; see `ConnectionConfiguration+Rates.swift`.
    package var limits = LimitConfiguration()

    /// Hears what the connection does; nil, the default, costs nothing.
    public var trace: ConnectionTrace?

    /// Whether the delegate is told the metrics of each request. False by default, which costs nothing. For an operation, its
    /// own `collectsMetrics` counts.
    public var collectsMetrics = false

    /// Nil for the standard ones, so that copies cost nothing.
    private var itemNames: SecretClassifier.ItemNames?
    /// What is secret.
    package var secrets: SecretClassifier { SecretClassifier(fields: sensitiveHeaders, items: itemNames) }

    /// A name for the one on whose behalf requests are sent, such as that of a user or of a tenant; nil, the default, for none.
    ///
    /// With a name, a cache keeps what is stored under it: the name stands in place of credentials, tokens, cookies and other
    /// secret fields, so that a token that is exchanged for a new one keeps its cache, in a directory also that of an earlier
    /// run. The policy, the client's certificate and where connections lead still count; a 401 and a 403 are not stored, as
    /// the next token may be let in. And connections serve only requests with the same name.
    ///
    /// Without a name, what is stored is kept apart by what requests say of themselves. An empty text is no name. It is
    /// compared by its bytes. It must not be the same for two users: each would be served what the other was sent.
    public var identity: String? {
        get { routing.settings.identity?.text }
        set { routing.settings.identity = newValue.flatMap { $0.isEmpty ? nil : ExactString($0) } }
    }

    /// Says who the client is, to servers and proxies that ask for it.
    package var authorizer: AuthorizerReference?
    /// Whether somebody answers a proxy that asks, so that nothing need be sent to it before that.
    package var answersChallenges = false

    /// What keeps the cookies; nil for none.
    package var cookies: CookieKeeperReference?
    /// What stores responses; nil for none.
    package var cache: ResponseCacheReference?

    /// The redirects that led to the request in an earlier transfer; nil for none.
    package var continuation: RedirectContinuation?

    /// Whether a request that has no `User-Agent` gets the standard one.
    package var addsUserAgent = false

    /// Whether an encoded body is decoded though the request has an `Accept-Encoding` of its own.
    package var decodesUnaskedEncodings = false

    /// How many bytes libcurl receives at once. It allocates and frees them with each transfer, at little cost only
    /// where they are few; a large file comes faster through more.
    package var receiveBufferSize = 32 << 10

    /// Whether a transfer that is cancelled in its body takes its connection with it, unless others use that: for bodies of
    /// which nobody knows how long they are.
    package var closesWhenStopped = false

    /// A configuration with defaults for all other settings.
    ///
    /// - Parameters:
    ///   - certificateAuthorities: a file in PEM or DER; nil for the system's.
    ///   - sensitiveHeaders: fields that are secrets, besides those whose names tell it.
    ///   - usesHTTP2: whether HTTP/2 is offered over TLS.
    public init(certificateAuthorities: URL? = nil, sensitiveHeaders: Set<String> = [], usesHTTP2: Bool = true) {
        self.sensitiveHeaders = sensitiveHeaders
        self.usesHTTP2 = usesHTTP2
        if let certificateAuthorities { securityPolicy.certificateAuthorities = .file(certificateAuthorities) }
    }
}
