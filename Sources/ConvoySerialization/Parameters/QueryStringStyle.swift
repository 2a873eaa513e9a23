import ConvoySupport
import Foundation

/// The format of parameters in a query string. Several conventions are in use.
///
/// | value | ``brackets`` | ``indices`` | ``noBrackets`` | ``dots`` |
/// |---|---|---|---|---|
/// | `["a": ["b": 1]]` | `a[b]=1` | `a[b]=1` | `a[b]=1` | `a.b=1` |
/// | `["a": [1, 2]]` | `a[]=1&a[]=2` | `a[0]=1&a[1]=2` | `a=1&a=2` | `a[0]=1&a[1]=2` |
/// | `["a": [["b": 1]]]` | `a[][b]=1` | `a[0][b]=1` | `a[b]=1` | `a[0].b=1` |
///
/// (Brackets are sent percent-encoded.) In every style, keys are sorted, the elements of a set repeat the plain key,
/// null is the key without `=`, and empty containers are omitted.
public struct QueryStringStyle: Sendable, Hashable {
    /// The way array elements are written: `a[]=1`, `a[0]=1` or `a=1`.
    public enum Arrays: Sendable, Hashable {
        /// Empty brackets for each element: `key[]`. A receiver cannot determine where one dictionary in an array ends
        /// and the next begins.
        case brackets
        /// The index of each element in brackets: `key[0]`, `key[1]`.
        case indices
        /// The plain `key` for each element.
        case noBrackets
    }

    /// The way keys of nested dictionaries are joined.
    public enum Nesting: Sendable, Hashable {
        /// Brackets around nested keys: `key[sub]`.
        case brackets
        /// Dots between keys: `key.sub`.
        case dots
    }

    /// The way booleans are written.
    public enum Booleans: Sendable, Hashable {
        /// The numbers `1` and `0`.
        case numeric
        /// The words `true` and `false`.
        case literal
    }

    /// The way dates are written, always in UTC.
    public enum Dates: Sendable, Hashable {
        /// The description of `NSDate`, in whole seconds, as in AFNetworking: `2013-01-01 00:00:00 +0000`.
        case description
        /// The format of RFC 3339, with milliseconds if they are not 0: `2013-01-01T00:00:00Z`.
        case iso8601
        /// The number of seconds since 1970, with a fraction if necessary.
        case secondsSince1970
    }

    /// The way array elements are written: `a[]=1`, `a[0]=1` or `a=1`.
    public var arrays: Arrays
    /// The way keys of nested dictionaries are joined.
    public var nesting: Nesting
    /// The way booleans are written.
    public var booleans: Booleans
    /// The way dates are written.
    public var dates: Dates

    /// Creates a style. The defaults are those of AFNetworking.
    public init(
        arrays: Arrays = .brackets, nesting: Nesting = .brackets, booleans: Booleans = .numeric,
        dates: Dates = .description
    ) {
        self.arrays = arrays
        self.nesting = nesting
        self.booleans = booleans
        self.dates = dates
    }

    /// AFNetworking's style, `AFHTTPRequestQueryStringDefaultStyle`.
    public static let brackets = QueryStringStyle()
    /// Brackets with the index of each element.
    public static let indices = QueryStringStyle(arrays: .indices)
    /// The plain key repeated for each element.
    public static let noBrackets = QueryStringStyle(arrays: .noBrackets)
    /// Dots between keys, and indices in brackets.
    public static let dots = QueryStringStyle(arrays: .indices, nesting: .dots)

    /// Returns the style with a different format for booleans.
    public func booleans(_ booleans: Booleans) -> QueryStringStyle {
        var style = self
        style.booleans = booleans
        return style
    }

    /// Returns the style with a different format for dates.
    public func dates(_ dates: Dates) -> QueryStringStyle {
        var style = self
        style.dates = dates
        return style
    }
}

/// A field of a query: an unescaped name, and a value that is not a container.
package struct QueryStringPair: Sendable, Hashable {
    /// The name, including brackets, indices or dots.
    package let field: String
    /// The value, which is never an array, a set or a dictionary.
    package let value: ParameterValue
}

extension QueryStringStyle {
    /// Returns the query string for parameters: `field=value` or, for null, `field`, escaped and joined by `&`. The
    /// counterpart of `AFQueryStringFromParameters`.
    ///
    /// - Throws: An error in ``URLRequestSerializationErrorDomain`` if the root is neither a dictionary nor null,
    ///   because its values would have no names, if the parameters are nested deeper than
    ///   ``ParameterValue/maximumDepth``, or if a date cannot be written in this style.
    public func queryString(from parameters: ParameterValue) throws -> String {
        var output: [UInt8] = []
        output.reserveCapacity(128)
        for pair in try pairs(from: parameters) {
            if !output.isEmpty { output.append(UInt8(ascii: "&")) }
            PercentEscaping.append(pair.field, to: &output)
            guard pair.value != .null else { continue }
            output.append(UInt8(ascii: "="))
            PercentEscaping.append(try text(of: pair.value), to: &output)
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// Returns the fields for parameters, in the order in which they are sent.
    ///
    /// - Throws: An error in ``URLRequestSerializationErrorDomain`` if the root is neither a dictionary nor null,
    ///   because its values would have no names, or if the parameters are nested deeper than
    ///   ``ParameterValue/maximumDepth``.
    package func pairs(from parameters: ParameterValue) throws -> [QueryStringPair] {
        switch parameters {
        case .null: return []
        case .dictionary(let values): return try fields(values.sorted { $0.key < $1.key })
        case .object(let object): return try fields(ParameterValue.sortedMembers(object))
        default:
            throw NSError.request(.invalidParameters, "The parameters of a query or form must be a dictionary.")
        }
    }

    private func fields(_ members: [(key: String, value: ParameterValue)]) throws -> [QueryStringPair] {
        var pairs: [QueryStringPair] = []
        pairs.reserveCapacity(members.count)
        for (key, value) in members { try append(value, named: key, depth: 1, to: &pairs) }
        return pairs
    }

    private func append(
        _ value: ParameterValue, named field: String, depth: Int, to pairs: inout [QueryStringPair]
    ) throws {
        guard depth <= ParameterValue.maximumDepth else {
            throw NSError.request(
                .parametersTooDeep, "The parameters are nested deeper than \(ParameterValue.maximumDepth) levels.")
        }
        switch value {
        case .dictionary(let values):
            try append(values.sorted { $0.key < $1.key }, in: field, depth: depth, to: &pairs)
        case .object(let object):
            try append(ParameterValue.sortedMembers(object), in: field, depth: depth, to: &pairs)
        case .array(let values):
            for (index, value) in values.enumerated() {
                let name =
                    switch arrays {
                    case .brackets: "\(field)[]"
                    case .indices: "\(field)[\(index)]"
                    case .noBrackets: field
                    }
                try append(value, named: name, depth: depth + 1, to: &pairs)
            }
        case .set(let values):
            for value in ParameterValue.sorted(values) {
                try append(value, named: field, depth: depth + 1, to: &pairs)
            }
        default:
            pairs.append(QueryStringPair(field: field, value: value))
        }
    }

    private func append(
        _ members: [(key: String, value: ParameterValue)], in field: String, depth: Int, to pairs: inout [QueryStringPair]
    ) throws {
        for (key, value) in members {
            let name = nesting == .brackets ? "\(field)[\(key)]" : "\(field).\(key)"
            try append(value, named: name, depth: depth + 1, to: &pairs)
        }
    }

    /// Returns the unescaped text of a value that is not a container.
    func text(of value: ParameterValue) throws -> String {
        switch value {
        case .bool(let value) where booleans == .literal:
            return value ? "true" : "false"
        case .date(let date):
            let text: String? =
                switch dates {
                case .description: DateText.description(of: date)
                case .iso8601: DateText.iso8601(date)
                case .secondsSince1970:
                    date.timeIntervalSince1970.isFinite ? ParameterValue.text(of: date.timeIntervalSince1970) : nil
                }
            guard let text else {
                throw NSError.request(.invalidParameters, "A date is outside the years 1 to 9999.")
            }
            return text
        default:
            return value.description
        }
    }
}

/// Percent-encoding of names and values in queries and forms, as in AFNetworking since 2.6.0.
public enum PercentEscaping {
    /// Appends the escaped form of a string to a buffer of ASCII characters.
    static func append(_ text: String, to output: inout [UInt8]) {
        var text = text
        text.withUTF8 { bytes in
            for byte in bytes {
                if keeps(byte) {
                    output.append(byte)
                } else {
                    output.append(UInt8(ascii: "%"))
                    output.append(ASCII.hexadecimalDigit(byte >> 4, uppercase: true))
                    output.append(ASCII.hexadecimalDigit(byte & 0xF, uppercase: true))
                }
            }
        }
    }

    /// Escapes a string for use as a name or a value in a custom query. The counterpart of
    /// `AFPercentEscapedStringFromString`.
    ///
    /// RFC 3986's unreserved characters, `/` and `?` are kept. All other bytes of the UTF-8 form become `%XX`; a space
    /// becomes `%20`.
    ///
    /// ```swift
    /// let query = "q=" + PercentEscaping.escape("a&b = c")  // q=a%26b%20%3D%20c
    /// ```
    public static func escape(_ text: String) -> String {
        var output: [UInt8] = []
        output.reserveCapacity(text.utf8.count)
        append(text, to: &output)
        return String(decoding: output, as: UTF8.self)
    }

    /// Escapes characters that are not allowed in a query (RFC 3986, section 3.4) in the result of a custom closure; a
    /// bare `#` would end the query. Existing escapes are kept.
    static func repaired(_ query: String) -> String {
        if query.utf8.allSatisfy(ByteSet.query.contains) { return query }
        return String(decoding: PercentEncoding.encoded(Array(query.utf8)[...], allowing: .query), as: UTF8.self)
    }

    private static func keeps(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            // "-", ".", "/" and the digits are adjacent in ASCII.
            UInt8(ascii: "-")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "?"):
            return true
        default:
            return false
        }
    }
}

extension URL {
    /// Returns the URL with a query appended to its existing one, before the fragment; nil if the result is not a URL.
    ///
    /// AFNetworking appends the query after the fragment, where it is lost, and adds an `&` to an empty query.
    func appendingQuery(_ query: String) -> URL? {
        let text = absoluteString
        let fragment = text.firstIndex(of: "#") ?? text.endIndex
        let head = text[..<fragment]
        let joint: String
        if !head.utf8.contains(UInt8(ascii: "?")) {
            joint = "?"
        } else {
            joint = head.hasSuffix("?") || head.hasSuffix("&") ? "" : "&"
        }
        // If Foundation has to escape any character, it escapes every "%" in the URL again.
        let safe = PercentEscaping.repaired(query)
        return URL(string: "\(head)\(joint)\(safe)\(text[fragment...])", encodingInvalidCharacters: false)
    }
}
