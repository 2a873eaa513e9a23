import Foundation
import FoundationNetworking

/// Makes an object from a response and its body. The counterpart of `AFURLResponseSerialization`.
///
/// A serializer is a value. It can be used from several threads at once.
public protocol URLResponseSerialization: Sendable {
    /// The object, or nil for a success without a body (204, 205, or none).
    ///
    /// Operations call it once per response, on one of the library's queues, never on the network thread.
    ///
    /// - Parameters:
    ///   - response: the response. It is not validated if it is nil or not HTTP.
    ///   - data: the whole body, decompressed; nil if there was none, as for HEAD.
    /// - Throws: an `NSError` in ``URLResponseSerializationErrorDomain`` or of the parser. If an error response has a
    ///   body that can be parsed, the error contains the object under
    ///   ``URLResponseSerializationErrorKey/responseObject``.
    func responseObject(for response: URLResponse?, data: Data?) throws -> Any?

    /// Whether the headers of a response with this status do not matter, so that nil can be passed for the response,
    /// which saves making one. False by default.
    func acceptsWithoutHeaders(statusCode: Int) -> Bool
}

extension URLResponseSerialization {
    /// False: most serializers look at the content type.
    public func acceptsWithoutHeaders(statusCode: Int) -> Bool { false }
}
