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
    /// How the elements of an array are told apart.
    public enum Arrays: Sendable, Hashable {
        /// `key[]` for each. The reader cannot tell dictionaries in an array apart.
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

    /// How truth values are written.
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

    /// How the elements of an array are told apart.
    public var arrays: Arrays
    /// How the key of a nested dictionary is joined.
    public var nesting: Nesting
    /// How truth values are written.
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
