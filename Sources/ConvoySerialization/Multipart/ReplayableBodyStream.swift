import Foundation

/// A request body that can be sent again from its start, as is necessary after a redirect (RFC 9110, section 15.4.8),
/// an authentication or a lost connection.
///
/// To be adopted by an `InputStream` in `URLRequest.httpBodyStream`.
public protocol ReplayableBodyStream {
    /// A new, unopened stream with the same bytes from the start, independent of this one.
    ///
    /// - Throws: if the bytes are no longer available: `NSURLErrorRequestBodyStreamExhausted` (-1021) in
    ///   ``URLRequestSerializationErrorDomain`` for a part from a stream that has already been read.
    func replay() throws -> InputStream
}
