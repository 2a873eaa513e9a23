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

/// A serializer that is built around an ``HTTPResponseSerializer``, as AFNetworking's are subclasses of it.
///
/// The status codes, content types, encoding and limits of ``http`` can be set on the serializer itself.
public protocol HTTPResponseSerialization: URLResponseSerialization {
    /// What is acceptable, and the limits.
    var http: HTTPResponseSerializer { get set }
}

extension HTTPResponseSerialization {
    /// The status codes that are success; nil for any. 200 to 299 at first.
    public var acceptableStatusCodes: StatusCodeSet? {
        get { http.acceptableStatusCodes }
        set { http.acceptableStatusCodes = newValue }
    }

    /// The media types that are acceptable, without parameters, compared without regard to case; nil for any.
    public var acceptableContentTypes: Set<String>? {
        get { http.acceptableContentTypes }
        set { http.acceptableContentTypes = newValue }
    }

    /// The encoding of text in a response that names none. UTF-8 at first.
    public var stringEncoding: String.Encoding {
        get { http.stringEncoding }
        set { http.stringEncoding = newValue }
    }

    /// How much of a body is parsed.
    public var limits: ResponseLimits {
        get { http.limits }
        set { http.limits = newValue }
    }
}
