import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that a dependency added after an operation has begun is listed but has no effect.
@Suite struct LateDependencyTests {
    enum Place: CaseIterable, Sendable {
        case requestQueue, foundationQueue, noQueue
    }

    let server: TestServer
    let gate = TestServer.Gate()
    private let never = ScheduledBlockOperation {}

    init() throws {
        server = try TestServer()
        server.route("GET", "/held", .text("held").held(by: gate))
    }

    private func begin(_ operation: HTTPRequestOperation, in place: Place) throws {
        switch place {
        case .requestQueue: RequestOperationQueue().addOperation(operation)
        case .foundationQueue: OperationQueue().addOperation(operation)
        case .noQueue: operation.start()
        }
        try server.waitForRequests(count: 1, timeout: patience)
    }

    @Test(arguments: Place.allCases) func `a paused operation does not wait for late dependencies when it is resumed`(
        place: Place
    ) throws {
        let probe = Probe(server.url("/held"))
        try begin(probe.operation, in: place)
        probe.operation.pause()
        probe.operation.addDependency(never)
        #expect(probe.operation.dependencies == [never])
        gate.open()
        probe.operation.resume()
        #expect(probe.outcome() == Probe.succeeded)
    }

    @Test(arguments: Place.allCases) func `an operation that is retried does not wait for late dependencies`(
        place: Place
    ) throws {
        server.route("GET", "/x", inTurn: [.status(500).held(by: gate), .text("well")])
        let probe = Probe(server.url("/x"))
        var policy = RetryPolicy()
        policy.initialDelay = 0
        probe.operation.retryPolicy = policy
        try begin(probe.operation, in: place)
        probe.operation.addDependency(never)
        gate.open()
        #expect(probe.outcome() == Probe.succeeded)
        #expect(probe.operation.retryCount == 1)
    }

    @Test(arguments: Place.allCases)
    func `an operation paused before it begins waits for dependencies added then`(place: Place) throws {
        let probe = Probe(server.url("/held"))
        gate.open()
        probe.operation.pause()
        let first = ScheduledBlockOperation {}
        probe.operation.addDependency(first)
        switch place {
        case .requestQueue: RequestOperationQueue().addOperation(probe.operation)
        case .foundationQueue: OperationQueue().addOperation(probe.operation)
        case .noQueue: probe.operation.start()
        }
        probe.operation.resume()
        #expect(server.requests.isEmpty && !probe.operation.isExecuting)
        first.start()
        if place == .noQueue { probe.operation.start() }
        #expect(probe.outcome() == Probe.succeeded)
    }
}
