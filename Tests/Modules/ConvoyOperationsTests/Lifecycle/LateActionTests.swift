import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Promise 1 with real threads. Between a change of an operation's lifecycle and its action, another thread makes
/// another change and performs its action.
@Suite struct LateActionTests {
    enum Event: CaseIterable, Sendable {
        case start, pause, resume, cancel, ends, fails, isCancelledUnasked, retryDue, expire

        /// Whether the event comes from the network, whose events are sequential.
        var isOfNetwork: Bool { self == .ends || self == .fails || self == .isCancelledUnasked }
    }

    /// The state of the operation when the events occur.
    enum Point: CaseIterable, Sendable {
        case new, pausedBeforeItsStart, executing, executingAgain, paused, pausedAndStillStopping
        case resumedAndStillStopping, backingOff
    }

    enum Place: CaseIterable, Sendable { case alone, queue }

    private final class Tally: Sendable {
        let completions = Atomic<Int>(0)
        let outcomes = Atomic<Int>(0)
    }

    /// One operation, with all events that can occur.
    private final class Scene: Sendable {
        let network = ThreadedTransport()
        let clock = ManualClock()
        let operation: InterruptedOperation
        let queue: RequestOperationQueue?
        private let tally = Tally()
        private let handlers = DispatchQueue(label: "handlers")

        init(in place: Place) {
            operation = InterruptedOperation(
                request: URLRequest(url: URL(fileURLWithPath: "/simulated")), transport: network, clock: clock)
            queue = place == .queue ? RequestOperationQueue() : nil
            queue?.maxConcurrentOperationCount = 1
            queue?.isSuspended = true
            operation.retryPolicy = RetryPolicy(maximumRetryCount: 100)
            operation.retryPolicy?.budget = nil
            operation.completionQueue = handlers
            operation.completionBlock = { [tally] in tally.completions.add(1, ordering: .relaxed) }
            operation.setCompletionHandler(
                success: { [tally] _, _ in tally.outcomes.add(1, ordering: .relaxed) },
                failure: { [tally] _, _ in tally.outcomes.add(1, ordering: .relaxed) })
            queue?.addOperation(operation)
        }

        func happen(_ event: Event) {
            switch event {
            case .start: if let queue { queue.isSuspended = false } else { operation.start() }
            case .pause: operation.pause()
            case .resume: operation.resume()
            case .cancel: operation.cancel()
            case .ends: network.end()
            case .fails: network.end(with: URLError(.networkConnectionLost))
            case .isCancelledUnasked: network.cancelUnasked()
            case .retryDue: clock.advance(by: 100)
            case .expire: operation.handle(.expire)
            }
        }

        /// Waits until the network has processed all requests.
        private func settle() { network.queue.sync {} }

        func reach(_ point: Point) {
            let steps: [Event] =
                switch point {
                case .new: []
                case .pausedBeforeItsStart: [.pause]
                case .executing: [.start]
                case .executingAgain: [.start, .pause, .resume]
                case .paused, .pausedAndStillStopping: [.start, .pause]
                case .resumedAndStillStopping: [.start, .pause, .resume]
                case .backingOff: [.start, .fails]
                }
            if point == .pausedAndStillStopping || point == .resumedAndStillStopping { network.beSlowToCancel() }
            for step in steps {
                happen(step)
                settle()
            }
        }

        /// Takes all steps needed to end the operation, then checks the promise.
        func expectItArrivesOnce(_ story: String) {
            operation.interrupt(nil)
            network.serve()
            // Work may still be running on another thread.
            let hasArrived = eventually {
                if operation.isFinished { return true }
                for event in [Event.resume, .retryDue, .start] { happen(event) }
                settle()
                return operation.isFinished
            }
            guard hasArrived else {
                Issue.record("never arrived, \(story): \(operation) \(operation.lifecycle.value)")
                return
            }
            let isDelivered = eventually { tally.completions.load(ordering: .relaxed) > 0 }
            settle()
            handlers.sync {}
            #expect(isDelivered && tally.completions.load(ordering: .relaxed) == 1, "\(story)")
            #expect(tally.outcomes.load(ordering: .relaxed) == 1, "\(story)")
            #expect(network.openCount == 0, "\(story)")
            if operation.isCancelled {
                #expect((operation.error as? URLError)?.code == .cancelled, "\(story)")
            } else if operation.error == nil {
                #expect(operation.responseData == ThreadedTransport.body, "\(story)")
            }
            if let queue { #expect(eventually { queue.queuedOperationCount == 0 }, "\(story)") }
        }
    }

    @Test(arguments: Place.allCases, Point.allCases)
    func `the action of one event runs after another event`(place: Place, point: Point) {
        for first in Event.allCases {
            for second in Event.allCases where !(first.isOfNetwork && second.isOfNetwork) {
                let scene = Scene(in: place)
                scene.reach(point)
                let held = HeldEvents(of: scene.operation)
                held.begin { scene.happen(first) }
                scene.happen(second)
                held.release(0)
                #expect(held.wait(for: 0))
                scene.expectItArrivesOnce("\(place) \(point): \(first) held back for \(second)")
            }
        }
    }

    @Test(arguments: Place.allCases)
    func `the actions of two events run after a third event in either order`(place: Place) {
        var random = SplitMix64(seed: 20)
        for round in 0..<600 {
            let point = Point.allCases[Int.random(in: 0..<Point.allCases.count, using: &random)]
            let events = (0..<3).map { _ in Event.allCases[Int.random(in: 0..<Event.allCases.count, using: &random)] }
            let order = Bool.random(using: &random) ? [0, 1] : [1, 0]
            guard events.filter(\.isOfNetwork).count < 2 else { continue }
            let scene = Scene(in: place)
            scene.reach(point)
            let held = HeldEvents(of: scene.operation)
            for event in events.prefix(2) { held.begin { scene.happen(event) } }
            scene.happen(events[2])
            for index in order {
                held.release(index)
                #expect(held.wait(for: index))
            }
            scene.expectItArrivesOnce("round \(round), \(place) \(point): \(events), \(order)")
        }
    }

    @Test func `a stop that runs after the next attempt has begun does not stop that attempt`() {
        let scene = Scene(in: .alone)
        scene.reach(.executing)
        // The stop of the pause is held back until the first attempt has failed and a second one is running.
        let held = HeldEvents(of: scene.operation)
        held.begin { scene.happen(.pause) }
        scene.happen(.fails)
        scene.happen(.resume)
        #expect(scene.operation.lifecycle.value.attemptNumber == 2)
        held.release(0)
        #expect(held.wait(for: 0))
        scene.network.end()
        #expect(scene.operation.isFinished && scene.operation.error == nil)
    }

    @Test func `a stop that runs before its attempt has begun is kept for it`() {
        let scene = Scene(in: .alone)
        let held = HeldEvents(of: scene.operation)
        held.begin { scene.happen(.start) }
        scene.happen(.cancel)
        #expect(!scene.operation.isFinished)
        held.release(0)
        #expect(held.wait(for: 0))
        #expect(scene.operation.isFinished && scene.network.connectionCount == 0)
    }

    @Test func `an unexpectedly cancelled connection fails the operation`() {
        let scene = Scene(in: .alone)
        scene.operation.retryPolicy = nil
        scene.reach(.executing)
        scene.happen(.isCancelledUnasked)
        #expect(scene.operation.isFinished)
        #expect((scene.operation.error as? URLError)?.code == .networkConnectionLost)
    }

    @Test func `a started operation without a reference is not lost while it waits for its retry`() {
        let network = ThreadedTransport()
        let clock = ManualClock()
        let finished = Signal()
        weak var left: HTTPRequestOperation?
        do {
            let operation = HTTPRequestOperation(
                request: URLRequest(url: URL(fileURLWithPath: "/")), transport: network, clock: clock)
            operation.retryPolicy = RetryPolicy(maximumRetryCount: 1)
            operation.retryPolicy?.budget = nil
            operation.completionQueue = testQueue
            operation.completionBlock = { finished.fire() }
            operation.start()
            left = operation
        }
        network.queue.sync {}
        network.end(with: URLError(.networkConnectionLost))
        #expect(left != nil)
        network.serve()
        clock.advance(by: 100)
        #expect(finished.wait())
        #expect(eventually { left == nil })
    }
}
