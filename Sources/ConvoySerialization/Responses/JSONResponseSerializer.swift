import ConvoySupport
import Foundation
import FoundationNetworking

/// A serializer that parses JSON (RFC 8259) into dictionaries, arrays, strings, numbers and `NSNull`. The counterpart
/// of `AFJSONResponseSerializer`.
///
/// A body is decoded as UTF-8, or as UTF-16 or UTF-32 if its first bytes indicate that encoding, regardless of the
/// charset in the response (RFC 8259, section 11). The charset is used only if the body is not valid UTF-8. A comma
/// before a closing bracket, which `JSONSerialization` accepts on Linux, is an error. If a key is repeated, the first
/// value is used, whereas `JSONSerialization` uses the last.
///
/// On Linux, `JSONSerialization` parses the last digits of some numbers with large exponents incorrectly.
/// ``DecodableResponseSerializer`` parses them exactly.
public struct JSONResponseSerializer: HTTPResponseSerialization {
    /// The content types accepted by default: the JSON types, and all types that end in `+json`.
    public static let contentTypes: Set<String> = ["application/json", "text/json", "text/javascript", "*+json"]

    /// The acceptable responses, and the limits.
    public var http = HTTPResponseSerializer(contentTypes: JSONResponseSerializer.contentTypes)
    /// The parser's options. Without `.fragmentsAllowed`, the root must be an array or an object.
    public var readingOptions: JSONSerialization.ReadingOptions
    /// Whether keys with null values are removed from objects at all levels. Nulls in arrays are kept, because
    /// positions matter.
    public var removesKeysWithNullValues = false

    /// Creates a serializer that accepts ``contentTypes``.
    public init(readingOptions: JSONSerialization.ReadingOptions = []) {
        self.readingOptions = readingOptions
    }

    /// Returns the root object; nil for a success without a body.
    ///
    /// - Throws: The errors of ``HTTPResponseSerializer/validate(_:data:)``; `JSONSerialization`'s error
    ///   (`NSCocoaErrorDomain`, 3840); an error if a limit is exceeded. If validation fails as well, its error is the
    ///   underlying error.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try http.responseObject(for: response, data: data) { data in
            guard let bytes = try http.json(data, response: response) else { return nil }
            try http.checkKeys(of: bytes, response)
            let object = try JSONFoundationObject.parse(bytes, options: readingOptions)
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

/// A serializer that parses any JSON into a lossless ``JSON`` tree. It is used by async calls that return a `JSON`.
public struct JSONTreeResponseSerializer: HTTPResponseSerialization {
    /// The acceptable responses, and the limits. By default, the content types are those of ``JSONResponseSerializer``.
    public var http = HTTPResponseSerializer(contentTypes: JSONResponseSerializer.contentTypes)

    /// Creates a serializer that accepts the content types of ``JSONResponseSerializer``.
    public init() {}

    /// Returns a ``JSON``; nil for a success without a body.
    ///
    /// - Throws: The errors of ``HTTPResponseSerializer/validate(_:data:)``; ``JSONSyntaxError``; an error if a limit
    ///   is exceeded.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try http.responseObject(for: response, data: data) { data in
            guard let bytes = try http.json(data, response: response) else { return nil }
            return try http.tree(of: bytes, response)
        }
    }
}

/// The checks that the JSON serializers perform before parsing.
extension HTTPResponseSerializer {
    /// Returns the bytes to parse, in UTF-8 and within the limits; nil for a body of a single space, which Rails sends
    /// for `head :ok`.
    func json(_ data: Data, response: URLResponse?) throws -> Data? {
        try checkedJSON(try jsonText(data, response: response), response: response)
    }

    /// Returns the bytes if they are within the limits; nil for a single space.
    func checkedJSON(_ bytes: Data, response: URLResponse?) throws -> Data? {
        if HTTPResponseSerializer.isOneSpace(bytes) { return nil }
        switch JSONScanner.scan(bytes, maximumDepth: limits.maximumNestingDepth) {
        case .valid: return bytes
        case .tooDeep: throw limits.nestingError(response)
        case .trailingComma(let offset):
            throw NSError(
                domain: NSCocoaErrorDomain, code: CocoaError.propertyListReadCorrupt.rawValue,
                userInfo: [NSDebugDescriptionErrorKey: "Trailing comma before character \(offset)."])
        }
    }

    /// Parses bytes that have been checked.
    func tree(of bytes: Data, _ response: URLResponse?) throws(JSONSyntaxError) -> JSON {
        do throws(JSONSyntaxError) {
            return try JSON(
                parsing: bytes, maximumDepth: limits.maximumNestingDepth,
                rejectsDuplicateKeys: limits.rejectsDuplicateKeys)
        } catch {
            throw error.naming(response?.url)
        }
    }

    /// Throws an error for a repeated key if the limits reject repeated keys. Used for parsers that cannot detect them.
    func checkKeys(of data: Data?, _ response: URLResponse?) throws {
        guard limits.rejectsDuplicateKeys, let data, !data.isEmpty, !hasNoContent(response) else { return }
        try limits.checkSize(of: data, response: response)
        if let bytes = try json(data, response: response) { _ = try tree(of: bytes, response) }
    }
}
