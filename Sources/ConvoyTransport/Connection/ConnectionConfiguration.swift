import Foundation

/// What a connection does beyond its request.
public struct ConnectionConfiguration: Sendable, Hashable {
    /// A file of certificates in PEM form to trust instead of the system's. Without it, the file that the
    /// environment variable `SSL_CERT_FILE` names, as with the `curl` tool, or else the system's.
    public var certificateAuthorities: URL?
    /// Header fields, beside `Authorization`, `Cookie` and `Proxy-Authorization`, that stay behind when a redirect
    /// leads to another origin. Names are compared without regard to case.
    public var sensitiveHeaders: Set<String>
    /// Whether to ask a server for HTTP/2 when TLS is used (RFC 9113, section 3.2).
    public var usesHTTP2: Bool

    /// How many times longer than its encoded form a decoded body may be, beyond its first 4 MiB; nil is no limit.
    /// More is `URLError.dataLengthExceedsMaximum`: what a decompression bomb is, and no honest text.
    public var maximumExpansion: Double? = 250

    /// How many seconds may pass, after the request has been sent, until the head of the response is whole, interim
    /// responses included; nil, the default, for no limit of its own.
    ///
    /// The request's `timeoutInterval` counts the time without a byte. Of a head, only the first and the last line
    /// count as bytes there, so that a server which sends a line now and then is given up too. With a limit here,
    /// every line counts.
    public var timeoutIntervalForHead: TimeInterval?

    /// Whether a body with a content coding other than gzip, deflate, br and zstd is an error,
    /// `URLError.cannotDecodeContentData`. False, the default, hands over the bytes as they came, as AFNetworking did.
    public var refusesUnknownEncodings = false

    package var uploadThrottle: UploadThrottle?

    /// How many bytes libcurl receives at once. It allocates and frees them with each transfer, at little cost only
    /// where they are few; a large file comes faster through more.
    package var receiveBufferSize = 32 << 10

    /// A configuration with everything else as it is by default.
    ///
    /// - Parameters:
    ///   - certificateAuthorities: a file in PEM; nil for the system's, or the one that `SSL_CERT_FILE` names.
    ///   - sensitiveHeaders: fields that stay behind on the way to another origin, beside those that always do.
    ///   - usesHTTP2: whether HTTP/2 is offered over TLS.
    public init(certificateAuthorities: URL? = nil, sensitiveHeaders: Set<String> = [], usesHTTP2: Bool = true) {
        self.certificateAuthorities = certificateAuthorities
        self.sensitiveHeaders = sensitiveHeaders
        self.usesHTTP2 = usesHTTP2
    }

    private static let environmentAuthorities: String? = {
        let path = ProcessInfo.processInfo.environment["SSL_CERT_FILE"] ?? ""
        return path.isEmpty ? nil : path
    }()

    var authoritiesPath: String? {
        certificateAuthorities?.path ?? Self.environmentAuthorities
    }
}
