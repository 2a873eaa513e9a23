import Foundation
import FoundationNetworking

/// Tries serializers in order until one gives an object. The counterpart of `AFCompoundResponseSerializer`.
///
/// An object that comes with an error (an error response whose body could be parsed) counts: that error is thrown.
/// When none gives any, the response is validated by ``http`` and the raw body is the object.
public struct CompoundResponseSerializer: HTTPResponseSerialization {
    /// What is acceptable when no serializer gave an object.
    public var http = HTTPResponseSerializer()
    /// The serializers, in the order in which they are tried.
    public let responseSerializers: [any URLResponseSerialization]

    /// A serializer that tries the given ones in their order.
    public init(_ responseSerializers: [any URLResponseSerialization]) {
        self.responseSerializers = responseSerializers
    }

    /// The first object; the raw body where there is none; nil for success with nothing.
    ///
    /// - Throws: what the serializer whose object was taken throws, or as ``HTTPResponseSerializer``.
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
