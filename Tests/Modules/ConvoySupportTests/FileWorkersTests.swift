import Foundation
import Synchronization
import Testing

@testable import ConvoySupport

struct FileWorkersTests {
    /// The state shared by several jobs.
    private final class Tally: Sendable {
        let count = Atomic<Int>(0)
        let order = Locked<[Int]>([])
        let threads = Locked<Set<UInt>>([])
        let group = DispatchGroup()
    }

    @Test func `jobs added by several threads each run exactly once`() {
        let workers = FileWorkers()
        for _ in 0..<20 {
            let tally = Tally()
            let starters = (0..<8).map { _ in
                Thread {
                    for _ in 0..<500 {
                        tally.group.enter()
                        workers.perform {
                            tally.count.add(1, ordering: .relaxed)
                            tally.group.leave()
                        }
                    }
                    tally.group.leave()
                }
            }
            for starter in starters {
                tally.group.enter()
                starter.start()
            }
            #expect(tally.group.wait(timeout: .now() + 60) == .success)
            #expect(tally.count.load(ordering: .relaxed) == 4000)
        }
    }

    @Test func `quick jobs run in order on few threads`() {
        let workers = FileWorkers()
        let tally = Tally()
        let begin = DispatchSemaphore(value: 0)
        tally.group.enter()
        workers.perform {
            begin.signal()
            tally.group.leave()
        }
        begin.wait()
        for number in 0..<1000 {
            tally.group.enter()
            workers.perform {
                tally.order.withLock { $0.append(number) }
                let thread = UInt(pthread_self())
                tally.threads.withLock { _ = $0.insert(thread) }
                tally.group.leave()
            }
        }
        #expect(tally.group.wait(timeout: .now() + 60) == .success)
        #expect(Set(tally.order.withLock { $0 }) == Set(0..<1000))
        // The workers never use one thread per job.
        #expect(tally.threads.withLock { $0.count } < 50)
    }

    @Test func `a stuck job does not keep others from running`() {
        let workers = FileWorkers()
        let (stuck, isStuck) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        // Add several jobs, so that the helping thread gets stuck as well.
        for _ in 0..<5 {
            workers.perform {
                isStuck.signal()
                stuck.wait()
            }
        }
        for _ in 0..<5 { #expect(isStuck.wait(timeout: .now() + 60) == .success) }
        let done = DispatchSemaphore(value: 0)
        for _ in 0..<100 { workers.perform { done.signal() } }
        for _ in 0..<100 { #expect(done.wait(timeout: .now() + 60) == .success) }
        for _ in 0..<5 { stuck.signal() }
    }
}
