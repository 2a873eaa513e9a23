import Foundation

/// A request body that can be sent again from its start, as a redirect (RFC 9110, section 15.4.8), an authentication
/// or a lost connection makes necessary.
///
/// An `InputStream` in `URLRequest.httpBodyStream` adopts it.
public protocol ReplayableBodyStream {
    /// A fresh stream, not opened, that gives the same bytes from the start. It is independent of this one.
    ///
    /// - Throws: when the bytes cannot be had again: `NSURLErrorRequestBodyStreamExhausted` (-1021) in
    ///   ``URLRequestSerializationErrorDomain`` for a part from a stream that was read already.
    func replay() throws -> InputStream
}
