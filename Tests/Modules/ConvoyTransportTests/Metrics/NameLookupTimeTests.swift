import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import XCTest

@testable import ConvoyTransport

/// The time of DNS lookups with a slow name server.
final class NameLookupTimeTests: NamespaceTestCase {
    private var configuration: ConnectionConfiguration {
        var configuration = ConnectionConfiguration()
        configuration.collectsMetrics = true
        return configuration
    }

    func testANameServerThatIsSlowMakesTheLookupLast() throws {
        try inNamespace {
            _ = try ScriptedNameServer { _, isIPv6, _ in
                Thread.sleep(forTimeInterval: 0.3)
                return isIPv6 ? [] : ["127.0.0.1"]
            }
            let server = try TestServer()
            server.route("/", .text("hello").closing())
            let url = try XCTUnwrap(URL(string: "http://slow.example:\(server.port)/"))
            let thread = NetworkThread()
            let heard = try XCTUnwrap(load(URLRequest(url: url), configuration: configuration, thread: thread))
            XCTAssertEqual(heard.text, "hello", "\(heard.ends)")
            let metrics = try XCTUnwrap(heard.metrics.first)
            let lookup = metrics.duration(of: .nameLookup)
            XCTAssertGreaterThanOrEqual(lookup, 0.3)
            XCTAssertGreaterThan(lookup, metrics.duration - lookup, "\(metrics)")
            XCTAssertEqual(TransactionPhase.allCases.map(metrics.duration(of:)).reduce(0, +), metrics.duration)
            XCTAssertEqual(metrics.remoteAddress, "127.0.0.1")

            // The name is now cached, but the connection no longer exists.
            let again = try XCTUnwrap(load(URLRequest(url: url), configuration: configuration, thread: thread))
            let second = try XCTUnwrap(again.metrics.first)
            XCTAssertFalse(second.isReusedConnection)
            XCTAssertLessThan(second.duration(of: .nameLookup), lookup / 3, "\(second)")
        }
    }

    func testTheTimeOfALookupThatEndsWithoutANameIsItsOwn() throws {
        try inNamespace {
            let names = try SilentNameServer()
            let url = try XCTUnwrap(URL(string: "http://silent.example/"))
            let collector = Collector()
            let connection = RequestChain(
                request: URLRequest(url: url), configuration: configuration, delegate: collector, thread: NetworkThread())
            connection.start()
            try eventually("a query") { names.queries > 0 }
            DispatchQueue.global().asyncAfter(deadline: .now() + 0.3) { connection.cancel() }
            let metrics = try XCTUnwrap(collector.wait()?.metrics.first)
            XCTAssertNil(metrics.nameFound)
            XCTAssertGreaterThanOrEqual(metrics.duration(of: .nameLookup), 0.3, "\(metrics)")
            XCTAssertGreaterThan(metrics.duration(of: .nameLookup), metrics.duration * 0.5, "\(metrics)")
        }
    }
}
