import ConvoyDownloads
import Testing

struct ByteRangesTests {
    /// Sets of numbers are an independent model of the ranges.
    @Test func `sets of ranges behave like sets of numbers`() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<300 {
            var (ranges, numbers) = (ByteRanges(), Set<Int64>())
            for _ in 0..<30 {
                let start = Int64.random(in: 0..<60, using: &generator)
                let range = start..<start + Int64.random(in: 0..<12, using: &generator)
                if Bool.random(using: &generator) {
                    ranges.insert(range)
                    numbers.formUnion(range)
                } else {
                    ranges.remove(range)
                    numbers.subtract(range)
                }
                #expect(Set(ranges.ranges.joined()) == numbers)
                #expect(ranges.count == Int64(numbers.count))
                #expect(Set(ranges.gaps(upTo: 50).joined()) == Set(0..<50).subtracting(numbers))
                #expect(zip(ranges.ranges, ranges.ranges.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound })
                #expect(ranges.contains(range) == numbers.isSuperset(of: range))
                #expect(ranges.prefix == (0..<80).first { !numbers.contains($0) })
            }
        }
    }
}
