import Foundation
import FoundationNetworking

/// Parses JSON (RFC 8259) into dictionaries, arrays, strings, numbers and `NSNull`. The counterpart of
/// `AFJSONResponseSerializer`.
///
/// The body is parsed once, from its bytes. Only a body in another encoding than UTF-8 is translated first. A comma
/// before a closing bracket, which `JSONSerialization` lets pass on Linux, is an error.
///
/// `JSONSerialization` reads some numbers with great exponents on Linux with an error in their last digits. Where that
/// matters, ``DecodableResponseSerializer`` reads them exactly.
public struct JSONResponseSerializer: HTTPResponseSerialization {
    /// The content types that are accepted by default.
    public static let contentTypes: Set<String> = ["application/json", "text/json", "text/javascript"]

    /// What is acceptable, and the limits.
    public var http = HTTPResponseSerializer(contentTypes: JSONResponseSerializer.contentTypes)
    /// How to read. Without `.fragmentsAllowed` the root must be an array or an object.
    public var readingOptions: JSONSerialization.ReadingOptions
    /// Whether keys whose value is null are left out of objects, at every depth. Nulls in arrays stay, because their
    /// places count.
    public var removesKeysWithNullValues = false

    /// A serializer that accepts ``contentTypes``.
    public init(readingOptions: JSONSerialization.ReadingOptions = []) {
        self.readingOptions = readingOptions
    }

    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; `JSONSerialization`'s error (`NSCocoaErrorDomain`,
    ///   3840); a passed limit. An error of the body's is over the validation error, when both fail.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try http.responseObject(for: response, data: data) { data in
            guard let bytes = try http.json(data, response: response) else { return nil }
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
