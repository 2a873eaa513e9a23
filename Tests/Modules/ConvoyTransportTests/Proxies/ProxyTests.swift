import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import XCTest

/// Proxies from the environment. The tests use XCTest, which runs them serially in a separate process, because they
/// share the environment.
final class ProxyTests: XCTestCase {
    func testAProxyFromTheEnvironmentIsUsed() throws {
        let server = try TestServer()
        server.route(nil, "/*", .text("by proxy"))
        setenv("http_proxy", server.url.absoluteString, 1)
        defer { unsetenv("http_proxy") }
        let url = try XCTUnwrap(URL(string: "http://known-to-the-proxy.invalid/x"))
        var request = URLRequest(url: url)
        request.setValue("Basic x", forHTTPHeaderField: "Proxy-Authorization")
        XCTAssertEqual(load(request)?.isFinished, true)
        XCTAssertEqual(server.requests.last?.target, "http://known-to-the-proxy.invalid/x")
        XCTAssertEqual(server.requests.last?.headers["Proxy-Authorization"], "Basic x")
    }

    func testAnOriginNeverSeesTheProxysCredentials() throws {
        let server = try TestServer()
        server.route(nil, "/x", .text("direct"))
        var request = URLRequest(url: server.url("/x"))
        request.setValue("Basic x", forHTTPHeaderField: "Proxy-Authorization")
        XCTAssertEqual(load(request)?.isFinished, true)
        XCTAssertNil(server.requests.last?.headers["Proxy-Authorization"])
    }

    func testAHostThatTheEnvironmentExemptsIsReachedDirectly() throws {
        let server = try TestServer()
        server.route(nil, "/x", .text("direct"))
        setenv("http_proxy", "http://127.0.0.1:1", 1)
        setenv("no_proxy", "127.0.0.1", 1)
        defer {
            unsetenv("http_proxy")
            unsetenv("no_proxy")
        }
        XCTAssertEqual(load(server.url("/x"))?.text, "direct")
    }
}
