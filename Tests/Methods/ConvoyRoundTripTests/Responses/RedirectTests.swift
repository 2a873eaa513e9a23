import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Redirects and cookies of an independent server.
@Suite(.needsHttpbin) struct RedirectTests {
    let manager: HTTPRequestOperationManager

    init() throws { manager = try Shared.manager() }

    @Test(arguments: ["relative-redirect/5", "absolute-redirect/5", "redirect/20", "redirect/20?absolute=true"])
    func `a chain of redirects is followed to its end`(path: String) async throws {
        let operation = try await manager.response(.get, path)
        #expect(operation.statusCode == 200)
        #expect(operation.response?.url?.path == "/get")
        let url = (operation.responseObject as? [String: Any])?["url"] as? String
        #expect(url == (try manager.url(for: "get").absoluteString))
    }

    @Test func `a request with more than twenty redirects fails`() async throws {
        let (_, error) = try await manager.failure(.get, "redirect/21")
        #expect((error as? URLError)?.code == .httpTooManyRedirects)
    }

    @Test func `each redirect can be observed, and the last one rejected`() async throws {
        let operation = try manager.makeOperation(.get, "relative-redirect/3")
        operation.responseSerializer = HTTPResponseSerializer()
        let seen = Locked<[String]>([])
        operation.redirectHandler = { _, request, response in
            let count = seen.withLock { seen in
                seen.append("\(response?.statusCode ?? 0) \(request.url?.path ?? "")")
                return seen.count
            }
            return count < 3 ? request : nil
        }
        await #expect(throws: NSError.self) { try await manager.enqueue(operation).finished() }
        #expect(seen.withLock { $0 } == ["302 /relative-redirect/2", "302 /relative-redirect/1", "302 /get"])
        #expect(operation.statusCode == 302)
    }

    @Test(arguments: [307, 308])
    func `a redirect that keeps the method keeps the body`(status: Int) async throws {
        let echo: Echo = try await manager.post(
            "redirect-to?url=/anything&status_code=\(status)", parameters: ["a": "b c"])
        #expect(echo.method == "POST" && echo.form == ["a": "b c"] && echo.url.hasSuffix("/anything"))
        let put: Echo = try await manager.put(
            "redirect-to?url=/anything&status_code=\(status)", parameters: ["a": "b c"])
        #expect(put.method == "PUT" && put.form == ["a": "b c"])
    }

    @Test(arguments: [301, 302, 303])
    func `a redirect that changes the method drops the body`(status: Int) async throws {
        let echo: Echo = try await manager.post(
            "redirect-to?url=/anything&status_code=\(status)", parameters: ["a": "b c"])
        #expect(echo.method == "GET" && echo.form == [:] && echo.data == "")
        #expect(echo.header("Content-Type") == nil && echo.header("Content-Length") == nil)
        let put: Echo = try await manager.put(
            "redirect-to?url=/anything&status_code=\(status)", parameters: ["a": "b c"])
        #expect(put.method == (status == 303 ? "GET" : "PUT"))
    }

    @Test func `credentials are not sent on a redirect to another host`() async throws {
        let port = try Shared.httpbin().port
        let target = "http://localhost:\(port)/anything"
        let echo: Echo = try await manager.get(
            "redirect-to", parameters: ["url": target],
            headers: ["Authorization": "Bearer secret", "Cookie": "a=b", "Accept": "text/x", "X-Left": "yes"])
        #expect(echo.header("Host") == "localhost:\(port)" && echo.header("Accept") == "text/x")
        #expect(echo.header("X-Left") == nil)
        #expect(echo.header("Authorization") == nil && echo.header("Cookie") == nil)
    }

    // MARK: Cookies

    @Test func `a manually set cookie arrives`() async throws {
        let answer: [String: [String: String]] = try await manager.get(
            "cookies", headers: ["Cookie": "flavour=chocolate; size=large"])
        #expect(answer == ["cookies": ["flavour": "chocolate", "size": "large"]])
    }

    @Test func `a manually set cookie is kept on a redirect to the same host`() async throws {
        let answer: [String: [String: String]] = try await manager.get(
            "redirect-to?url=/cookies", headers: ["Cookie": "flavour=chocolate"])
        #expect(answer == ["cookies": ["flavour": "chocolate"]])
    }

    @Test func `the cookies that a response sets can be read`() async throws {
        let operation = try manager.makeOperation(.get, "cookies/set?flavour=chocolate&size=large")
        var serializer = HTTPResponseSerializer()
        serializer.acceptableStatusCodes = .successfulOrRedirected
        operation.responseSerializer = serializer
        operation.redirectHandler = { _, _, _ in nil }
        try await manager.enqueue(operation).finished()
        #expect(operation.statusCode == 302)
        let field = operation.response?.value(forHTTPHeaderField: "Set-Cookie")
        #expect(field?.contains("flavour=chocolate; Path=/") == true && field?.contains("size=large; Path=/") == true)
        let response = try #require(operation.response)
        let fields = response.allHeaderFields.reduce(into: [String: String]()) { fields, field in
            if let name = field.key as? String, let value = field.value as? String { fields[name] = value }
        }
        let url = try #require(response.url)
        let cookies = HTTPCookie.cookies(withResponseHeaderFields: fields, for: url)
        #expect(Set(cookies.map { "\($0.name)=\($0.value)" }) == ["flavour=chocolate", "size=large"])
    }
}
