import ConvoySession
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import XCTest

/// Sessions that must not use a mobile network.
final class CellularAccessTests: NetworkTestCase {
    private func error(_ url: URL, _ change: (inout SessionConfiguration, inout URLRequest) -> Void) throws -> URLError? {
        var configuration = SessionConfiguration.ephemeral
        configuration.connection.proxy = .none
        var request = URLRequest(url: url)
        request.timeoutInterval = 0.3
        change(&configuration, &request)
        let manager = URLSessionManager(configuration: configuration, completionQueue: .global())
        let task = manager.dataTask(with: request)
        task.resume()
        try eventually("the end") { task.state == .completed }
        return task.error as? URLError
    }

    func testARequestIsRefusedWhereTheWayToItsHostIsOverAMobileNetwork() throws {
        try inNamespace {
            try ip(
                "link set v0 name wwan0", "link set wwan0 up", "link set v1 up", "addr add 192.0.2.2/24 dev wwan0",
                "route add default via 192.0.2.1 dev wwan0")
            let outside = try XCTUnwrap(URL(string: "http://192.0.2.77/"))
            try eventually("the link") { try error(outside) { $1.allowsCellularAccess = false }?.code == .dataNotAllowed }
            XCTAssertEqual(
                try error(outside) { configuration, _ in configuration.allowsCellularAccess = false }?.code, .dataNotAllowed)
            // No server exists at this address, but nothing else prevents the request.
            XCTAssertNotEqual(try error(outside) { _, _ in }?.code, .dataNotAllowed)
            let server = try TestServer()
            server.route("/", .json(text: "{}"))
            XCTAssertNil(try error(server.url("/")) { configuration, _ in configuration.allowsCellularAccess = false })
            server.stop()
        }
    }
}
