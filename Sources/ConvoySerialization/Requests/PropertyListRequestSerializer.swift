import ConvoySupport
import Foundation
import FoundationNetworking

/// A serializer that adds parameters as a property list. The counterpart of `AFPropertyListRequestSerializer`.
///
/// For methods that encode parameters in the URI, the serializer creates a query, as ``HTTPRequestSerializer`` does.
/// For all other methods, it creates a body with the content type `application/x-plist`, unless the request already has
/// one. Nil parameters result in neither a body nor a content type.
public struct PropertyListRequestSerializer: HTTPRequestSerialization {
    /// The wrapped serializer, with the headers, properties, query style and so on.
    public var http: HTTPRequestSerializer
    /// The format: XML or binary.
    public var format: PropertyListSerialization.PropertyListFormat
    /// The options for `PropertyListSerialization`, which ignores them.
    public var writeOptions: PropertyListSerialization.WriteOptions

    /// Creates a serializer with the given format that wraps an ``HTTPRequestSerializer``.
    public init(
        format: PropertyListSerialization.PropertyListFormat = .xml,
        writeOptions: PropertyListSerialization.WriteOptions = 0, http: HTTPRequestSerializer = .init()
    ) {
        self.format = format
        self.writeOptions = writeOptions
        self.http = http
    }

    /// Returns the request with the parameters as its query or as a property list in its body.
    ///
    /// - Throws: An error if the parameters are not a property list (-1016): null at any level, an integer beyond
    ///   `Int64`, a ``ParameterValue/number(_:)`` with more digits than a `Double` can represent, a number or date that
    ///   is not finite, text with characters that XML cannot represent, or nesting beyond
    ///   ``ParameterValue/maximumDepth``.
    public func request(bySerializing request: URLRequest, with parameters: ParameterValue?) throws -> URLRequest {
        try http.request(request, with: parameters, contentType: "application/x-plist") { parameters in
            let tree = try object(of: parameters, depth: 0)
            do {
                return try PropertyListSerialization.data(fromPropertyList: tree, format: format, options: writeOptions)
            } catch {
                throw invalid("The property list cannot be written.", underlying: error)
            }
        }
    }

    private func object(of value: ParameterValue, depth: Int) throws -> Any {
        guard depth <= ParameterValue.maximumDepth else {
            throw NSError.request(
                .parametersTooDeep, "The parameters are nested deeper than \(ParameterValue.maximumDepth) levels.")
        }
        switch value {
        case .null: throw invalid("A property list cannot contain null.")
        case .bool(let value): return value
        case .integer(let value): return value
        case .unsignedInteger(let value):
            // The XML format would contain a negative number instead.
            guard let small = Int64(exactly: value) else { throw invalid("A number exceeds the range of Int64.") }
            return small
        case .double(let value):
            guard value.isFinite else { throw invalid("A number is not finite.") }
            return value
        case .number(let value):
            if let small = value.integer(as: Int64.self) { return small }
            // A number that would have to be rounded is an error.
            guard let double = value.double, JSONNumber(double) == value else {
                throw invalid("A number has more digits than a property list can represent.")
            }
            return double
        case .string(let value):
            guard format != .xml || PropertyListRequestSerializer.isXML(value) else {
                throw invalid("A string contains a character that XML cannot represent.")
            }
            return value
        case .data(let value): return value
        case .date(let value):
            guard DateText.description(of: value) != nil else {
                throw invalid("A date is outside the years 1 to 9999.")
            }
            return value
        case .array(let values): return try values.map { try object(of: $0, depth: depth + 1) }
        case .set(let values): return try ParameterValue.sorted(values).map { try object(of: $0, depth: depth + 1) }
        case .dictionary(let values):
            if format == .xml, let key = values.keys.first(where: { !PropertyListRequestSerializer.isXML($0) }) {
                throw invalid("A key contains a character that XML cannot represent.", subject: key)
            }
            return try values.mapValues { try object(of: $0, depth: depth + 1) }
        case .object(let members):
            let values = Dictionary(
                ParameterValue.sortedMembers(members).map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })
            return try object(of: .dictionary(values), depth: depth)
        }
    }

    /// Returns whether all characters are allowed in XML (XML 1.0, production 2): no control characters except tabs and
    /// line breaks, and neither U+FFFE nor U+FFFF.
    private static func isXML(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy {
            $0.value >= 0x20 ? $0.value != 0xFFFE && $0.value != 0xFFFF : "\t\n\r".unicodeScalars.contains($0)
        }
    }

    private func invalid(_ reason: String, subject: String? = nil, underlying: (any Error)? = nil) -> NSError {
        .request(.invalidParameters, reason, subject: subject, underlying: underlying)
    }
}
