import Foundation
import FoundationNetworking

/// A serializer that is built around an ``HTTPRequestSerializer``, as AFNetworking's are subclasses of it.
///
/// Its headers, properties and query rules are those of ``http``.
public protocol HTTPRequestSerialization: URLRequestSerialization {
    /// Headers, properties, query style and the rest.
    var http: HTTPRequestSerializer { get set }
}

extension HTTPRequestSerialization {
    /// A new request with the headers and properties of ``http``.
    public func request(
        method: HTTPMethod, url: URL, parameters: Parameter?, headers: [String: String?]
    ) throws -> URLRequest {
        try newRequest(
            method: method, url: url, parameters: parameters, headers: headers,
            applyingProperties: http.applyProperties)
    }
}
