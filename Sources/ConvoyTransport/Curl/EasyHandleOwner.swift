import CCurl
import ConvoySecurity
import Foundation

/// The receiver of a transfer's events, on the network thread.
protocol EasyHandleOwner: AnyObject {
    /// Whether the receiver of the response's body has suspended it.
    var isSuspended: Bool { get }
    /// Takes a line of the response head, or a trailer, with its line ending. Returns false to abort the transfer.
    func easyHandle(_ handle: EasyHandle, didReceiveHeaderLine line: UnsafeRawBufferPointer) -> Bool
    /// Takes a line of the head of a proxy's response to CONNECT, with its line ending. Returns false to abort the
    /// transfer.
    func easyHandle(_ handle: EasyHandle, didReceiveTunnelLine line: UnsafeRawBufferPointer) -> Bool
    /// Takes bytes of the body, with chunked framing removed but the content encoding in place.
    func easyHandle(_ handle: EasyHandle, didReceive bytes: UnsafeRawBufferPointer) -> EasyHandle.Reception
    /// Fills a buffer with bytes of the request's body.
    func easyHandle(_ handle: EasyHandle, fill buffer: UnsafeMutableRawBufferPointer) -> EasyHandle.Supply
    /// Rewinds the request's body, which must be sent again from its first byte. Returns false if that is impossible.
    func easyHandleMustRewind(_ handle: EasyHandle) -> Bool
    /// Called when libcurl is about to send the request again, because its connection was lost, or because a 417
    /// response rejected its `Expect` field. Returns false to fail the transfer with `CURLE_ABORTED_BY_CALLBACK`.
    func easyHandleMaySendAgain(_ handle: EasyHandle) -> Bool
    /// Returns the handshake for a TLS connection that libcurl begins, or nil to abort the transfer.
    func easyHandle(_ handle: EasyHandle, beginsHandshakeWithProxy: Bool, _ tls: TLSContext) -> TLSHandshake?
    /// Called when the handle's timer has fired.
    func easyHandleTimerDidFire(_ handle: EasyHandle)
    /// Called when the transfer has ended. The handle has been removed from libcurl, but the owner can still read it.
    func easyHandle(_ handle: EasyHandle, didFinishWith code: CURLcode)
}
