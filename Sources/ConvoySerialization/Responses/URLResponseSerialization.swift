import Foundation
import FoundationNetworking

/// Makes an object of a response and its body; AFNetworking's protocol of the same name.
///
/// A serializer is a value. It can be used from many threads at once.
public protocol URLResponseSerialization: Sendable {
    /// The object, or nil for success with nothing (204, 205, no body).
    ///
    /// Called once for a response, on a processing queue, never on the network thread.
    ///
    /// - Parameters:
    ///   - response: the response; nil or one that is not HTTP is not validated.
    ///   - data: the whole body, decompressed. Nil where there was none, as for HEAD.
    /// - Throws: an `NSError` in ``URLResponseSerializationErrorDomain`` or of the parser. When an error response has
    ///   a body that can be parsed, the object is under ``URLResponseSerializationErrorKey/responseObject``.
    func responseObject(for response: URLResponse?, data: Data?) throws -> Any?

    /// True when a response with this status needs no look at its headers, so that an engine may pass nil for the
    /// response and spare itself building one. False unless a serializer says otherwise.
    func acceptsWithoutHeaders(statusCode: Int) -> Bool
}

extension URLResponseSerialization {
    /// False: most serializers look at the content type.
    public func acceptsWithoutHeaders(statusCode: Int) -> Bool { false }
}
