/// A set of HTTP status codes, stored as ranges.
///
/// `[200, 404]`, `StatusCodeSet(200..<300)`, `StatusCodeSet.successful.union([304])`.
public struct StatusCodeSet: Sendable, Hashable, ExpressibleByArrayLiteral {
    private var ranges: [Range<Int>] = []

    /// The codes of a range.
    public init(_ codes: Range<Int>) { insert(codes) }
    /// The codes of a closed range.
    public init(_ codes: ClosedRange<Int>) { insert(codes) }
    /// The given codes.
    public init(_ codes: some Sequence<Int>) { for code in codes { insert(code...code) } }
    /// The given codes.
    public init(arrayLiteral elements: Int...) { self.init(elements) }

    /// 200 to 299, which AFNetworking accepts.
    public static let successful = StatusCodeSet(200..<300)
    /// 200 to 399.
    public static let successfulOrRedirected = StatusCodeSet(200..<400)

    /// Whether the set contains the code.
    public func contains(_ code: Int) -> Bool {
        for range in ranges where range.contains(code) { return true }
        return false
    }

    /// The codes of both sets.
    public func union(_ other: StatusCodeSet) -> StatusCodeSet {
        var result = self
        for range in other.ranges { result.insert(range) }
        return result
    }

    /// `Int.max` itself is left out, as no half-open range can contain it.
    private mutating func insert(_ codes: ClosedRange<Int>) {
        insert(codes.lowerBound..<(codes.upperBound == .max ? .max : codes.upperBound + 1))
    }

    /// Adds the codes of a range.
    public mutating func insert(_ codes: Range<Int>) {
        guard !codes.isEmpty else { return }
        // Ranges that touch are merged and kept in order, so that equal sets compare equal.
        var merged = codes
        var result: [Range<Int>] = []
        for range in ranges {
            if range.upperBound < merged.lowerBound || range.lowerBound > merged.upperBound {
                result.append(range)
            } else {
                merged = min(range.lowerBound, merged.lowerBound)..<max(range.upperBound, merged.upperBound)
            }
        }
        result.append(merged)
        ranges = result.sorted { $0.lowerBound < $1.lowerBound }
    }
}
