import ConvoyTestSupport
import Foundation
import XCTest

@testable import ConvoyReachability

/// Changes of a real network, each of which is reported once, within a second.
final class ChangeTests: NetworkTestCase {
    private let queue = DispatchQueue(label: "handlers")

    func testACableThatIsPulledAndPutBackIsReportedOnceEach() throws {
        try inNamespace {
            try connect()
            let all = try Listener(NetworkReachabilityManager(queue: queue))
            let near = try Listener(NetworkReachabilityManager(address: "192.0.2.7", queue: queue))
            for _ in 0..<3 {
                try ip("link set v1 down")
                for listener in [all, near] { try listener.hears(.notReachable) }
                try ip("link set v1 up")
                for listener in [all, near] { try listener.hears(.reachableViaWire) }
            }
            for listener in [all, near] {
                XCTAssertEqual(
                    listener.heard.all.map(\.isReachable), [true, false, true, false, true, false, true])
            }
        }
    }

    func testALinkThatIsSwitchedOffTakesItsRoutesAlong() throws {
        try inNamespace {
            try connect()
            let all = try Listener(NetworkReachabilityManager(queue: queue))
            let near = try Listener(NetworkReachabilityManager(address: "192.0.2.7", queue: queue))
            try ip("link set v0 down")
            for listener in [all, near] { try listener.hears(.notReachable) }
            try ip("link set v0 up")
            try near.hears(.reachableViaWire)
            XCTAssertEqual(all.manager.networkReachabilityStatus, .notReachable, "the default route is not restored")
            try ip("route add default via 192.0.2.1")
            try all.hears(.reachableViaWire)
            XCTAssertEqual(all.heard.all, [.reachableViaWire, .notReachable, .reachableViaWire])
            XCTAssertEqual(near.heard.all, all.heard.all)
        }
    }

    func testAnAddressOrADefaultRouteThatGoesTakesTheWayAlong() throws {
        try inNamespace {
            try connect()
            let all = try Listener(NetworkReachabilityManager(queue: queue))
            let near = try Listener(NetworkReachabilityManager(address: "192.0.2.7", queue: queue))
            let own = try Listener(NetworkReachabilityManager(address: "192.0.2.2", queue: queue))
            try ip("route del default")
            try all.hears(.notReachable)
            try ip("addr del 192.0.2.2/24 dev v0")
            for listener in [near, own] { try listener.hears(.notReachable) }
            // A route without a source address is not usable.
            try ip("route add default dev v0")
            try ip("addr add 192.0.2.2/24 dev v0")
            for listener in [all, near, own] { try listener.hears(.reachableViaWire) }
            for listener in [all, near, own] {
                XCTAssertEqual(listener.heard.all, [.reachableViaWire, .notReachable, .reachableViaWire])
            }
        }
    }

    func testRulesAndRoutesThatThrowPacketsAwayAreNoWay() throws {
        try inNamespace {
            try connect()
            let far = try Listener(NetworkReachabilityManager(address: "198.51.100.1", queue: queue))
            for (add, remove) in [
                ("route add unreachable 198.51.100.0/24", "route del unreachable 198.51.100.0/24"),
                ("route add blackhole 198.51.100.1/32", "route del blackhole 198.51.100.1/32"),
                ("rule add to 198.51.100.0/24 prohibit", "rule del to 198.51.100.0/24 prohibit"),
            ] {
                try ip(add)
                try far.hears(.notReachable)
                try ip(remove)
                try far.hears(.reachableViaWire)
            }
            XCTAssertEqual(far.heard.all.count, 7, "\(far.heard.all)")
        }
    }

    func testIPv6IsAWayOnceTheMachineHasAnAddressForIt() throws {
        try inNamespace {
            try ip("link set v0 up", "link set v1 up")
            let all = try Listener(NetworkReachabilityManager(queue: queue))
            XCTAssertEqual(all.heard.all, [.notReachable])
            // The link-local address, which the link already has or will get, cannot be used outside.
            try ip("route add default via fe80::1 dev v0", "addr add 2001:db8::2/64 dev v0 nodad")
            try all.hears(.reachableViaWire)
            let neighbour = try Listener(NetworkReachabilityManager(address: "fe80::9%v0", queue: queue))
            try eventually { neighbour.heard.all.last == .reachableViaWire }
            try ip("addr del 2001:db8::2/64 dev v0")
            try all.hears(.notReachable)
            try ip("link del v0")
            try neighbour.hears(.notReachable)
        }
    }

    func testTheKindIsThatOfTheLinkWhereTheWayBegins() throws {
        try inNamespace {
            try ip("link add wwan0 type veth peer name w1", "link set wwan0 up", "link set w1 up")
            try ip("addr add 203.0.113.2/24 dev wwan0", "route add default via 203.0.113.1 metric 700")
            let all = try Listener(NetworkReachabilityManager(queue: queue))
            try connect()
            try all.hears(.reachableViaWire)
            try ip("route del default via 192.0.2.1")
            try all.hears(.reachableViaWWAN)
            XCTAssertTrue(all.manager.isReachableViaWWAN)
            XCTAssertEqual(all.heard.all, [.reachableViaWWAN, .reachableViaWire, .reachableViaWWAN])
        }
    }

    func testAManagerThatIsStoppedHearsNothingAndHearsTheStatusWhenItIsStartedAgain() throws {
        try inNamespace {
            try connect()
            let all = try Listener(NetworkReachabilityManager(queue: queue))
            let other = try Listener(NetworkReachabilityManager(queue: queue))
            all.manager.stopMonitoring()
            try ip("link set v1 down")
            try other.hears(.notReachable)
            queue.sync {}
            XCTAssertEqual(all.heard.all, [.reachableViaWire])
            XCTAssertEqual(all.manager.networkReachabilityStatus, .unknown)
            try all.manager.startMonitoring()
            try all.hears(.notReachable)
            try ip("link set v1 up")
            for listener in [all, other] { try listener.hears(.reachableViaWire) }
            XCTAssertEqual(all.heard.all, [.reachableViaWire, .notReachable, .reachableViaWire])
        }
    }
}
