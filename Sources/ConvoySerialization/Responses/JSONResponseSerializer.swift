import Foundation
import FoundationNetworking

/// Parses JSON (RFC 8259) into dictionaries, arrays, strings, numbers and `NSNull`. The counterpart of
/// `AFJSONResponseSerializer`.
///
/// Only a body in another encoding than UTF-8 is converted first. A comma before a closing bracket, which
/// `JSONSerialization` accepts on Linux, is an error.
///
/// On Linux `JSONSerialization` parses some numbers with large exponents with errors in their last digits.
/// ``DecodableResponseSerializer`` parses them exactly.
public struct JSONResponseSerializer: HTTPResponseSerialization {
    /// The content types that are accepted by default: those of JSON, and all that end in `+json`.
    public static let contentTypes: Set<String> = ["application/json", "text/json", "text/javascript", "*+json"]

    /// Which responses are acceptable, and the limits.
    public var http = HTTPResponseSerializer(contentTypes: JSONResponseSerializer.contentTypes)
    /// The parser's options. Without `.fragmentsAllowed` the root must be an array or an object.
    public var readingOptions: JSONSerialization.ReadingOptions
    /// Whether keys with null values are removed from objects, at every depth. Nulls in arrays stay, as positions
    /// matter.
    public var removesKeysWithNullValues = false

    /// A serializer that accepts ``contentTypes``.
    public init(readingOptions: JSONSerialization.ReadingOptions = []) {
        self.readingOptions = readingOptions
    }

    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; `JSONSerialization`'s error (`NSCocoaErrorDomain`,
    ///   3840); an error for an exceeded limit. If validation fails too, its error is the underlying one.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try http.responseObject(for: response, data: data) { data in
            guard let bytes = try http.json(data, response: response) else { return nil }
            try http.checkKeys(of: bytes, response)
            let object = try JSONSerialization.jsonObject(with: bytes, options: readingOptions)
            return removesKeysWithNullValues ? JSONResponseSerializer.withoutNulls(object) : object
        }
    }

    private static func withoutNulls(_ object: Any) -> Any {
        switch object {
        case let array as [Any]:
            return array.map(withoutNulls)
        case let dictionary as [String: Any]:
            return dictionary.compactMapValues { $0 is NSNull ? nil : withoutNulls($0) }
        default:
            return object
        }
    }
}
