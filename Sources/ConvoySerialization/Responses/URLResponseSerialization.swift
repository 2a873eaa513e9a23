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

/// A serializer that wraps an ``HTTPResponseSerializer``, where AFNetworking's are subclasses of it.
///
/// The status codes, content types, encoding and limits of ``http`` can be set on the serializer itself.
public protocol HTTPResponseSerialization: URLResponseSerialization {
    /// The wrapped serializer: which responses are acceptable, and the limits.
    var http: HTTPResponseSerializer { get set }
}

extension HTTPResponseSerialization {
    /// The acceptable status codes; nil for any. 200 to 299 by default.
    public var acceptableStatusCodes: StatusCodeSet? {
        get { http.acceptableStatusCodes }
        set { http.acceptableStatusCodes = newValue }
    }

    /// The acceptable media types, without parameters and case-insensitive; nil for any.
    public var acceptableContentTypes: Set<String>? {
        get { http.acceptableContentTypes }
        set { http.acceptableContentTypes = newValue }
    }

    /// The encoding of text in a response that names no charset. UTF-8 by default.
    public var stringEncoding: String.Encoding {
        get { http.stringEncoding }
        set { http.stringEncoding = newValue }
    }

    /// Limits on the bodies that are parsed.
    public var limits: ResponseLimits {
        get { http.limits }
        set { http.limits = newValue }
    }
}

/// Tries serializers in order until one returns an object. The counterpart of `AFCompoundResponseSerializer`.
///
/// An error that contains an object (from an error response whose body could be parsed) is thrown. If no serializer
/// returns an object, the response is validated by ``http``, and the raw body is the object.
public struct CompoundResponseSerializer: HTTPResponseSerialization {
    /// Which responses are acceptable if no serializer returned an object.
    public var http = HTTPResponseSerializer()
    /// The serializers, in the order in which they are tried.
    public let responseSerializers: [any URLResponseSerialization]

    /// A serializer that tries the given ones in their order.
    public init(_ responseSerializers: [any URLResponseSerialization]) {
        self.responseSerializers = responseSerializers
    }

    /// The first object; the raw body if there is none; nil for a success without a body.
    ///
    /// - Throws: the error of the first serializer that parsed an error response's body, or as
    ///   ``HTTPResponseSerializer``.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        for serializer in responseSerializers {
            do {
                if let object = try serializer.responseObject(for: response, data: data) { return object }
            } catch  where error.serializedResponseObject != nil {
                throw error
            } catch {
                continue
            }
        }
        let object = try http.responseObject(for: response, data: data)
        return data?.isEmpty == true || http.hasNoContent(response) ? nil : object
    }
}

extension CompoundResponseSerializer: ManagersDecoderTaking {
    package func taking(_ decoder: JSONDecoder) -> Self {
        var serializer = CompoundResponseSerializer(
            responseSerializers.map { ($0 as? any ManagersDecoderTaking)?.taking(decoder) ?? $0 })
        serializer.http = http
        return serializer
    }
}
