import ConvoySupport
import Foundation
import FoundationNetworking

/// Serializes parameters as a property list. The counterpart of `AFPropertyListRequestSerializer`.
///
/// For methods that encode in the URI it makes a query, as ``HTTPRequestSerializer`` does. For others it makes a body
/// of the type `application/x-plist`, unless the request has a type; nil parameters give neither body nor type.
public struct PropertyListRequestSerializer: HTTPRequestSerialization {
    /// The wrapped serializer: headers, properties, query style and so on.
    public var http: HTTPRequestSerializer
    /// XML or binary.
    public var format: PropertyListSerialization.PropertyListFormat
    /// Passed to `PropertyListSerialization`, which ignores it.
    public var writeOptions: PropertyListSerialization.WriteOptions

    /// A serializer with the given format, around an ``HTTPRequestSerializer``.
    public init(
        format: PropertyListSerialization.PropertyListFormat = .xml,
        writeOptions: PropertyListSerialization.WriteOptions = 0, http: HTTPRequestSerializer = .init()
    ) {
        self.format = format
        self.writeOptions = writeOptions
        self.http = http
    }

    /// - Throws: an error for parameters that are not a property list (-1016): null anywhere, a whole number past
    ///   `Int64`, a ``ParameterValue/number(_:)`` with more digits than a `Double` holds, a number or date that is not
    ///   finite, text with characters that XML cannot hold, nesting beyond ``ParameterValue/maximumDepth``.
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
        case .null: throw invalid("A property list has no null.")
        case .bool(let value): return value
        case .integer(let value): return value
        case .unsignedInteger(let value):
            // The XML format would write it as a negative number.
            guard let small = Int64(exactly: value) else { throw invalid("A number is past the range of Int64.") }
            return small
        case .double(let value):
            guard value.isFinite else { throw invalid("A number is not finite.") }
            return value
        case .number(let value):
            if let small = value.integer(as: Int64.self) { return small }
            // A number that would have to be rounded is an error.
            guard let double = value.double, JSONNumber(double) == value else {
                throw invalid("A number has more digits than a property list can hold.")
            }
            return double
        case .string(let value):
            guard format != .xml || PropertyListRequestSerializer.isXML(value) else {
                throw invalid("A text has a character that XML cannot hold.")
            }
            return value
        case .data(let value): return value
        case .date(let value):
            guard DateText.description(of: value) != nil else {
                throw invalid("A date lies outside the years 1 to 9999.")
            }
            return value
        case .array(let values): return try values.map { try object(of: $0, depth: depth + 1) }
        case .set(let values): return try ParameterValue.sorted(values).map { try object(of: $0, depth: depth + 1) }
        case .dictionary(let values):
            if format == .xml, let key = values.keys.first(where: { !PropertyListRequestSerializer.isXML($0) }) {
                throw invalid("A key has a character that XML cannot hold.", subject: key)
            }
            return try values.mapValues { try object(of: $0, depth: depth + 1) }
        case .object(let members):
            let values = Dictionary(
                ParameterValue.sortedMembers(members).map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })
            return try object(of: .dictionary(values), depth: depth)
        }
    }

    /// XML 1.0, production 2: no control characters but tab and line breaks, and neither U+FFFE nor U+FFFF.
    private static func isXML(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy {
            $0.value >= 0x20 ? $0.value != 0xFFFE && $0.value != 0xFFFF : "\t\n\r".unicodeScalars.contains($0)
        }
    }

    private func invalid(_ reason: String, subject: String? = nil, underlying: (any Error)? = nil) -> NSError {
        .request(.invalidParameters, reason, subject: subject, underlying: underlying)
    }
}
