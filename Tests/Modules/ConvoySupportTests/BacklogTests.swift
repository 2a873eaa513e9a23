import Testing

@testable import ConvoySupport

/// Order and memory use of the queue.
@Suite struct BacklogTests {
    @Test func `elements are removed in the order in which they were added`() {
        var backlog = Backlog<Int>()
        var (next, first) = (0, 0)
        // Fill and empty the queue by varying amounts.
        for round in 0..<500 {
            for _ in 0..<(round * 37 % 101) {
                backlog.append(next)
                next += 1
            }
            for _ in 0..<(round * 53 % 103) {
                guard let element = backlog.popFirst() else { break }
                #expect(element == first)
                first += 1
            }
            #expect(backlog.count == next - first)
        }
        while let element = backlog.popFirst() {
            #expect(element == first)
            first += 1
        }
        #expect(first == next && backlog.isEmpty && backlog.popFirst() == nil)
    }

    @Test func `the storage stays proportional to the number of elements`() {
        var backlog = Backlog<Int>()
        for number in 0..<100_000 { backlog.append(number) }
        while backlog.count > 2 { _ = backlog.popFirst() }
        for number in 0..<10_000 {
            backlog.append(number)
            _ = backlog.popFirst()
        }
        #expect(backlog.count == 2)
        #expect(backlog.capacity < 1000)
    }
}
