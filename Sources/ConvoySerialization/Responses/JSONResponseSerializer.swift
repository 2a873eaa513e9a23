import ConvoySupport
import Foundation
import FoundationNetworking

/// Parses JSON (RFC 8259) into dictionaries, arrays, strings, numbers and `NSNull`. The counterpart of
/// `AFJSONResponseSerializer`.
///
/// A body is UTF-8, or UTF-16 or UTF-32 as its first bytes reveal, whatever charset the response names (RFC 8259,
/// section 11). Only a body that is not valid UTF-8 is decoded in the charset of the response. A comma before a closing
/// bracket, which `JSONSerialization` accepts on Linux, is an error. The first value of a repeated key counts, where
/// `JSONSerialization` returns the last.
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

/// Parses JSON of any shape into a lossless ``JSON`` tree. Async calls that return a `JSON` use it.
public struct JSONTreeResponseSerializer: HTTPResponseSerialization {
    /// Which responses are acceptable, and the limits. The content types are those of ``JSONResponseSerializer`` by
    /// default.
    public var http = HTTPResponseSerializer(contentTypes: JSONResponseSerializer.contentTypes)

    /// A serializer that accepts the content types of ``JSONResponseSerializer``.
    public init() {}

    /// A ``JSON``; nil for a success without a body.
    ///
    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; ``JSONSyntaxError``; an error for an exceeded limit.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        try http.responseObject(for: response, data: data) { data in
            guard let bytes = try http.json(data, response: response) else { return nil }
            return try http.tree(of: bytes, response)
        }
    }
}

/// The checks of the JSON serializers before their parser runs.
extension HTTPResponseSerializer {
    /// The bytes to parse, in UTF-8 and within the limits; nil for a body of one space, which Rails sends for
    /// `head :ok`.
    func json(_ data: Data, response: URLResponse?) throws -> Data? {
        try checkedJSON(try jsonText(data, response: response), response: response)
    }

    /// The bytes, if they are within the limits; nil for one space.
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

    /// Throws for a repeated key if the limits reject them, for parsers that cannot detect one.
    func checkKeys(of data: Data?, _ response: URLResponse?) throws {
        guard limits.rejectsDuplicateKeys, let data, !data.isEmpty, !hasNoContent(response) else { return }
        try limits.checkSize(of: data, response: response)
        if let bytes = try json(data, response: response) { _ = try tree(of: bytes, response) }
    }
}

/// Scans JSON before it is parsed for what Foundation's parsers accept: a comma before a closing bracket, and nesting
/// beyond the limit. It takes a small part of the parser's time.
enum JSONScanner {
    enum Outcome: Hashable {
        case valid
        case tooDeep
        case trailingComma(offset: Int)
    }

    static func scan(_ data: Data, maximumDepth: Int) -> Outcome {
        data.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) in
            var depth = 0
            var afterComma = false
            var index = 0
            let count = bytes.count
            while index < count {
                switch bytes[index] {
                case UInt8(ascii: "\""):
                    afterComma = false
                    index += 1
                    while index < count, bytes[index] != UInt8(ascii: "\"") {
                        index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1
                    }
                case UInt8(ascii: "["), UInt8(ascii: "{"):
                    afterComma = false
                    depth += 1
                    if depth > maximumDepth { return .tooDeep }
                case UInt8(ascii: "]"), UInt8(ascii: "}"):
                    if afterComma { return .trailingComma(offset: index) }
                    depth -= 1
                case UInt8(ascii: ","): afterComma = true
                case 0x20, 0x09, 0x0A, 0x0D: break
                default: afterComma = false
                }
                index += 1
            }
            return .valid
        }
    }

    /// The number of members of all objects of a valid JSON text: of the colons outside of strings.
    static func memberCount(of data: Data) -> Int {
        data.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) in
            var (count, index) = (0, 0)
            while index < bytes.count {
                if bytes[index] == UInt8(ascii: ":") { count += 1 }
                if bytes[index] == UInt8(ascii: "\"") {
                    index += 1
                    while index < bytes.count, bytes[index] != UInt8(ascii: "\"") {
                        index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1
                    }
                }
                index += 1
            }
            return count
        }
    }
}
