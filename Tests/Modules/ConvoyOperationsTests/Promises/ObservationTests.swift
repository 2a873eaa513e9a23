import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations
@testable import ConvoyTransport

/// Promise 4: every change is reported once and in order, including the last, with no lock held, and then the observers
/// are released.
@Suite struct ObservationTests {
    private final class Told: Sendable {
        private let changes = Locked<[[OperationState]]>([])
        var all: [[OperationState]] { changes.withLock { $0 } }
        func add(_ change: OperationChange<OperationState>) {
            changes.withLock { $0.append([change.oldValue, change.newValue]) }
        }

        /// Whether each change begins where the previous one ended, from the first state to the last.
        var isChain: Bool {
            let all = all
            guard all.first?.first == .ready, all.last?.last == .finished else { return false }
            return zip(all, all.dropFirst()).allSatisfy { $0.last == $1.first }
        }
    }

    private let network = ThreadedTransport()
    private let queue = DispatchQueue(label: "observer")

    private func operation() -> InterruptedOperation {
        let operation = InterruptedOperation(
            request: URLRequest(url: URL(fileURLWithPath: "/simulated")), transport: network)
        operation.completionQueue = testQueue
        return operation
    }

    @Test func `the last change is reported even if an earlier one is reported after it`() {
        let operation = operation()
        let told = Told()
        operation.keepObserving(.state, on: queue) { _, change in told.add(change) }
        operation.pause()
        let held = HeldEvents(of: operation)
        held.begin { operation.resume() }
        operation.start()
        network.serve()
        let delivered = Signal()
        operation.whenDelivered { delivered.fire() }
        #expect(delivered.wait())
        queue.sync {}
        #expect(operation.isFinished && told.all == [[.ready, .paused]])
        held.release(0)
        #expect(held.wait(for: 0))
        queue.sync {}
        #expect(told.all == [[.ready, .paused], [.paused, .ready], [.ready, .executing], [.executing, .finished]])
        #expect(operation.log?.hasObservers != true)
    }

    @Test func `monitors and metrics record the same order, and a late change does not alter the metrics`() throws {
        let operation = operation()
        let events = Locked<[OperationEvent]>([])
        let monitor = EventMonitor(interval: 0) { some in events.withLock { $0 += some } }
        operation.eventMonitors = [monitor]
        operation.collectsMetrics = true
        operation.pause()
        let held = HeldEvents(of: operation)
        held.begin { operation.resume() }
        operation.start()
        network.serve()
        let delivered = Signal()
        operation.whenDelivered { delivered.fire() }
        #expect(delivered.wait())
        let metrics = try #require(operation.metrics)
        #expect(metrics.startDate != nil && metrics.waits.map(\.reason) == [.start, .pause])
        held.release(0)
        #expect(held.wait(for: 0))
        let caughtUp = Signal()
        monitor.whenCaughtUp { caughtUp.fire() }
        #expect(caughtUp.wait())
        let lifecycle = events.withLock { $0 }.compactMap { event -> String? in
            switch event.kind {
            case .paused: "paused"
            case .resumed: "resumed"
            case .attemptStarted: "started"
            case .attemptEnded: "ended"
            case .finished: "finished"
            default: nil
            }
        }
        #expect(lifecycle == ["paused", "resumed", "started", "ended", "finished"])
        #expect(operation.metrics == metrics)
    }

    @Test func `a part's request ends with the part, even if its connection reports nothing`() throws {
        let whole = operation()
        let events = Locked<[OperationEvent]>([])
        whole.eventMonitors = [EventMonitor(interval: 0) { some in events.withLock { $0 += some } }]
        whole.start()
        let part = HTTPRequestOperation(request: whole.request)
        part.adoptSettings(of: whole, decoding: true)
        part.start()
        try eventually("two connections") { network.openCount == 2 }
        let header = try RequestHeader(fields: [:])
        part.eventLog?.noteRequestStarted(
            RequestHead(
                method: "GET", address: "http://a.example/", header: header, bodyLength: 0, secrets: .standard))
        part.cancel()
        try eventually("its end") { part.isFinished && network.openCount == 1 }
        let end = StartMoment.timeNow
        #expect(!whole.isFinished)
        network.serve()
        try eventually("the end of the operation") {
            events.withLock { $0 }.contains { if case .finished = $0.kind { true } else { false } }
        }
        let ended = events.withLock { $0 }.filter { if case .requestEnded(1, nil, nil) = $0.kind { true } else { false } }
        #expect(ended.count == 1 && ended.allSatisfy { $0.moment <= end })
    }

    @Test func `a change is reported even after events that change nothing`() {
        let operation = operation()
        let told = Told()
        operation.keepObserving(.state, on: queue) { _, change in told.add(change) }
        operation.pause()
        // Each call requires an action. The first one records the start, and the others change nothing.
        for _ in 0..<3 { operation.start() }
        operation.resume()
        network.serve()
        #expect(eventually { operation.isFinished && operation.log?.hasObservers != true })
        queue.sync {}
        #expect(told.isChain && told.all.count == 4, "\(told.all)")
    }

    @Test func `observers added later are notified of subsequent changes`() {
        let operation = operation()
        let (early, late) = (Told(), Told())
        operation.keepObserving(.state, on: queue) { _, change in early.add(change) }
        operation.pause()
        let held = HeldEvents(of: operation)
        held.begin { operation.resume() }
        operation.keepObserving(.state, on: queue) { _, change in late.add(change) }
        operation.pause()
        held.release(0)
        #expect(held.wait(for: 0))
        queue.sync {}
        #expect(early.all == [[.ready, .paused], [.paused, .ready], [.ready, .paused]])
        #expect(late.all == [[.ready, .paused]])
    }

    @Test func `a change that precedes the first observer but is recorded after it is dropped`() {
        let operation = operation()
        let told = Told()
        let held = HeldEvents(of: operation)
        held.begin { operation.pause() }
        operation.keepObserving(.state, on: queue) { _, change in told.add(change) }
        held.release(0)
        #expect(held.wait(for: 0))
        #expect(operation.log?.isChangeMissing == false)
        operation.resume()
        queue.sync {}
        #expect(told.all == [[.paused, .ready]])
    }

    @Test func `an observer can use the operation in its handler`() throws {
        let server = try TestServer()
        server.route("GET", "/quick", .text("quick"))
        let probe = Probe(server.url("/quick"))
        let finished = Signal()
        probe.operation.keepObserving(.isFinished) { operation, change in
            #expect(operation.response?.statusCode == 200)
            operation.cancel()
            operation.completionBlock = nil
            if change.newValue { finished.fire() }
        }
        RequestOperationQueue().addOperation(probe.operation)
        #expect(finished.wait())
    }

    @Test func `an ended observation receives no pending notifications`() {
        let operation = operation()
        let told = Told()
        queue.suspend()
        let observation = operation.observe(.state, on: queue) { _, change in told.add(change) }
        operation.pause()
        observation.invalidate()
        queue.resume()
        queue.sync {}
        #expect(told.all.isEmpty && operation.log?.hasObservers != true)
    }

    @Test func `an observation ends when its object is released`() {
        let operation = operation()
        let told = Told()
        var observation: OperationObservation? = operation.observe(.state, on: queue) { _, change in told.add(change) }
        operation.pause()
        queue.sync {}
        queue.suspend()
        operation.resume()
        withExtendedLifetime(observation) {}
        observation = nil
        operation.pause()
        queue.resume()
        queue.sync {}
        #expect(told.all == [[.ready, .paused]] && operation.log?.hasObservers != true)
    }

    @Test(arguments: [0, 7, 1 << 31, .max - 1, .max] as [UInt32])
    func `changes are reported in order when their numbers wrap around`(number: UInt32) {
        #expect(OperationLog.comes(number &+ 1, after: number))
        #expect(!OperationLog.comes(number, after: number) && !OperationLog.comes(number, after: number &+ 1))
    }

    @Test func `a finished operation retains no observer`() {
        let operation = operation()
        operation.cancel()
        operation.start()
        operation.keepObserving(.state) { _, _ in Issue.record("nothing follows") }
        #expect(operation.log?.hasObservers != true)
    }

    @Test func `a cancellation is reported once`() {
        let operation = operation()
        let told = Locked<[Bool]>([])
        let finished = Signal()
        operation.keepObserving(.isCancelled, on: queue) { _, change in told.withLock { $0.append(change.newValue) } }
        operation.keepObserving(.isFinished, on: queue) { _, _ in finished.fire() }
        operation.start()
        for _ in 0..<3 { operation.cancel() }
        #expect(finished.wait())
        queue.sync {}
        #expect(told.withLock { $0 } == [true])
    }

    /// 1,500 operations that four threads push through all their states.
    @Test func `the reported changes form a chain from the first to the last under concurrent calls`() {
        network.serve()
        let all = (0..<1_500).map { number in
            let operation = operation()
            if number % 3 == 0 {
                // Delay some reports after their changes.
                operation.interrupt { transition, proceed in
                    if (transition.number ?? 0) % 2 == 0 { sched_yield() }
                    proceed()
                }
            }
            return (operation: operation, told: Told())
        }
        for (operation, told) in all { operation.keepObserving(.state) { _, change in told.add(change) } }
        let threads = DispatchGroup()
        for number in 0..<4 {
            threads.enter()
            Thread {
                var random = SplitMix64(seed: UInt64(number))
                for (operation, _) in all {
                    for _ in 0..<6 {
                        switch Int.random(in: 0..<16, using: &random) {
                        case 0..<5: operation.pause()
                        case 5..<10: operation.resume()
                        case 10..<15: operation.start()
                        default: operation.cancel()
                        }
                    }
                }
                threads.leave()
            }.start()
        }
        #expect(threads.wait(timeout: .now() + patience) == .success)
        for (operation, told) in all {
            let isOver = eventually {
                operation.resume()
                operation.start()
                return operation.isFinished && operation.log?.hasObservers != true
                    && told.all.last?.last == .finished
            }
            #expect(isOver && told.isChain, "\(operation): \(told.all)")
        }
    }
}
