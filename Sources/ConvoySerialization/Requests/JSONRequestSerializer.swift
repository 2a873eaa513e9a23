import Foundation
import FoundationNetworking

/// Serializes parameters as JSON (RFC 8259). The counterpart of `AFJSONRequestSerializer`.
///
/// For methods that encode in the URI it makes a query, as ``HTTPRequestSerializer`` does. For others it makes a body
/// of the type `application/json`, unless the request has a type; nil parameters give neither body nor type.
public struct JSONRequestSerializer: HTTPRequestSerialization {
    /// The wrapped serializer: headers, properties, query style and so on.
    public var http: HTTPRequestSerializer

    /// The formatting. `.fragmentsAllowed` allows a root that is neither an array nor a dictionary.
    ///
    /// Keys are always sorted, so that equal parameters are sent as equal bytes; `/` is written as `\/`, as by
    /// `NSJSONSerialization`, unless `.withoutEscapingSlashes` is given.
    public var writingOptions: JSONSerialization.WritingOptions

    /// How dates are written; ``JSONDates/iso8601`` by default.
    public var dates = JSONDates.iso8601

    /// A serializer with the given formatting, around an ``HTTPRequestSerializer``.
    public init(writingOptions: JSONSerialization.WritingOptions = [], http: HTTPRequestSerializer = .init()) {
        self.writingOptions = writingOptions
        self.http = http
    }

    /// - Throws: an error for parameters that are not valid JSON (-1016, "The `parameters` argument is not valid
    ///   JSON."): a number that is not finite, a date that cannot be written, a root that is a scalar, nesting beyond
    ///   ``Parameter/maximumDepth``.
    public func request(bySerializing request: URLRequest, with parameters: Parameter?) throws -> URLRequest {
        try http.request(request, with: parameters, contentType: Self.contentType, makingBody: body)
    }

    static let contentType = "application/json"

    func body(of parameters: Parameter) throws -> Data {
        try JSONWriter.data(from: parameters, options: writingOptions, dates: dates)
    }
}

/// How dates are written in JSON, which has no type for them.
public enum JSONDates: Sendable, Hashable {
    /// A string in UTC, `2013-01-01T00:00:00Z` (RFC 3339), with milliseconds if they are not 0.
    case iso8601
    /// A number of seconds since 1970.
    case secondsSince1970
    /// A number of milliseconds since 1970.
    case millisecondsSince1970
}
