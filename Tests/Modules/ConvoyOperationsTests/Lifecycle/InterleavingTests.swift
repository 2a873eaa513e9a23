import ConvoyStorySupport
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// The real operation on a simulated network: generated orders of user calls and network events.
@Suite struct InterleavingTests {
    /// A reproducible source of choices.
    private struct Choices {
        var state: UInt64
        mutating func pick(_ count: Int) -> Int {
            state &+= 0x9E37_79B9_7F4A_7C15
            var mixed = state
            mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
            return Int((mixed ^ (mixed >> 31)) % UInt64(count))
        }
    }

    private static let url = URL(fileURLWithPath: "/simulated")

    private static func body(_ version: Int) -> Data {
        Data((0..<(200 + version * 37)).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ version) })
    }

    private final class Counts: Sendable {
        let completions = Atomic<Int>(0)
        let successes = Atomic<Int>(0)
        let failures = Atomic<Int>(0)
    }

    /// Actions that are held back, for a test to perform in any order.
    private final class HeldActions: Sendable {
        private let actions = Locked<[@Sendable () -> Void]>([])
        var count: Int { actions.withLock { $0.count } }
        func add(_ action: @escaping @Sendable () -> Void) { actions.withLock { $0.append(action) } }
        /// Performs one action; returns false if none are held.
        func carryOutOne(pick: (Int) -> Int) -> Bool {
            let index = count == 0 ? 0 : pick(count)
            let action = actions.withLock { $0.isEmpty ? nil : $0.remove(at: index) }
            action?()
            return action != nil
        }
    }

    @Test(arguments: [false, true])
    func `in any order of events, the operation finishes once with the correct bytes`(
        whereActionsComeLate isLate: Bool
    ) throws {
        let queue = DispatchQueue(label: "completion")
        var seeds = SplitMix64.printingSeed()
        for _ in 0..<PropertyBudget.rounds(200) {
            let seed = seeds.next()
            var choices = Choices(state: seed)
            var resource = SimulatedTransport.Resource(body: Self.body(0))
            resource.honoursRanges = choices.pick(4) > 0
            resource.announcesLength = choices.pick(4) > 0
            if choices.pick(6) == 0 { resource.tag = nil }
            let network = SimulatedTransport(resource)
            var bodies: Set<Data> = [resource.body]
            let clock = ManualClock()
            let operation = InterruptedOperation(
                request: URLRequest(url: Self.url), transport: network, clock: clock)
            let held = HeldActions()
            if isLate { operation.interrupt { _, proceed in held.add(proceed) } }
            operation.completionQueue = queue
            let listener = StoryListener()
            operation.eventMonitors = [listener.monitor]
            if choices.pick(3) == 0 {
                operation.retryPolicy = RetryPolicy()
                operation.retryPolicy?.budget = nil
            }
            let counts = Counts()
            operation.completionBlock = { counts.completions.add(1, ordering: .relaxed) }
            operation.setCompletionHandler(
                success: { _, _ in counts.successes.add(1, ordering: .relaxed) },
                failure: { _, _ in counts.failures.add(1, ordering: .relaxed) })

            var hasFailed = false
            for _ in 0..<choices.pick(60) {
                switch choices.pick(isLate ? 18 : 14) {
                case 0: operation.start()
                case 1: operation.pause()
                case 2: operation.resume()
                case 3 where choices.pick(4) == 0: operation.cancel()
                case 4 where choices.pick(4) == 0:
                    let version = choices.pick(3)
                    network.resource.withLock { resource in
                        resource.body = Self.body(version)
                        if resource.tag != nil { resource.tag = "\"v\(version)\"" }
                    }
                    bodies.insert(Self.body(version))
                case 5 where choices.pick(12) == 0:
                    hasFailed = true
                    _ = network.step(pick: { choices.pick($0) }, fails: true)
                case 6: clock.advance(by: 10)
                case 14...: _ = held.carryOutOne(pick: { choices.pick($0) })
                default: _ = network.step(pick: { choices.pick($0) })
                }
                #expect(network.open.count <= 1, "seed \(seed): two connections at once")
                #expect(operation.isFinished || (operation.responseData == nil && operation.error == nil))
            }
            // Take all steps needed to end the operation.
            for _ in 0..<4_000 where !operation.isFinished || held.count > 0 {
                if held.carryOutOne(pick: { choices.pick($0) }) { continue }
                operation.resume()
                clock.advance(by: 1_000)
                operation.start()
                _ = network.step(pick: { choices.pick($0) })
            }
            queue.sync {}
            try #require(operation.isFinished, "seed \(seed): \(operation) never finished")
            #expect(counts.completions.load(ordering: .relaxed) == 1, "seed \(seed)")
            #expect(
                counts.successes.load(ordering: .relaxed) + counts.failures.load(ordering: .relaxed) == 1,
                "seed \(seed)")
            if let error = operation.error {
                #expect(operation.isCancelled || hasFailed, "seed \(seed): \(error)")
                #expect(counts.failures.load(ordering: .relaxed) == 1, "seed \(seed)")
                if operation.isCancelled, !hasFailed { #expect((error as? URLError)?.code == .cancelled) }
            } else {
                #expect(bodies.contains(operation.responseData ?? Data()), "seed \(seed): wrong bytes")
                #expect(operation.responseObject as? Data == operation.responseData)
            }
            while network.step(pick: { choices.pick($0) }) {}
            #expect(network.open.isEmpty)
            let faults = listener.faults()
            #expect(faults.isEmpty, "seed \(seed): \(faults.first ?? "")")
            if !faults.isEmpty { return }
        }
    }

    @Test func `observers receive every change in order`() throws {
        let network = SimulatedTransport(SimulatedTransport.Resource(body: Self.body(0)))
        let operation = HTTPRequestOperation(request: URLRequest(url: Self.url), transport: network)
        let queue = DispatchQueue(label: "observer")
        let seen = Seen()
        operation.keepObserving(.state, on: queue) { _, change in
            seen.changes.withLock { $0.append([change.oldValue, change.newValue]) }
        }
        operation.pause()
        operation.resume()
        operation.start()
        _ = network.step(pick: { _ in 0 })
        operation.pause()
        operation.resume()
        operation.start()
        while !operation.isFinished, network.step(pick: { $0 - 1 }) {}
        queue.sync {}
        #expect(
            seen.changes.withLock { $0 } == [
                [.ready, .paused], [.paused, .ready], [.ready, .executing], [.executing, .paused],
                [.paused, .ready], [.ready, .executing], [.executing, .finished],
            ])
    }

    private final class Seen: Sendable { let changes = Locked<[[OperationState]]>([]) }
}
