import Foundation
import FoundationNetworking

/// One HTTP transfer, as the operations see it.
///
/// `URLConnection` implements it. The operations use only this protocol, so that tests can simulate connections.
public protocol Connection: AnyObject, Sendable {
    /// The request as it was given.
    var originalRequest: URLRequest { get }

    /// Starts the transfer. To be called once, from any thread.
    func start()

    /// Ends the transfer in any state. The delegate's `connectionDidCancel` is called unless another end is already
    /// being reported. Can be called from any thread, any number of times, even before `start`.
    func cancel()

    /// Holds back `didReceive data` after the current call. To be called only from the delegate's methods.
    func suspendReceiving()

    /// Continues after `suspendReceiving`. Can be called from any thread.
    func resumeReceiving()

    /// Sets a limit to the rest of the response whose head has come: 1 MiB, as it is sent, and a second, which begins anew
    /// up to nine times as long as 1 KiB has come in each. Behind it the transfer fails with `URLError.timedOut`, and its
    /// connection is closed. For a body that only says more about an error. To be called only from the delegate's
    /// `didReceive response`.
    func limitBodyOfError()
}

extension Connection {
    /// Sets no limit.
    public func limitBodyOfError() {}
}

/// Receives the events of a transfer. In the style of `NSURLConnectionDelegate` and `NSURLConnectionDataDelegate`.
///
/// All methods are called on the network thread (`NetworkThread`), one at a time, and must not block. A started
/// connection ends with exactly one call of `connectionDidFinish`, `didFailWith` or `connectionDidCancel`, which is its
/// last.
public protocol URLConnectionDelegate: AnyObject, Sendable {
    /// The head of the response has come. Called once per connection: redirects that are followed are not reported
    /// here.
    func connection(_ connection: any Connection, didReceive response: ResponseHead)

    /// Bytes of the body have come, with the content encoding removed. They are valid only during the call.
    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer)

    /// Bytes of the request's body have been passed to the system.
    ///
    /// - Parameters:
    ///   - connection: the transfer.
    ///   - count: how many bytes since the last call.
    ///   - total: how many so far.
    ///   - totalExpected: how many in all; nil for a body of unknown length.
    func connection(_ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?)

    /// The response is a redirect. Call `decide` once, at any time and on any thread, with the request to follow with,
    /// or with nil to keep the redirect as the response. The transfer waits for it without a timeout.
    func connection(
        _ connection: any Connection, willFollow redirect: Redirect,
        decide: @escaping @Sendable (URLRequest?) -> Void)

    /// It is decided what becomes of a redirect: it is followed, kept as the response, or refused, which is an error.
    /// Called once for each redirect.
    func connection(_ connection: any Connection, didHandle redirect: RedirectEvent)

    /// A request is sent, or will be as soon as there is a connection: the first one, and that of each redirect. Called where
    /// ``ConnectionConfiguration/collectsMetrics`` is set, and followed by `didCollect`.
    func connection(_ connection: any Connection, willSend request: RequestHead)

    /// A request has ended, and these are its metrics. Called for each redirect, and before the last call, where
    /// ``ConnectionConfiguration/collectsMetrics`` is set; not for a request that never came as far as libcurl.
    func connection(_ connection: any Connection, didCollect metrics: TransactionMetrics)

    /// The response is complete.
    func connectionDidFinish(_ connection: any Connection)

    /// The transfer failed. The error's `userInfo` has the URL and libcurl's message.
    func connection(_ connection: any Connection, didFailWith error: URLError)

    /// The transfer was cancelled and has stopped.
    func connectionDidCancel(_ connection: any Connection)
}

extension URLConnectionDelegate {
    /// Does nothing.
    public func connection(
        _ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?
    ) {}

    /// Does nothing.
    public func connection(_ connection: any Connection, didHandle redirect: RedirectEvent) {}

    /// Does nothing.
    public func connection(_ connection: any Connection, willSend request: RequestHead) {}

    /// Does nothing.
    public func connection(_ connection: any Connection, didCollect metrics: TransactionMetrics) {}

    /// Follows the redirect.
    public func connection(
        _ connection: any Connection, willFollow redirect: Redirect,
        decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        decide(redirect.request)
    }
}
