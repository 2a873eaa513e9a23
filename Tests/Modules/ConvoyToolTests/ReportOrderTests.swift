import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

@Suite(.serialized) struct ReportOrderTests {
    /// Reports a chain whose last operation finishes first, and returns the order of the reports.
    private func reportBackwards(_ count: Int) -> [Int] {
        let operations = (0..<count).map { _ in Operation() }
        let order = ReportOrder()
        let reported = Locked<[Int]>([])
        for number in (0..<count).reversed() {
            let after = number == 0 ? [] : [ObjectIdentifier(operations[number - 1])]
            order.finish(operations[number], after: after) { reported.withLock { $0.append(number) } }
        }
        return reported.withLock { $0 }
    }

    @Test func `a chain of 50,000 operations that finish in reverse order is reported in order`() {
        #expect(reportBackwards(50_000) == Array(0..<50_000))
    }

    @Test func `the time grows linearly with the number of operations`() {
        func time(_ count: Int) -> Int { leastThreadTime { _ = reportBackwards(count) } }
        #expect(time(5000) < time(500) * 50)
    }

    @Test func `an operation with several dependencies is reported once, after the last one`() {
        let (a, b, c) = (Operation(), Operation(), Operation())
        let order = ReportOrder()
        let reported = Locked<[String]>([])
        func finish(_ operation: Operation, after: [Operation], _ name: String) {
            order.finish(operation, after: after.map { ObjectIdentifier($0) }) { reported.withLock { $0.append(name) } }
        }
        finish(c, after: [a, b, a], "c")
        finish(b, after: [], "b")
        #expect(reported.withLock { $0 } == ["b"])
        finish(a, after: [b], "a")
        #expect(reported.withLock { $0 } == ["b", "a", "c"])
    }
}
