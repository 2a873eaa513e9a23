import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTransport

/// The order of waiters at a rate limit.
@Suite struct WaitingLineTests {
    @Test func `the line behaves like a list from which any waiter can be removed`() {
        var random = SplitMix64.printingSeed()
        let limit = RateLimit()
        let thread = NetworkThread()
        var line = WaitingLine()
        var list: [RateWaiter] = []
        for step in 0..<20_000 {
            // The queue grows, shrinks, and grows again.
            let grows = Int.random(in: 0..<10, using: &random) < (step / 2_000 % 2 == 0 ? 6 : 3)
            if grows || list.isEmpty {
                let waiter = RateWaiter(at: limit, thread: thread) {}
                line.append(waiter)
                list.append(waiter)
            } else {
                let index = Bool.random(using: &random) ? 0 : Int.random(in: 0..<list.count, using: &random)
                let waiter = list.remove(at: index)
                line.remove(waiter)
                line.remove(waiter)
                #expect(waiter.place == nil)
            }
            #expect(line.count == list.count && line.first === list.first && line.isEmpty == list.isEmpty)
        }
        while let first = line.first {
            #expect(first === list.removeFirst())
            line.remove(first)
        }
        #expect(list.isEmpty)
    }
}
