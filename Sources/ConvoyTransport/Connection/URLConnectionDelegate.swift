import Foundation
import FoundationNetworking

/// An HTTP transfer, as used by operations.
///
/// `URLConnection` implements this protocol. Operations use only the protocol, so that tests can simulate connections.
package protocol Connection: AnyObject, Sendable {
    /// The original request.
    var originalRequest: URLRequest { get }

    /// Starts the transfer. Call it once, from any thread.
    func start()

    /// Cancels the transfer in any state. The delegate's `connectionDidCancel` is called unless another end is already
    /// being reported. Can be called from any thread, any number of times, even before `start`.
    func cancel()

    /// Suspends `didReceive data` after the current call. Only for the delegate's methods.
    func suspendReceiving()

    /// Resumes after `suspendReceiving`. Can be called from any thread.
    func resumeReceiving()

    /// Pauses the transfer in both directions until ``resume()``, without timeouts, if its request must not be sent
    /// twice: it is not idempotent (RFC 9110, section 9.2.2), and part of it may have been sent. Any other transfer is
    /// cancelled, as by `cancel()`, before this returns. Call it on the network thread, outside the delegate's methods.
    ///
    /// - Returns: False if the transfer has ended, or will end when it is started.
    func pause() -> Bool

    /// Resumes after `pause()`. Call it on the network thread, outside the delegate's methods.
    func resume()

    /// Limits the rest of a response whose body only explains an error: to 1 MiB before decoding, and to one second,
    /// extended up to nine times if at least 1 KiB arrives in each second. Beyond that, the transfer fails with
    /// `URLError.timedOut` and its connection is closed. Only for the delegate's `didReceive response`.
    func limitBodyOfError()
}

extension Connection {
    /// Does nothing: the transfer continues, and its result is held.
    package func pause() -> Bool { true }

    /// Does nothing.
    package func resume() {}

    /// Sets no limit.
    package func limitBodyOfError() {}
}

/// Receives the events of a transfer. In the style of `NSURLConnectionDelegate` and `NSURLConnectionDataDelegate`.
///
/// All methods are called serially on the network thread (`NetworkThread`) and must not block. A started connection
/// ends with exactly one call of `connectionDidFinish`, `didFailWith` or `connectionDidCancel`, which is the last call.
package protocol URLConnectionDelegate: AnyObject, Sendable {
    /// The response head has arrived. Called once per connection; redirects that are followed are not reported here.
    func connection(_ connection: any Connection, didReceive response: ResponseHead)

    /// An interim response (1xx, RFC 9110, section 15.2) other than 100 has arrived, possibly while the request's body
    /// is still being sent. Called any number of times before the final response.
    func connection(_ connection: any Connection, didReceiveInterim response: ResponseHead)

    /// Bytes of the body have arrived. The content encoding has been removed. They are valid only during the call.
    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer)

    /// Bytes of the request's body have been passed to the system.
    ///
    /// - Parameters:
    ///   - connection: The transfer.
    ///   - count: The number of bytes since the last call.
    ///   - total: The number of bytes so far.
    ///   - totalExpected: The length of the body; nil if it is unknown.
    func connection(_ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?)

    /// The response is a redirect. Call `decide` once, at any time and from any thread, with the request to follow, or
    /// with nil to deliver the redirect as the response. The transfer waits without a timeout.
    func connection(
        _ connection: any Connection, willFollow redirect: Redirect,
        decide: @escaping @Sendable (URLRequest?) -> Void)

    /// A redirect was followed, delivered as the response, or refused with an error. Called once for each redirect.
    func connection(_ connection: any Connection, didHandle redirect: RedirectEvent)

    /// A request is about to be sent, possibly after waiting for a connection. Called for the first request and for
    /// each redirect, if ``ConnectionConfiguration/collectsMetrics`` is set. Followed by `didCollect`.
    func connection(_ connection: any Connection, willSend request: RequestHead)

    /// The metrics of a finished request are available. Called for each redirect, and before the final call, if
    /// ``ConnectionConfiguration/collectsMetrics`` is set. Not called for a request that never reached libcurl.
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
