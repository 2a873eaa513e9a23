import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyReachability

/// A host given by name, with a scripted resolver.
@Suite struct DomainSourceTests {
    /// Returns the answers in order, repeats the last one, and counts the lookups.
    private final class Resolver: Sendable {
        private let answers: Locked<[NameLookup]>
        private let count = Locked(0)
        /// A closure that is called before each answer.
        private let wait: @Sendable (Int) -> Void

        init(_ answers: [NameLookup], wait: @escaping @Sendable (Int) -> Void = { _ in }) {
            self.answers = Locked(answers)
            self.wait = wait
        }

        func answer(_ name: String) -> NameLookup {
            let number = count.withLock { count in
                count += 1
                return count
            }
            wait(number)
            return answers.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }
        }

        var queries: Int { count.withLock { $0 } }
    }

    private static let loopback = NameLookup.addresses([HostAddress("127.0.0.1")].compactMap { $0 })

    private func run(
        _ resolver: Resolver, delays: [TimeInterval] = [], _ body: (Record<NetworkReachabilityStatus>) throws -> Void
    ) throws {
        let source = DomainSource(
            name: "host.example", watch: NetworkWatch(), lookUp: { resolver.answer($0) }, retryDelays: delays)
        let heard = Record<NetworkReachabilityStatus>()
        let end = try source.begin { heard.add($0) }
        defer { end() }
        try body(heard)
    }

    @Test func `a name is reachable if one of its addresses has a route`() throws {
        try run(Resolver([Self.loopback])) { heard in try eventually { heard.all == [.reachableViaWire] } }
    }

    @Test func `a name that does not exist or cannot be resolved is not reachable`() throws {
        for answer in [NameLookup.doesNotExist, .failure] {
            try run(Resolver([answer])) { heard in try eventually { heard.all.contains(.notReachable) } }
        }
    }

    @Test func `nothing is reported before the first lookup, and the monitor thread does not wait`() throws {
        let answering = DispatchSemaphore(value: 0)
        let watch = NetworkWatch()
        let slow = Resolver([Self.loopback]) { _ in answering.wait() }
        let (heard, other) = (Record<NetworkReachabilityStatus>(), Record<NetworkReachabilityStatus>())
        let ends = [
            try DomainSource(name: "slow.example", watch: watch, lookUp: { slow.answer($0) }).begin { heard.add($0) },
            try AddressSource(addresses: [HostAddress("::1")].compactMap { $0 }, watch: watch).begin { other.add($0) },
        ]
        try eventually { slow.queries == 1 && other.all == [.reachableViaWire] }
        #expect(heard.all.isEmpty)
        answering.signal()
        try eventually { heard.all == [.reachableViaWire] }
        for end in ends { end() }
    }

    @Test(.enabled(if: Self.isOnline, "this requires a route to the Internet"))
    func `a failed lookup is retried a few times`() throws {
        let resolver = Resolver([.failure, .failure, Self.loopback])
        try run(resolver, delays: [0.01, 0.02, 0.03]) { heard in
            try eventually { heard.all.last == .reachableViaWire }
            #expect(resolver.queries == 3)
        }
        let silent = Resolver([.failure])
        try run(silent, delays: [0.01, 0.02]) { heard in
            try eventually { silent.queries == 3 }
            letOthersRun(microseconds: 100_000)
            #expect(silent.queries == 3 && heard.all.allSatisfy { $0 == .notReachable })
        }
    }

    private static var isOnline: Bool {
        (try? PathFinder())?.status(of: AddressSource.outside)?.isReachable == true
    }
}
