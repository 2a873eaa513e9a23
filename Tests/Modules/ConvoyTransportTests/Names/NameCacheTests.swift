import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import XCTest

@testable import ConvoyTransport

/// Tests that DNS results are cached for the configured time.
final class NameCacheTests: NamespaceTestCase {
    func testTheAnswerOfANameServerIsUsedForAsLongAsIsSaid() throws {
        try inNamespace {
            let names = try ScriptedNameServer { _, isIPv6, _ in isIPv6 ? [] : ["127.0.0.1"] }
            let server = try TestServer()
            server.route("/", .text("hello"))
            for (number, time, isAskedAgain) in [(0, nil, false), (1, 0, true), (2, 30, false), (3, -1, false)]
                as [(Int, TimeInterval?, Bool)]
            {
                let thread = NetworkThread()
                var configuration = ConnectionConfiguration()
                configuration.dnsCacheTime = time
                let name = "n\(number).example"
                let url = try XCTUnwrap(URL(string: "http://\(name):\(server.port)/"))
                func queriesOfOneMore() throws -> Int {
                    let before = names.queries(for: name)
                    let heard = try XCTUnwrap(load(URLRequest(url: url), configuration: configuration, thread: thread))
                    XCTAssertEqual(heard.text, "hello", "\(heard.ends)")
                    // The next request needs a new connection.
                    server.dropConnections()
                    return names.queries(for: name) - before
                }
                XCTAssertGreaterThan(try queriesOfOneMore(), 0, "\(number)")
                XCTAssertEqual(try queriesOfOneMore() > 0, isAskedAgain, "\(number)")
            }
        }
    }
}
