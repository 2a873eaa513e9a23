import ConvoySupport
import ConvoyTestSupport
import Foundation
import XCTest

@testable import ConvoyReachability

/// Hosts given by name, with a name server in the namespace.
final class HostNameTests: NetworkTestCase {
    private let queue = DispatchQueue(label: "handlers")

    func testAHostIsReachableWhileThereIsAWayToOneOfItsAddresses() throws {
        try inNamespace {
            let names = try ScriptedNameServer { _, isIPv6, _ in isIPv6 ? [] : ["198.51.100.1", "192.0.2.7"] }
            try connect()
            let host = try Listener(NetworkReachabilityManager(domain: "host.example", queue: queue))
            try ip("route del default")
            XCTAssertEqual(host.heard.all, [.reachableViaWire])
            try ip("link set v1 down")
            try host.hears(.notReachable)
            try ip("link set v1 up")
            try host.hears(.reachableViaWire)
            XCTAssertEqual(host.heard.all, [.reachableViaWire, .notReachable, .reachableViaWire])
            // Both kinds of addresses are looked up, at the start and after each change.
            try eventually { names.queries(for: "host.example") >= 8 }
        }
    }

    func testAHostThatHasMovedIsFoundWhenTheNetworkChanges() throws {
        try inNamespace {
            let address = Locked("198.51.100.1")
            let names = try ScriptedNameServer { _, isIPv6, _ in isIPv6 ? [] : [address.withLock { $0 }] }
            try connect()
            try ip("route del default")
            let host = try Listener(NetworkReachabilityManager(domain: "host.example", queue: queue))
            XCTAssertEqual(host.heard.all, [.notReachable])
            let before = names.queries(for: "host.example")
            address.withLock { $0 = "192.0.2.7" }
            try ip("addr add 203.0.113.2/24 dev v0")
            try host.hears(.reachableViaWire)
            XCTAssertGreaterThan(names.queries(for: "host.example"), before)
        }
    }

    func testANameServerThatFallsSilentDoesNotMakeAHostUnreachableThatHasAWay() throws {
        try inNamespace {
            let isSilent = Locked(false)
            let lookUp: @Sendable (String) -> NameLookup = { _ in
                isSilent.withLock { $0 } ? .failure : .addresses(["192.0.2.7"].compactMap { HostAddress($0) })
            }
            try connect()
            let watch = NetworkWatch()
            let host = try Listener(
                NetworkReachabilityManager(
                    source: DomainSource(name: "host.example", watch: watch, lookUp: lookUp), queue: queue))
            isSilent.withLock { $0 = true }
            let before = watch.counts.wakeUps
            try ip("addr add 203.0.113.2/24 dev v0")
            // The thread wakes up for the change, its end, and the end of the lookup.
            try eventually { watch.counts.wakeUps >= before + 3 }
            try ip("link set v1 down")
            try host.hears(.notReachable)
            try ip("link set v1 up")
            try host.hears(.reachableViaWire)
            XCTAssertEqual(host.heard.all, [.reachableViaWire, .notReachable, .reachableViaWire])
        }
    }
}
