import Foundation
import Synchronization
import Testing

@testable import ConvoySupport

/// Tests that a value that is set once reaches one handler once, in every order of calls.
struct OnceTests {
    private let calls = Calls()

    private final class Calls: Sendable {
        let all = Locked<[Int]>([])
        func add(_ value: Int) { all.withLock { $0.append(value) } }
    }

    private var received: [Int] { calls.all.withLock { $0 } }

    @Test func `a value that is set before the handler reaches the handler`() {
        let once = Once<Int>()
        #expect(!once.isSet && once.set(1) && !once.set(2) && once.isSet)
        once.whenSet { [calls] in calls.add($0) }
        once.whenSet { [calls] in calls.add($0) }
        #expect(received == [1])
    }

    @Test func `a value that is set after the handler reaches the last handler`() {
        let once = Once<Int> { [calls] in calls.add($0 + 10) }
        once.whenSet { [calls] in calls.add($0) }
        #expect(once.set(1) && !once.set(2))
        #expect(received == [1])
    }

    @Test func `a value that was taken does not reach a handler`() {
        let once = Once<Int>()
        #expect(once.take() == nil)
        once.set(1)
        #expect(once.take() == 1 && once.take() == nil)
        once.whenSet { [calls] in calls.add($0) }
        #expect(received.isEmpty)
    }

    @Test func `a released object without a value passes on its fallback`() {
        _ = Once<Int>(orElse: 3) { [calls] in calls.add($0) }
        let once = Once<Int>(orElse: 4) { [calls] in calls.add($0) }
        once.set(5)
        #expect(received == [3, 5])
    }

    @Test func `handlers and values are released when they are no longer needed`() {
        final class Resource: Sendable {}
        weak var handler: Resource?
        weak var value: Resource?
        let once: Once<Resource>
        do {
            let (kept, passed) = (Resource(), Resource())
            (handler, value) = (kept, passed)
            once = Once { _ in withExtendedLifetime(kept) {} }
            once.set(passed)
        }
        #expect(handler == nil && value == nil && once.isSet)
    }

    @Test func `concurrent calls pass on one value once`() {
        for _ in 0..<500 {
            let once = Once<Int>()
            let sets = Atomic<Int>(0)
            let calls = Calls()
            DispatchQueue.concurrentPerform(iterations: 4) { index in
                if index == 3 {
                    once.whenSet { calls.add($0) }
                } else if once.set(index) {
                    sets.add(1, ordering: .relaxed)
                }
            }
            #expect(sets.load(ordering: .relaxed) == 1 && calls.all.withLock { $0.count } == 1)
        }
    }
}
