import CCurl
import ConvoySecurity
import Foundation

/// Receives the events of a transfer. On the network thread.
protocol EasyHandleOwner: AnyObject {
    /// A line of the response's head, or a trailer, with its line end. False aborts the transfer.
    func easyHandle(_ handle: EasyHandle, didReceiveHeaderLine line: UnsafeRawBufferPointer) -> Bool
    /// A line of the head of a proxy's answer to CONNECT, with its line end. False aborts the transfer.
    func easyHandle(_ handle: EasyHandle, didReceiveTunnelLine line: UnsafeRawBufferPointer) -> Bool
    /// Bytes of the body, with chunked framing removed but the content encoding in place.
    func easyHandle(_ handle: EasyHandle, didReceive bytes: UnsafeRawBufferPointer) -> EasyHandle.Reception
    /// Fills a buffer with bytes of the request's body.
    func easyHandle(_ handle: EasyHandle, fill buffer: UnsafeMutableRawBufferPointer) -> EasyHandle.Supply
    /// Rewinds the request's body, which must be sent again from its first byte. False if that is impossible.
    func easyHandleMustRewind(_ handle: EasyHandle) -> Bool
    /// libcurl is about to send the request again: the connection on which it was sent is lost, or a 417 refused its
    /// `Expect`. False lets the transfer fail with `CURLE_ABORTED_BY_CALLBACK`.
    func easyHandleMaySendAgain(_ handle: EasyHandle) -> Bool
    /// libcurl begins a TLS handshake. nil aborts the transfer.
    func easyHandle(_ handle: EasyHandle, beginsHandshakeWithProxy: Bool, _ tls: TLSContext) -> TLSHandshake?
    /// The handle's timer has fired.
    func easyHandleTimerDidFire(_ handle: EasyHandle)
    /// The transfer has ended. The handle was removed from libcurl, but the owner can still read it.
    func easyHandle(_ handle: EasyHandle, didFinishWith code: CURLcode)
}
