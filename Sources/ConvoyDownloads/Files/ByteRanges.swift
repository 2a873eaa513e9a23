/// A set of byte positions, stored as sorted ranges that neither overlap nor touch.
package struct ByteRanges: Sendable, Equatable {
    package private(set) var ranges: [Range<Int64>] = []

    package init() {}

    /// Creates the union of the ranges.
    package init(_ ranges: some Sequence<Range<Int64>>) {
        for range in ranges { insert(range) }
    }

    package var isEmpty: Bool { ranges.isEmpty }

    /// The number of positions.
    package var count: Int64 { ranges.reduce(0) { $0 + Int64($1.count) } }

    /// The upper bound of the last range; 0 if empty.
    package var end: Int64 { ranges.last?.upperBound ?? 0 }

    /// The number of contiguous positions from 0 on.
    package var prefix: Int64 {
        guard let first = ranges.first, first.lowerBound == 0 else { return 0 }
        return first.upperBound
    }

    package mutating func insert(_ range: Range<Int64>) {
        guard !range.isEmpty else { return }
        // Received bytes nearly always extend an existing range.
        let index = firstIndex(endingAtOrAfter: range.lowerBound)
        guard index < ranges.count, ranges[index].lowerBound <= range.upperBound else {
            return ranges.insert(range, at: index)
        }
        var last = index
        while last + 1 < ranges.count, ranges[last + 1].lowerBound <= range.upperBound { last += 1 }
        let joined =
            min(range.lowerBound, ranges[index].lowerBound)..<max(range.upperBound, ranges[last].upperBound)
        if last == index {
            ranges[index] = joined
        } else {
            ranges.replaceSubrange(index...last, with: CollectionOfOne(joined))
        }
    }

    package mutating func remove(_ range: Range<Int64>) {
        guard !range.isEmpty else { return }
        var rest: [Range<Int64>] = []
        rest.reserveCapacity(ranges.count + 1)
        for old in ranges {
            if old.lowerBound < range.lowerBound {
                rest.append(old.lowerBound..<min(old.upperBound, range.lowerBound))
            }
            if old.upperBound > range.upperBound {
                rest.append(max(old.lowerBound, range.upperBound)..<old.upperBound)
            }
        }
        ranges = rest
    }

    /// Returns the positions in both sets.
    package func intersection(_ other: ByteRanges) -> ByteRanges {
        var common = self
        for gap in other.gaps(upTo: end) { common.remove(gap) }
        return common
    }

    package func contains(_ range: Range<Int64>) -> Bool {
        guard !range.isEmpty else { return true }
        let index = firstIndex(endingAtOrAfter: range.lowerBound)
        return index < ranges.count && ranges[index].lowerBound <= range.lowerBound
            && ranges[index].upperBound >= range.upperBound
    }

    /// Returns the missing ranges between 0 and a length, in order.
    package func gaps(upTo length: Int64) -> [Range<Int64>] {
        var gaps: [Range<Int64>] = []
        var position: Int64 = 0
        for range in ranges where position < length {
            if range.lowerBound > position { gaps.append(position..<min(range.lowerBound, length)) }
            position = range.upperBound
        }
        if position < length { gaps.append(position..<length) }
        return gaps
    }

    /// Returns the index of the first range that ends at or after a position.
    private func firstIndex(endingAtOrAfter position: Int64) -> Int {
        var (low, high) = (0, ranges.count)
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upperBound < position { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
