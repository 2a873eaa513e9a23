import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import XCTest

@testable import ConvoyReachability

/// Retry delays that end early when the network is restored.
final class EarlyRetryTests: NetworkTestCase {
    private let queue = RequestOperationQueue()

    /// Returns an operation whose retries wait for years.
    private func operation(
        _ host: String, port: UInt16, path: String = "/", wakes: Bool = true
    ) throws -> (HTTPRequestOperation, Record<RetryEvent>) {
        var request = URLRequest(url: try XCTUnwrap(URL(string: "http://\(host):\(port)\(path)")))
        request.timeoutInterval = 5
        let operation = HTTPRequestOperation(request: request)
        var configuration = ConnectionConfiguration()
        configuration.proxy = .none
        operation.connectionConfiguration = configuration
        var policy = RetryPolicy()
        (policy.initialDelay, policy.maximumDelay) = (1e8, 1e8)
        policy.retriesWhenNetworkReturns = wakes
        operation.retryPolicy = policy
        let events = Record<RetryEvent>()
        operation.completionQueue = DispatchQueue(label: "handlers")
        operation.retryHandler = { _, event in events.add(event) }
        return (operation, events)
    }

    private func server() throws -> TestServer {
        let server = try TestServer()
        server.route(nil, "/", .text("hello"))
        server.route(nil, "/busy", .status(503).header("Retry-After", "1000"))
        return server
    }

    /// Starts a name server that knows no names until the test adds them.
    private func names(_ areKnown: Flag) throws -> ScriptedNameServer {
        try ScriptedNameServer { _, isIPv6, _ in areKnown.isSet && !isIPv6 ? ["127.0.0.1"] : [] }
    }

    private func isInItsWait(_ operation: HTTPRequestOperation, _ events: Record<RetryEvent>) -> Bool {
        guard case .retry? = events.all.last?.decision else { return false }
        return operation.state == .ready
    }

    func testARequestThatFailedWithoutANetworkIsTriedAgainWhenThereIsOneIfThePolicySaysSo() throws {
        try inNamespace {
            let (areKnown, server) = (Flag(), try server())
            let names = try names(areKnown)
            let (wakes, heard) = try operation("host.example", port: server.port)
            let (sleeps, silent) = try operation("host.example", port: server.port, wakes: false)
            for operation in [wakes, sleeps] { queue.addOperation(operation) }
            try eventually { isInItsWait(wakes, heard) && isInItsWait(sleeps, silent) && NetworkReturn.shared.count == 1 }
            areKnown.set()
            let start = MonotonicClock.now
            try connect()
            try eventually { wakes.isFinished }
            XCTAssertLessThan(Nanoseconds.seconds(from: start, to: MonotonicClock.now), 2)
            XCTAssertEqual(wakes.responseString, "hello")
            XCTAssertEqual(wakes.retryCount, 1)
            XCTAssertEqual(NetworkReturn.shared.count, 0)
            XCTAssertTrue(isInItsWait(sleeps, silent))
            sleeps.cancel()
            try eventually { sleeps.isFinished }
            withExtendedLifetime(names) {}
        }
    }

    func testANetworkThatGoesAndComesBackInTheWaitEndsIt() throws {
        try inNamespace {
            let (areKnown, server) = (Flag(), try server())
            let names = try names(areKnown)
            try connect()
            let all = try Listener(NetworkReachabilityManager(queue: DispatchQueue(label: "all")))
            let (operation, events) = try operation("host.example", port: server.port)
            queue.addOperation(operation)
            try eventually { isInItsWait(operation, events) && NetworkReturn.shared.count == 1 }
            // This change does not affect the route.
            try ip("addr add 203.0.113.2/24 dev v0")
            let near = try Listener(NetworkReachabilityManager(address: "203.0.113.7", queue: DispatchQueue(label: "near")))
            try near.hears(.reachableViaWire)
            XCTAssertTrue(isInItsWait(operation, events))
            try ip("link set v1 down")
            try all.hears(.notReachable)
            XCTAssertTrue(isInItsWait(operation, events))
            // Add the name only now: it is resolved after each change, and the kernel keeps the route without the
            // cable.
            areKnown.set()
            try ip("link set v1 up")
            try eventually { operation.isFinished }
            XCTAssertEqual(operation.responseString, "hello")
            XCTAssertEqual(operation.retryCount, 1)
            withExtendedLifetime(names) {}
        }
    }

    func testAFailureForWantOfANetworkClosesNoGateAndTheRetryIsOneOfThePolicys() throws {
        try inNamespace {
            let listener = try AcceptCounter()
            let (operation, events) = try operation("192.0.2.2", port: listener.port)
            queue.addOperation(operation)
            try eventually { isInItsWait(operation, events) && NetworkReturn.shared.count == 1 }
            XCTAssertTrue(queue.closedGates.isEmpty)
            try ip("link set v0 up", "link set v1 up", "addr add 192.0.2.2/24 dev v0")
            // The address now belongs to this machine, which refuses the connection. This counts as a failure with a
            // network.
            try eventually { listener.takeCount() == 1 }
            try eventually { events.all.count == 2 && isInItsWait(operation, events) }
            XCTAssertEqual(events.all.map(\.retryCount), [0, 1])
            operation.pause()
            try eventually("no needless wait") { NetworkReturn.shared.count == 0 }
            operation.resume()
            operation.cancel()
            try eventually { operation.isFinished && NetworkReturn.shared.count == 0 }
        }
    }

    func testAWaitThatAServerHasAskedForKeepsItsLength() throws {
        try inNamespace {
            let server = try server()
            try connect()
            let all = try Listener(NetworkReachabilityManager(queue: DispatchQueue(label: "all")))
            let (operation, events) = try operation("127.0.0.1", port: server.port, path: "/busy")
            queue.addOperation(operation)
            try eventually { isInItsWait(operation, events) }
            XCTAssertEqual(NetworkReturn.shared.count, 0)
            try ip("link set v1 down")
            try all.hears(.notReachable)
            try ip("link set v1 up")
            try all.hears(.reachableViaWire)
            XCTAssertTrue(isInItsWait(operation, events))
            XCTAssertEqual(server.requests.count, 1)
            operation.cancel()
            try eventually { operation.isFinished }
        }
    }
}
