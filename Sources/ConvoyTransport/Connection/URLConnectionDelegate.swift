import Foundation
import FoundationNetworking

/// One HTTP transfer that has been made ready to start, in the transport that made it.
///
/// `URLConnection` is the real one. The operations know no more of a connection than this, so that a simulated one
/// can stand in its place.
public protocol Connection: AnyObject, Sendable {
    /// The request as it was given.
    var originalRequest: URLRequest { get }

    /// Begins. Callable once, from any thread.
    func start()

    /// Ends the transfer, in whatever state it is. The delegate hears `connectionDidCancel` unless the end of the
    /// transfer is on its way to it already. Callable from any thread, any number of times, before `start` too.
    func cancel()

    /// Holds back `didReceive data` after the present call. To be called from the delegate's methods only.
    func suspendReceiving()

    /// Goes on after `suspendReceiving`. Callable from any thread.
    func resumeReceiving()
}

/// Hears of a transfer. In the style of `NSURLConnectionDelegate` and `NSURLConnectionDataDelegate`.
///
/// All methods are called on the network thread (`NetworkThread`), one after the other, and must not wait for
/// anything. A connection that was started ends with exactly one of `connectionDidFinish`, `didFailWith` and
/// `connectionDidCancel`, and says nothing after it.
public protocol URLConnectionDelegate: AnyObject, Sendable {
    /// The head of the response has come. Once for a connection: a redirect that is followed is not reported here.
    func connection(_ connection: any Connection, didReceive response: ResponseHead)

    /// Bytes of the body, content encoding removed. Valid during the call only.
    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer)

    /// Bytes of the request's body have gone to the system.
    ///
    /// - Parameter totalExpected: nil for a body of unknown length.
    func connection(_ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?)

    /// The response redirects. `decide` takes the request to follow with, or nil to take the redirecting response
    /// as it is; it may be called later and from any thread, once. The transfer waits for it, without a timeout.
    func connection(
        _ connection: any Connection, willFollow redirect: Redirect,
        decide: @escaping @Sendable (URLRequest?) -> Void)

    /// The response is whole.
    func connectionDidFinish(_ connection: any Connection)

    /// The transfer failed. The error's `userInfo` has the URL and libcurl's words.
    func connection(_ connection: any Connection, didFailWith error: URLError)

    /// The transfer was cancelled and has stopped.
    func connectionDidCancel(_ connection: any Connection)
}

extension URLConnectionDelegate {
    public func connection(
        _ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?
    ) {}

    public func connection(
        _ connection: any Connection, willFollow redirect: Redirect,
        decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        decide(redirect.request)
    }
}

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

    /// A body from a stream is held up for so many seconds after each packet of so many bytes.
    package struct Throttle: Sendable, Hashable {
        package var packetSize: Int
        package var delay: TimeInterval
        package init(packetSize: Int, delay: TimeInterval) {
            self.packetSize = packetSize
            self.delay = delay
        }
    }
    package var uploadThrottle: Throttle?

    /// How many bytes libcurl receives at once. It allocates and frees them with each transfer, at little cost only
    /// where they are few; a large file comes faster through more.
    package var receiveBufferSize = 32 << 10

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
