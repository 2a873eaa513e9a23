import ConvoyOperations
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Tests of strings as URLs. A manager requests exactly the resource that a string names, and never another host.
@Suite struct ManagerURLTests {
    let server: TestServer
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        manager = HTTPRequestOperationManager(baseURL: server.url("/dir/"))
        manager.completionQueue = testQueue
    }

    @Test(arguments: ReferenceCase.all) func `a URL string names exactly one resource`(given: ReferenceCase) throws {
        let reference = given.reference(to: "127.0.0.1:\(server.port)")
        guard let target = given.target else {
            let error = #expect(throws: URLError.self) { try manager.url(for: reference) }
            #expect(error?.code == .badURL)
            return
        }
        let probe = Probe(try manager.url(for: reference))
        probe.operation.start()
        _ = try #require(probe.outcome())
        #expect(server.requests.last?.target == target)
    }

    @Test func `a base URL that is relative to another URL is also a directory`() throws {
        let manager = HTTPRequestOperationManager(baseURL: URL(string: "dir", relativeTo: server.url("/")))
        #expect(try manager.url(for: "x").absoluteString == server.url("/dir/x").absoluteString)
    }

    @Test(arguments: [
        "localhost:18103", "example.com/api", "example.com:80/a", "//example.com/", "http:a", "127.0.0.1:80/a",
    ])
    func `an error names an invalid base URL, unless the URL does not need it`(text: String) throws {
        let base = URL(string: text)
        let manager = HTTPRequestOperationManager(baseURL: base)
        let error = #expect(throws: URLError.self) { try manager.url(for: "get") }
        let message = try #require(error).localizedDescription
        // Foundation cannot create a URL from a numeric address with a port.
        let cause = base == nil ? "no base URL is set" : "Invalid base URL \"\(text)"
        #expect(error?.code == .badURL && message.contains(cause) && message.contains("\"http://\""), "\(message)")
        #expect(try manager.url(for: "http://example.com/a").absoluteString == "http://example.com/a")
    }

    @Test(arguments: ["x", "/x", "?x=@", "x@y"])
    func `a base URL with a password is rejected for each request`(path: String) async throws {
        let base = try #require(URL(string: "http://ada:s3cret@127.0.0.1:\(server.port)/dir/"))
        let manager = HTTPRequestOperationManager(baseURL: base, completionQueue: testQueue)
        let error = await #expect(throws: URLError.self) { try await manager.get(path) }
        #expect(error?.code == .badURL && !"\(error as Any)".contains("s3cret"))
        #expect(server.totalConnectionCount == 0)
    }

    @Test(arguments: ["", "#x", "?", "a\nb", "a\rb", "a\u{0}b", "\n//evil.invalid/", "\r\nHost: evil.invalid"])
    func `a reference with characters that are invalid in a header stays under the base URL`(reference: String) throws {
        let url = try manager.url(for: reference)
        #expect(
            url.host == "127.0.0.1" && url.port == Int(server.port)
                && url.absoluteString.hasPrefix(server.url("/dir/").absoluteString))
        let probe = Probe(url)
        probe.operation.start()
        _ = try #require(probe.outcome())
        #expect(server.requests.last?.target.hasPrefix("/dir/") == true)
    }
}
