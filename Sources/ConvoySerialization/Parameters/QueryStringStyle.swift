import ConvoySupport
import Foundation

/// How a tree of parameters is written in a query string, for which there is no standard.
///
/// | value | ``brackets`` | ``indices`` | ``noBrackets`` | ``dots`` |
/// |---|---|---|---|---|
/// | `["a": ["b": 1]]` | `a[b]=1` | `a[b]=1` | `a[b]=1` | `a.b=1` |
/// | `["a": [1, 2]]` | `a[]=1&a[]=2` | `a[0]=1&a[1]=2` | `a=1&a=2` | `a[0]=1&a[1]=2` |
/// | `["a": [["b": 1]]]` | `a[][b]=1` | `a[0][b]=1` | `a[b]=1` | `a[0].b=1` |
///
/// (Brackets are sent escaped.) In every style keys are sorted, the elements of a set repeat the plain key, null is the
/// key without `=`, and empty containers are omitted.
public struct QueryStringStyle: Sendable, Hashable {
    /// How array elements are written: `a[]=1`, `a[0]=1` or `a=1`.
    public enum Arrays: Sendable, Hashable {
        /// `key[]` for each. A receiver cannot see where one dictionary in an array ends and the next begins.
        case brackets
        /// `key[0]`, `key[1]`.
        case indices
        /// The plain `key`, for each.
        case noBrackets
    }

    /// How the key of a nested dictionary is joined.
    public enum Nesting: Sendable, Hashable {
        /// `key[sub]`.
        case brackets
        /// `key.sub`.
        case dots
    }

    /// How booleans are written.
    public enum Booleans: Sendable, Hashable {
        /// `1` and `0`.
        case numeric
        /// `true` and `false`.
        case literal
    }

    /// How dates are written, always in UTC.
    public enum Dates: Sendable, Hashable {
        /// `2013-01-01 00:00:00 +0000`, as `NSDate` describes itself and AFNetworking sends it. Whole seconds.
        case description
        /// `2013-01-01T00:00:00Z` (RFC 3339), with milliseconds if they are not 0.
        case iso8601
        /// Seconds since 1970, with a fraction if there is one.
        case secondsSince1970
    }

    /// How array elements are written: `a[]=1`, `a[0]=1` or `a=1`.
    public var arrays: Arrays
    /// How the key of a nested dictionary is joined.
    public var nesting: Nesting
    /// How booleans are written.
    public var booleans: Booleans
    /// How dates are written.
    public var dates: Dates

    /// A style. Each part is AFNetworking's by default.
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

    /// The same style with other booleans.
    public func booleans(_ booleans: Booleans) -> QueryStringStyle {
        var style = self
        style.booleans = booleans
        return style
    }

    /// The same style with other dates.
    public func dates(_ dates: Dates) -> QueryStringStyle {
        var style = self
        style.dates = dates
        return style
    }
}

/// One field of a query: an unescaped name, and a value that is not a container.
public struct QueryStringPair: Sendable, Hashable {
    /// The name with its brackets, indices or dots.
    public let field: String
    /// The value; never an array, set or dictionary.
    public let value: Parameter
}

extension QueryStringStyle {
    /// The query string of a tree: `field=value` or, for null, `field`, escaped and joined by `&`. The
    /// counterpart of `AFQueryStringFromParameters`.
    ///
    /// - Throws: as ``pairs(from:)``, and if a date cannot be written in this style.
    public func queryString(from parameters: Parameter) throws -> String {
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

    /// The fields of a tree, in the order in which they are sent. The counterpart of
    /// `AFQueryStringPairsFromDictionary`.
    ///
    /// - Throws: an error in ``URLRequestSerializationErrorDomain`` if the root is neither a dictionary nor null, as
    ///   its values would have no names, or if the tree is nested deeper than ``Parameter/maximumDepth``.
    public func pairs(from parameters: Parameter) throws -> [QueryStringPair] {
        switch parameters {
        case .null: return []
        case .dictionary(let values): return try fields(values.sorted { $0.key < $1.key })
        case .object(let object): return try fields(Parameter.sortedMembers(object))
        default:
            throw NSError.request(.invalidParameters, "The parameters of a query or form must be a dictionary.")
        }
    }

    private func fields(_ members: [(key: String, value: Parameter)]) throws -> [QueryStringPair] {
        var pairs: [QueryStringPair] = []
        pairs.reserveCapacity(members.count)
        for (key, value) in members { try append(value, named: key, depth: 1, to: &pairs) }
        return pairs
    }

    private func append(
        _ value: Parameter, named field: String, depth: Int, to pairs: inout [QueryStringPair]
    ) throws {
        guard depth <= Parameter.maximumDepth else {
            throw NSError.request(
                .parametersTooDeep, "The parameters are nested deeper than \(Parameter.maximumDepth) levels.")
        }
        switch value {
        case .dictionary(let values):
            try append(values.sorted { $0.key < $1.key }, in: field, depth: depth, to: &pairs)
        case .object(let object):
            try append(Parameter.sortedMembers(object), in: field, depth: depth, to: &pairs)
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
            for value in Parameter.sorted(values) {
                try append(value, named: field, depth: depth + 1, to: &pairs)
            }
        default:
            pairs.append(QueryStringPair(field: field, value: value))
        }
    }

    private func append(
        _ members: [(key: String, value: Parameter)], in field: String, depth: Int, to pairs: inout [QueryStringPair]
    ) throws {
        for (key, value) in members {
            let name = nesting == .brackets ? "\(field)[\(key)]" : "\(field).\(key)"
            try append(value, named: name, depth: depth + 1, to: &pairs)
        }
    }

    /// The unescaped text of a value that is not a container.
    func text(of value: Parameter) throws -> String {
        switch value {
        case .bool(let value) where booleans == .literal:
            return value ? "true" : "false"
        case .date(let date):
            let text: String? =
                switch dates {
                case .description: DateText.description(of: date)
                case .iso8601: DateText.iso8601(date)
                case .secondsSince1970:
                    date.timeIntervalSince1970.isFinite ? Parameter.text(of: date.timeIntervalSince1970) : nil
                }
            guard let text else {
                throw NSError.request(.invalidParameters, "A date lies outside the years 1 to 9999.")
            }
            return text
        default:
            return value.description
        }
    }
}
