import ConvoySupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyDiagnostics
@testable import ConvoyOperations

/// The count of running operations and its indicator.
@Suite(.serialized) struct NetworkActivityMonitorTests {
    private let network = ThreadedTransport()
    private let clock = ManualClock()
    private let queue = DispatchQueue(label: "activity")
    private let shown = Log()

    private func monitor(isEnabled: Bool = true) -> NetworkActivityMonitor {
        let monitor = NetworkActivityMonitor(queue: queue, clock: clock) { [queue] operation in
            // Count only operations of this test, because other tests run concurrently.
            operation.completionQueue === queue
        }
        monitor.activityHandler = { [shown] in shown.add($0 ? "show" : "hide") }
        monitor.isEnabled = isEnabled
        return monitor
    }

    private func operation() -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(
            request: URLRequest(url: URL(fileURLWithPath: "/simulated")), transport: network)
        operation.completionQueue = queue
        return operation
    }

    private func finish(_ operation: HTTPRequestOperation) -> Bool { eventually { operation.isFinished } }

    @Test func `operations count as activity from start to finish, except while paused`() {
        let monitor = monitor()
        let (first, second) = (operation(), operation())
        #expect(monitor.activityCount == 0)
        first.start()
        second.start()
        #expect(eventually { monitor.activityCount == 2 })
        second.pause()
        #expect(eventually { monitor.activityCount == 1 })
        second.resume()
        #expect(eventually { monitor.activityCount == 2 })
        second.cancel()
        #expect(eventually { monitor.activityCount == 1 })
        network.serve()
        #expect(finish(first) && finish(second) && eventually { monitor.activityCount == 0 })
    }

    @Test func `the indicator appears after the show delay and disappears after the hide delay`() {
        let monitor = monitor()
        monitor.activationDelay = 2
        monitor.completionDelay = 0.5
        let operation = operation()
        operation.start()
        #expect(eventually { clock.timerCount == 1 })
        clock.advance(by: 1.9)
        #expect(!monitor.isNetworkActivityVisible)
        clock.advance(by: 0.2)
        #expect(monitor.isNetworkActivityVisible)
        network.serve()
        #expect(finish(operation) && eventually { clock.timerCount == 1 } && monitor.isNetworkActivityVisible)
        clock.advance(by: 0.6)
        #expect(!monitor.isNetworkActivityVisible)
        #expect(eventually { shown.all == ["show", "hide"] })
    }

    @Test func `by default, the indicator is shown after 1 s and hidden after 0.17 s`() {
        let monitor = monitor()
        #expect(monitor.activationDelay == 1 && monitor.completionDelay == 0.17)
        monitor.incrementActivityCount()
        clock.advance(by: 0.99)
        #expect(!monitor.isNetworkActivityVisible)
        clock.advance(by: 0.02)
        #expect(monitor.isNetworkActivityVisible)
        monitor.decrementActivityCount()
        clock.advance(by: 0.16)
        #expect(monitor.isNetworkActivityVisible)
        clock.advance(by: 0.02)
        #expect(!monitor.isNetworkActivityVisible)
    }

    @Test func `waiting for a retry does not count as activity`() {
        let monitor = monitor()
        let operation = operation()
        operation.change { $0.holder.clock = clock }
        operation.retryPolicy = RetryPolicy()
        operation.start()
        #expect(eventually { network.openCount == 1 && monitor.activityCount == 1 })
        network.end(with: URLError(.timedOut))
        #expect(eventually { monitor.activityCount == 0 } && !operation.isFinished)
        operation.cancel()
        #expect(finish(operation) && monitor.activityCount == 0)
    }

    @Test func `manual counts are included and never fall below zero`() {
        let monitor = monitor(isEnabled: false)
        monitor.decrementActivityCount()
        monitor.incrementActivityCount()
        #expect(monitor.activityCount == 1 && clock.timerCount == 0)
        monitor.isEnabled = true
        clock.advance(by: 1)
        #expect(monitor.isNetworkActivityVisible)
        monitor.decrementActivityCount()
        monitor.decrementActivityCount()
        #expect(monitor.activityCount == 0)
        clock.advance(by: 1)
        #expect(!monitor.isNetworkActivityVisible && eventually { shown.all == ["show", "hide"] })
    }

    @Test func `disabling the monitor hides the indicator immediately and stops counting`() {
        let monitor = monitor()
        let operation = operation()
        operation.start()
        #expect(eventually { monitor.activityCount == 1 })
        clock.advance(by: 1)
        monitor.isEnabled = false
        #expect(!monitor.isNetworkActivityVisible && monitor.activityCount == 0)
        #expect(eventually { shown.all == ["show", "hide"] })
        let other = self.operation()
        other.start()
        network.serve()
        #expect(finish(operation) && finish(other))
        clock.advance(by: 10)
        #expect(shown.all == ["show", "hide"])
    }

    @Test func `the sequence yields the current state and each change until the monitor is released`() async {
        var monitor: NetworkActivityMonitor? = monitor()
        var updates = monitor?.activityUpdates.makeAsyncIterator()
        #expect(await updates?.next() == false)
        monitor?.incrementActivityCount()
        clock.advance(by: 1)
        #expect(await updates?.next() == true)
        monitor?.decrementActivityCount()
        clock.advance(by: 0.2)
        #expect(await updates?.next() == false)
        monitor = nil
        #expect(await updates?.next() == nil)
    }

    @Test func `thousands of started, paused and finished operations leave a count of zero`() {
        let monitor = monitor()
        network.serve()
        let operations = (0..<400).map { _ in operation() }
        DispatchQueue.concurrentPerform(iterations: operations.count) { index in
            let operation = operations[index]
            operation.start()
            if index % 3 == 0 { operation.pause() }
            if index % 5 == 0 { operation.cancel() }
            operation.resume()
        }
        #expect(eventually { operations.allSatisfy(\.isFinished) } && eventually { monitor.activityCount == 0 })
    }
}
