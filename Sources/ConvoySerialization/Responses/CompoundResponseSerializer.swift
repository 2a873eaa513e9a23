import Foundation
import FoundationNetworking

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
