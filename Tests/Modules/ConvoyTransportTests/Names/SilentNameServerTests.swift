import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import XCTest

@testable import ConvoyTransport

/// Tests that a name server that never responds delays only the transfers that need it. The tests use XCTest, which can
/// run single tests: each test runs itself again in a child process, in which that name server is the only one.
final class SilentNameServerTests: XCTestCase {
    /// The environment variable that is set in the child process.
    private static let mark = "CONVOY_TEST_IN_NAMESPACE"
    /// The time in seconds until the resolver repeats a query. The resolver gives up after twice that time.
    private static let retryInterval = 15

    /// Runs the body with the silent name server, in a child process that runs only this test.
    private func withSilentNameServer(_ body: (SilentNameServer) throws -> Void, name: String = #function) throws {
        if ProcessInfo.processInfo.environment[Self.mark] != nil { return try body(SilentNameServer()) }
        guard SilentNameServer.isPossible else { throw XCTSkip("needs \(SilentNameServer.hint)") }
        let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let test = "ConvoyTransportTests.SilentNameServerTests/\(name.prefix { $0 != "(" })"
        let result = try SilentNameServer.run(
            program, [test], environment: [Self.mark: "1"], retryInterval: Self.retryInterval, timeout: 150)
        XCTAssertEqual(result.status, 0, result.text + result.errorText)
        XCTAssertTrue(result.text.contains("Executed 1 test"), "the wrong test ran: \(result.text)")
    }

    /// Begins a transfer to a name, and returns once the name server has received a query for it.
    private func askForName(
        _ names: SilentNameServer, timeout: TimeInterval, on thread: NetworkThread
    ) throws -> (RequestChain, Collector) {
        var request = URLRequest(url: try XCTUnwrap(URL(string: "http://convoy-test.example/")))
        request.timeoutInterval = timeout
        let collector = Collector()
        let connection = RequestChain(request: request, delegate: collector, thread: thread)
        connection.start()
        try eventually("a query") { names.queries > 0 }
        return (connection, collector)
    }

    /// Checks that a transfer that needs no DNS finishes before the resolver repeats its query.
    private func expectOthersToGoOn(_ server: TestServer, _ names: SilentNameServer, on thread: NetworkThread) throws {
        let asked = names.queries
        let heard = try XCTUnwrap(load(URLRequest(url: server.url("/quick")), thread: thread))
        XCTAssertEqual(heard.text, "quick")
        // The resolver sends queries for two kinds of addresses at nearly the same time.
        XCTAssertLessThanOrEqual(names.queries, max(asked, 2), "the transfer waited for the resolver")
    }

    private func server() throws -> TestServer {
        let server = try TestServer()
        server.route(nil, "/quick", .text("quick"))
        return server
    }

    func testALookupThatWaitsHoldsUpNobody() throws {
        try withSilentNameServer { names in
            let (server, thread) = (try server(), NetworkThread())
            let (connection, _) = try askForName(names, timeout: 0, on: thread)
            try expectOthersToGoOn(server, names, on: thread)
            connection.cancel()
        }
    }

    func testACancelDuringALookupHoldsUpNobody() throws {
        try withSilentNameServer { names in
            let (server, thread) = (try server(), NetworkThread())
            let (connection, collector) = try askForName(names, timeout: 0, on: thread)
            connection.cancel()
            try expectOthersToGoOn(server, names, on: thread)
            guard case .cancelled? = collector.wait()?.ends.first else { return XCTFail("the transfer was not cancelled") }
        }
    }

    func testATimeoutDuringALookupHoldsUpNobody() throws {
        try withSilentNameServer { names in
            let (server, thread) = (try server(), NetworkThread())
            let (_, collector) = try askForName(names, timeout: 0.2, on: thread)
            XCTAssertEqual(collector.wait()?.error?.code, .timedOut)
            XCTAssertLessThanOrEqual(names.queries, 2, "the transfer ended only after the resolver had given up")
            try expectOthersToGoOn(server, names, on: thread)
        }
    }

    func testManyCancelsDuringLookupsHoldUpNobody() throws {
        try withSilentNameServer { names in
            let (server, thread) = (try server(), NetworkThread())
            let pairs = try (0..<5).map { number in
                let url = try XCTUnwrap(URL(string: "http://convoy-test-\(number).example/"))
                let collector = Collector()
                return (RequestChain(request: URLRequest(url: url), delegate: collector, thread: thread), collector)
            }
            for (connection, _) in pairs { connection.start() }
            try eventually("queries") { names.queries >= 5 }
            for (connection, _) in pairs { connection.cancel() }
            let heard = try XCTUnwrap(load(URLRequest(url: server.url("/quick")), thread: thread))
            XCTAssertEqual(heard.text, "quick")
            XCTAssertLessThanOrEqual(names.queries, 10, "the transfers waited for the resolver")
            for (_, collector) in pairs {
                guard case .cancelled? = collector.wait()?.ends.first else { return XCTFail("the transfer did not end") }
            }
        }
    }
}
