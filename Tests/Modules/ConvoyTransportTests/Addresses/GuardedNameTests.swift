import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import XCTest

@testable import ConvoyTransport

/// Tests that a name never leads to an address that the guard rejects, however many addresses it has and however often
/// they change.
final class GuardedNameTests: NamespaceTestCase {
    private func get(
        _ host: String, _ port: UInt16, guardedBy addressGuard: AddressGuard?, on thread: NetworkThread = NetworkThread(),
        timeout: TimeInterval = 5
    ) throws -> Collector.Heard {
        var configuration = ConnectionConfiguration()
        configuration.addressGuard = addressGuard
        var request = URLRequest(url: try XCTUnwrap(URL(string: "http://\(host):\(port)/")))
        request.timeoutInterval = timeout
        return try XCTUnwrap(load(request, configuration: configuration, thread: thread))
    }

    private func notLoopbackTwo() throws -> AddressGuard {
        AddressGuard(deny: [try IPNetwork("127.0.0.2"), try IPNetwork("127.0.0.4/30"), try IPNetwork("::1")])
    }

    private func server() throws -> TestServer {
        let server = try TestServer()
        server.route("/", .text("hello"))
        return server
    }

    func testRefusedAddressesOfANameArePassedOver() throws {
        try inNamespace {
            _ = try ScriptedNameServer { name, isIPv6, _ in
                switch (name.prefix { $0 != "." }, isIPv6) {
                case ("both", false), ("six", false): ["127.0.0.1"]
                case ("both", true), ("six", true): ["::1"]
                case ("order", false): ["127.0.0.2", "127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.1"]
                default: []
                }
            }
            let server = try server()
            for name in ["both", "six", "order"] {
                let before = DispatchTime.now()
                let heard = try get("\(name).example", server.port, guardedBy: notLoopbackTwo())
                XCTAssertEqual(heard.text, "hello", "\(name): \(heard.ends)")
                // libcurl itself would try the next address much later.
                XCTAssertLessThan(DispatchTime.now().uptimeNanoseconds - before.uptimeNanoseconds, 3_000_000_000, name)
            }
        }
    }

    func testANameWithoutAnyAllowedAddressIsRefused() throws {
        try inNamespace {
            _ = try ScriptedNameServer { name, isIPv6, _ in
                switch (name.prefix { $0 != "." }, isIPv6) {
                case ("one", false): ["127.0.0.2"]
                case ("one6", true): ["::1"]
                case ("two", false): ["127.0.0.2"]
                case ("two", true): ["::1"]
                case ("many", false): (4...7).map { "127.0.0.\($0)" }
                case ("mapped", true): ["::ffff:127.0.0.2"]
                default: []
                }
            }
            let counter = try AcceptCounter()
            for name in ["one", "one6", "two", "many", "mapped"] {
                let heard = try get("\(name).example", counter.port, guardedBy: notLoopbackTwo())
                XCTAssertEqual(heard.error?.code, .dataNotAllowed, "\(name): \(heard.ends)")
                XCTAssertNotNil(heard.error?.addressRefusal, name)
                XCTAssertEqual(counter.takeCount(), 0, name)
            }
        }
    }

    func testAFailureOfAnAllowedAddressIsNotCalledARefusal() throws {
        try inNamespace {
            _ = try ScriptedNameServer { _, isIPv6, _ in isIPv6 ? ["::1"] : ["127.0.0.2", "127.0.0.1"] }
            let heard = try get("name.example", try LoopbackPort.free(), guardedBy: notLoopbackTwo())
            XCTAssertEqual(heard.error?.code, .cannotConnectToHost, "\(heard.ends)")
            XCTAssertNil(heard.error?.addressRefusal)
        }
    }

    /// An attacker's name server returns a public address while the name is checked, and an internal one afterwards.
    func testANameThatChangesItsAddressDoesNotGetPastTheGuard() throws {
        try inNamespace {
            let names = try ScriptedNameServer { name, isIPv6, count in
                isIPv6 ? [] : [count == 0 ? "127.0.0.1" : "127.0.0.2"]
            }
            let (server, counter, thread) = (try server(), try AcceptCounter(), NetworkThread())
            XCTAssertEqual(try get("rebound.example", server.port, guardedBy: notLoopbackTwo(), on: thread).text, "hello")
            // A program that resolves the name itself to check it gets one address; libcurl, on another thread, gets
            // another.
            let heard = try get("rebound.example", counter.port, guardedBy: notLoopbackTwo(), on: NetworkThread())
            XCTAssertEqual(heard.error?.addressRefusal?.address.description, "127.0.0.2", "\(heard.ends)")
            XCTAssertEqual(heard.error?.code, .dataNotAllowed)
            XCTAssertEqual(counter.takeCount(), 0)
            XCTAssertGreaterThan(names.queries(for: "rebound.example"), 2)
            let second = try get("rebound.example", counter.port, guardedBy: nil, on: NetworkThread())
            XCTAssertEqual(second.error?.code, .timedOut, "without a guard, the address is reached")
            XCTAssertEqual(counter.takeCount(), 1)
        }
    }

    /// In the namespace, this machine has the address of cloud metadata services, and a public one.
    func testNothingIsSentToALinkLocalAddress() throws {
        try inNamespace {
            _ = try ScriptedNameServer { name, isIPv6, _ in
                name == "metadata.example" && !isIPv6 ? ["169.254.169.254"] : []
            }
            for address in ["169.254.169.254/32", "2001:db8::1/128"] {
                let options = address.contains(":") ? ["nodad"] : []
                guard (try? ProcessRunner.run("ip", ["addr", "add", address, "dev", "lo"] + options))?.status == 0 else {
                    return print("skipped: needs ip of iproute2, and IPv6")
                }
            }
            let (server, counter) = (try TestServer(), try AcceptCounter())
            server.redirect("/", to: "http://169.254.169.254:\(counter.port)/latest/meta-data/")
            let local = AddressGuard.publicAddresses.allowing(try IPNetwork("127.0.0.0/8"))
            for (host, port) in [
                ("127.0.0.1", server.port), ("169.254.169.254", counter.port), ("metadata.example", counter.port),
                ("[::ffff:a9fe:a9fe]", counter.port), ("0xa9fea9fe", counter.port),
            ] {
                let heard = try get(host, port, guardedBy: local)
                XCTAssertEqual(heard.error?.addressRefusal?.address.description, "169.254.169.254", "\(heard.ends)")
                XCTAssertEqual(counter.takeCount(), 0, host)
            }
            XCTAssertEqual(try get("[2001:db8::1]", counter.port, guardedBy: local).error?.code, .dataNotAllowed)
            XCTAssertEqual(counter.takeCount(), 0)
            // Without the guard, all of them can be reached.
            for host in ["169.254.169.254", "metadata.example", "[2001:db8::1]"] {
                XCTAssertEqual(try get(host, counter.port, guardedBy: nil, timeout: 0.3).error?.code, .timedOut)
                XCTAssertGreaterThan(counter.takeCount(), 0, host)
            }
            // Public addresses can be reached as well, even if the connection is distinguished by a number.
            var configuration = ConnectionConfiguration()
            configuration.connectionSource = .interface("lo")
            var request = URLRequest(url: try XCTUnwrap(URL(string: "http://[2001:db8::1]:\(counter.port)/")))
            request.timeoutInterval = 0.3
            XCTAssertEqual(load(request, configuration: configuration)?.error?.code, .timedOut)
            XCTAssertEqual(counter.takeCount(), 1)
        }
    }
}
