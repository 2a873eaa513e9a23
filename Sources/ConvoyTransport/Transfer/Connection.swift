import Foundation
import FoundationNetworking

/// An HTTP transfer, as used by operations.
///
/// `RequestChain` implements this protocol. Operations use only the protocol, so that tests can simulate connections.
package protocol Connection: AnyObject, Sendable {
    /// The request with which the transfer began, before any redirect.
    var originalRequest: URLRequest { get }

    /// The latest request after redirects, and the number of redirects; nil without redirects, or if it is unknown.
    /// Only for the delegate's methods.
    var redirected: (request: URLRequest, followed: Int)? { get }

    /// Starts the transfer. Call it once, from any thread.
    func start()

    /// Cancels the transfer in any state. The delegate's `connectionDidCancel` is called unless a different outcome is
    /// already being reported. Can be called from any thread, any number of times, even before `start`.
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
    /// The default implementation, which returns nil.
    package var redirected: (request: URLRequest, followed: Int)? { nil }

    /// Returns true without pausing: the transfer continues, and its result is held.
    package func pause() -> Bool { true }

    /// Does nothing, because `pause()` does not stop the transfer.
    package func resume() {}

    /// Does not limit the body.
    package func limitBodyOfError() {}
}

/// The receiver of a transfer's events, in the style of `NSURLConnectionDelegate` and `NSURLConnectionDataDelegate`.
///
/// All methods are called serially on the network thread (`NetworkThread`) and must not block. A started connection
/// ends with exactly one call of `connectionDidFinish`, `didFailWith` or `connectionDidCancel`, which is the last call.
package protocol ConnectionDelegate: AnyObject, Sendable {
    /// Called once per connection, when the response head has arrived. Redirects that are followed are not reported
    /// here.
    ///
    /// - Parameters:
    ///   - connection: The transfer.
    ///   - response: The response head.
    ///   - phases: The end times of the request's completed phases; nil for a stored response, or if they are not
    ///     measured.
    func connection(_ connection: any Connection, didReceive response: ResponseHead, after phases: TransactionPhases?)

    /// Called when an interim response (1xx, RFC 9110, section 15.2) other than 100 has arrived, possibly while the
    /// request's body is still being sent. This can happen any number of times before the final response.
    func connection(_ connection: any Connection, didReceiveInterim response: ResponseHead)

    /// Called when bytes of the body have arrived, without content encoding. They are valid only during the call.
    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer)

    /// Called when bytes of the request's body have been passed to the system.
    ///
    /// - Parameters:
    ///   - connection: The transfer.
    ///   - count: The number of bytes since the last call.
    ///   - total: The number of bytes so far.
    ///   - totalExpected: The length of the body; nil if it is unknown.
    func connection(_ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?)

    /// Called when the response is a redirect. Call `decide` once, at any time and from any thread, with the request to
    /// follow, or with nil to deliver the redirect as the response. The transfer waits without a timeout.
    func connection(
        _ connection: any Connection, willFollow redirect: Redirect,
        decide: @escaping @Sendable (URLRequest?) -> Void)

    /// Called once for each redirect, when it was followed, delivered as the response, or refused with an error.
    func connection(_ connection: any Connection, didHandle redirect: RedirectEvent)

    /// Called when a request is about to be sent, possibly after waiting for a connection: for the first request and
    /// for each redirect, if ``ConnectionConfiguration/collectsMetrics`` is set. Followed by `didCollect`.
    func connection(_ connection: any Connection, willSend request: RequestHead)

    /// Called when the metrics of a finished request are available: for each redirect, and before the final call, if
    /// ``ConnectionConfiguration/collectsMetrics`` is set. Not called for a request that never reached libcurl.
    ///
    /// - Parameters:
    ///   - connection: The transfer.
    ///   - metrics: The metrics of the request.
    ///   - head: The head of the network's response, even if it was not delivered; nil if none is complete.
    func connection(_ connection: any Connection, didCollect metrics: TransactionMetrics, of head: ResponseHead?)

    /// Called when the response is complete.
    func connectionDidFinish(_ connection: any Connection)

    /// Called when the transfer has failed. The error's `userInfo` contains the URL and libcurl's message.
    func connection(_ connection: any Connection, didFailWith error: URLError)

    /// Called when the transfer was cancelled and has stopped.
    func connectionDidCancel(_ connection: any Connection)
}

extension ConnectionDelegate {
    /// Ignores interim responses.
    package func connection(_ connection: any Connection, didReceiveInterim response: ResponseHead) {}

    /// Ignores the progress of sending.
    package func connection(
        _ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?
    ) {}

    /// Ignores handled redirects.
    package func connection(_ connection: any Connection, didHandle redirect: RedirectEvent) {}

    /// Ignores sent requests.
    package func connection(_ connection: any Connection, willSend request: RequestHead) {}

    /// Ignores metrics.
    package func connection(_ connection: any Connection, didCollect metrics: TransactionMetrics, of head: ResponseHead?) {}

    /// Follows the redirect.
    package func connection(
        _ connection: any Connection, willFollow redirect: Redirect,
        decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        decide(redirect.request)
    }
}
