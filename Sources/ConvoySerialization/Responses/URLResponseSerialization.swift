import Foundation
import FoundationNetworking

/// A type that creates an object from a response and its body. The counterpart of `AFURLResponseSerialization`.
///
/// A serializer is a value that can be used from several threads.
public protocol URLResponseSerialization: Sendable {
    /// Returns the object; nil for a success without a body (204, 205, or an empty body).
    ///
    /// Operations call this method once per response, on one of the library's queues and never on the network thread.
    ///
    /// - Parameters:
    ///   - response: The response. It is not validated if it is nil or not an HTTP response.
    ///   - data: The complete body, decompressed; nil if the response has no body, as for HEAD.
    /// - Throws: An `NSError` in ``URLResponseSerializationErrorDomain`` or from the parser. If an error response has a
    ///   body that can be parsed, the error contains the object under
    ///   ``URLResponseSerializationErrorKey/responseObject``.
    func responseObject(for response: URLResponse?, data: Data?) throws -> Any?

    /// Returns whether the headers of a response with the given status are irrelevant. If so, nil can be passed instead
    /// of the response, which saves creating it. The default is false.
    func acceptsWithoutHeaders(statusCode: Int) -> Bool
}

extension URLResponseSerialization {
    /// Returns false, because most serializers validate the content type.
    public func acceptsWithoutHeaders(statusCode: Int) -> Bool { false }
}

/// A serializer that wraps an ``HTTPResponseSerializer``. AFNetworking uses subclasses instead.
///
/// The status codes, content types, encoding and limits of ``http`` can be set on the serializer itself.
public protocol HTTPResponseSerialization: URLResponseSerialization {
    /// The wrapped serializer, with the acceptable responses and the limits.
    var http: HTTPResponseSerializer { get set }
}

extension HTTPResponseSerialization {
    /// The acceptable status codes; nil accepts all. The default is 200 to 299.
    public var acceptableStatusCodes: StatusCodeSet? {
        get { http.acceptableStatusCodes }
        set { http.acceptableStatusCodes = newValue }
    }

    /// The acceptable media types, without parameters and case-insensitive; nil accepts all.
    public var acceptableContentTypes: Set<String>? {
        get { http.acceptableContentTypes }
        set { http.acceptableContentTypes = newValue }
    }

    /// The encoding of text in responses that do not specify a charset. The default is UTF-8.
    public var stringEncoding: String.Encoding {
        get { http.stringEncoding }
        set { http.stringEncoding = newValue }
    }

    /// The limits for parsed bodies.
    public var limits: ResponseLimits {
        get { http.limits }
        set { http.limits = newValue }
    }
}

/// A serializer that tries serializers in order until one of them returns an object. The counterpart of
/// `AFCompoundResponseSerializer`.
///
/// If a serializer throws an error that contains an object, because it has parsed the body of an error response, that
/// error is thrown. If no serializer returns an object, ``http`` validates the response, and the object is the raw
/// body.
public struct CompoundResponseSerializer: HTTPResponseSerialization {
    /// The responses that are acceptable if no serializer returns an object.
    public var http = HTTPResponseSerializer()
    /// The serializers, in the order in which they are tried.
    public let responseSerializers: [any URLResponseSerialization]

    /// Creates a serializer that tries the given serializers in order.
    public init(_ responseSerializers: [any URLResponseSerialization]) {
        self.responseSerializers = responseSerializers
    }

    /// Returns the first object, or otherwise the raw body; nil for a success without a body.
    ///
    /// - Throws: The error of the first serializer that parsed the body of an error response, or the errors of
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

extension CompoundResponseSerializer: DecoderInheriting {
    package func taking(_ decoder: JSONDecoder) -> Self {
        var serializer = CompoundResponseSerializer(
            responseSerializers.map { ($0 as? any DecoderInheriting)?.taking(decoder) ?? $0 })
        serializer.http = http
        return serializer
    }
}
