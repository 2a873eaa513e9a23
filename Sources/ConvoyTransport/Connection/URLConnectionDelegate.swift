import Foundation
import FoundationNetworking

/// One HTTP transfer, as the operations see it.
///
/// `URLConnection` implements it. The operations use only this protocol, so that tests can simulate connections.
package protocol Connection: AnyObject, Sendable {
    /// The original request.
    var originalRequest: URLRequest { get }

    /// Starts the transfer. Call it once, from any thread.
    func start()

    /// Ends the transfer in any state. The delegate's `connectionDidCancel` is called unless another end is already
    /// being reported. Can be called from any thread, any number of times, even before `start`.
    func cancel()

    /// Holds back `didReceive data` after the current call. Only for the delegate's methods.
    func suspendReceiving()

    /// Continues after `suspendReceiving`. Can be called from any thread.
    func resumeReceiving()

    /// Holds the transfer in both directions until ``resume()``, without time limits, if its request must not be sent
    /// twice: it is not idempotent (RFC 9110, section 9.2.2), and some of it may have been sent. Any other transfer ends
    /// as after `cancel()`, before this returns. Only on the network thread, and not in a method of the delegate.
    ///
    /// - Returns: false if the transfer has ended, or will end when it is started.
    func pause() -> Bool

    /// Continues after `pause()`. Only on the network thread, and not in a method of the delegate.
    func resume()

    /// Limits the rest of the response whose head has arrived, for a body that only explains an error: to 1 MiB as
    /// sent, and to a second, which is extended up to nine times if 1 KiB has arrived in each. Beyond that the transfer
    /// fails with `URLError.timedOut`, and its connection is closed. Only for the delegate's `didReceive response`.
    func limitBodyOfError()
}

extension Connection {
    /// Does nothing: the transfer continues, and its outcome waits.
    package func pause() -> Bool { true }

    /// Does nothing.
    package func resume() {}

    /// Sets no limit.
    package func limitBodyOfError() {}
}

/// Receives the events of a transfer. In the style of `NSURLConnectionDelegate` and `NSURLConnectionDataDelegate`.
///
/// All methods are called on the network thread (`NetworkThread`), one at a time, and must not block. A started
/// connection ends with exactly one call of `connectionDidFinish`, `didFailWith` or `connectionDidCancel`, which is its
/// last.
package protocol URLConnectionDelegate: AnyObject, Sendable {
    /// The head of the response has arrived. Called once per connection: redirects that are followed are not reported
    /// here.
    func connection(_ connection: any Connection, didReceive response: ResponseHead)

    /// An interim response (1xx, RFC 9110, section 15.2) other than 100 has arrived; perhaps while the request's body is
    /// still being sent. Called before the final response, and any number of times.
    func connection(_ connection: any Connection, didReceiveInterim response: ResponseHead)

    /// Bytes of the body have arrived, with the content encoding removed. They are valid only during the call.
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

    /// A redirect was followed, kept as the response, or refused, which is an error. Called once for each redirect.
    func connection(_ connection: any Connection, didHandle redirect: RedirectEvent)

    /// A request is about to be sent, perhaps after waiting for a connection; called for the first one and for each
    /// redirect. Called if ``ConnectionConfiguration/collectsMetrics`` is set, and followed by `didCollect`.
    func connection(_ connection: any Connection, willSend request: RequestHead)

    /// The metrics of a request that has ended. Called for each redirect, and before the last call, if
    /// ``ConnectionConfiguration/collectsMetrics`` is set; not for a request that never reached libcurl.
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
    package func connection(_ connection: any Connection, didReceiveInterim response: ResponseHead) {}

    /// Does nothing.
    package func connection(
        _ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?
    ) {}

    /// Does nothing.
    package func connection(_ connection: any Connection, didHandle redirect: RedirectEvent) {}

    /// Does nothing.
    package func connection(_ connection: any Connection, willSend request: RequestHead) {}

    /// Does nothing.
    package func connection(_ connection: any Connection, didCollect metrics: TransactionMetrics) {}

    /// Follows the redirect.
    package func connection(
        _ connection: any Connection, willFollow redirect: Redirect,
        decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        decide(redirect.request)
    }
}
