import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Operations on a real server, each paused, resumed and cancelled by six threads concurrently, with twenty observers,
/// and with random delays between a change and its action.
///
/// `CONVOY_STRESS_SECONDS` sets the duration, 2 by default. Also run it under `swift test --sanitize=thread`.
@Suite struct LifecycleStormTests {
    private final class Subject: Sendable {
        let operation: InterruptedOperation
        let finishes = Atomic<Int>(0)
        let told = Atomic<Int>(0)

        init(_ url: URL, completionQueue: DispatchQueue, observers: DispatchQueue) {
            operation = InterruptedOperation(request: URLRequest(url: url))
            operation.completionQueue = completionQueue
            operation.retryPolicy = RetryPolicy(maximumRetryCount: 2)
            operation.retryPolicy?.initialDelay = 0.002
            operation.retryPolicy?.budget = nil
            operation.completionBlock = { [self] in finishes.add(1, ordering: .relaxed) }
            for _ in 0..<20 {
                operation.keepObserving(.state, on: observers) { [self] _, change in
                    if change.newValue == .finished { told.add(1, ordering: .relaxed) }
                }
            }
            operation.interrupt { _, proceed in
                switch UInt8.random(in: 0..<32) {
                case 0: letOthersRun(microseconds: 200)
                case 1..<8: sched_yield()
                default: break
                }
                proceed()
            }
        }
    }

    enum Place: CaseIterable, Sendable { case alone, queue, foundation }

    @Test(arguments: Place.allCases) func `every operation finishes once and notifies all its observers`(place: Place) throws
    {
        let seconds = (Double(ProcessInfo.processInfo.environment["CONVOY_STRESS_SECONDS"] ?? "") ?? 2) / 3
        let server = try TestServer()
        server.route("GET", "/quick", .text("quick"))
        server.servePattern(count: 100_000, at: "/file", etag: "\"v1\"")
        server.route("GET", "/broken", .text("x").resetBeforeHead())
        let paths = ["/quick", "/file", "/file", "/broken"]
        let completionQueue = DispatchQueue(label: "completion")
        let observers = DispatchQueue(label: "observers")
        let queue: OperationQueue? =
            switch place {
            case .alone: nil
            case .queue: RequestOperationQueue()
            case .foundation: OperationQueue()
            }
        queue?.maxConcurrentOperationCount = 3
        let deadline = Date(timeIntervalSinceNow: seconds)
        var rounds = 0
        repeat {
            let subjects = (0..<6).map { number in
                Subject(
                    server.url(paths[(rounds + number) % paths.count]), completionQueue: completionQueue,
                    observers: observers)
            }
            let threads = DispatchGroup()
            for number in 0..<6 {
                threads.enter()
                Thread { [rounds] in
                    var random = SplitMix64(seed: UInt64(rounds * 6 + number))
                    for step in 0..<60 {
                        if step == number * 2 {
                            let mine = subjects[number].operation
                            if let queue { queue.addOperation(mine) } else { mine.start() }
                        }
                        let operation = subjects[(number + step) % 6].operation
                        switch Int.random(in: 0..<100, using: &random) {
                        case 0..<45: operation.pause()
                        case 45..<97: operation.resume()
                        default: if rounds % 2 == 0 { operation.cancel() }
                        }
                    }
                    threads.leave()
                }.start()
            }
            #expect(threads.wait(timeout: .now() + patience) == .success)
            for subject in subjects {
                let operation = subject.operation
                let isOver = eventually {
                    // Resume all operations, because in a Foundation queue a paused operation keeps its slot, which
                    // this one may need.
                    for subject in subjects { subject.operation.resume() }
                    // Outside a queue, nothing else starts an operation that was cancelled before its start.
                    if queue == nil, operation.isCancelled { operation.start() }
                    return subject.finishes.load(ordering: .relaxed) > 0
                }
                #expect(isOver, "never arrived: \(operation) \(operation.lifecycle.value)")
                let areTold = eventually { subject.told.load(ordering: .relaxed) == 20 }
                #expect(areTold && subject.finishes.load(ordering: .relaxed) == 1)
                guard isOver, areTold else { return }
            }
            rounds += 1
        } while Date() < deadline
        if let queue { #expect(drains(queue)) }
        #expect(rounds > 0)
    }
}
