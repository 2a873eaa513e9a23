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
    /// Does nothing.
    public func connection(
        _ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?
    ) {}

    /// Follows.
    public func connection(
        _ connection: any Connection, willFollow redirect: Redirect,
        decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        decide(redirect.request)
    }
}
