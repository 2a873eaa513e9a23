import ConvoyOperations
import ConvoySerialization
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Requests with every verb, and with headers.
@Suite(.needsHttpbin) struct VerbTests {
    let manager: HTTPRequestOperationManager

    init() throws { manager = try Shared.manager() }

    @Test func `every verb reaches its endpoint`() async throws {
        let parameters: RequestParameters = ["a": "b c"]
        let get: Echo = try await manager.get("get", parameters: parameters)
        let post: Echo = try await manager.post("post", parameters: parameters)
        let put: Echo = try await manager.put("put", parameters: parameters)
        let patch: Echo = try await manager.patch("patch", parameters: parameters)
        let delete: Echo = try await manager.delete("delete", parameters: parameters)
        #expect(get.args == ["a": "b c"] && delete.args == ["a": "b c"])
        #expect([post, put, patch].allSatisfy { $0.form == ["a": "b c"] })
        let head = try await manager.head("get", parameters: parameters)
        #expect(head.statusCode == 200 && head.responseData?.isEmpty != false && head.responseObject == nil)
        // A HEAD response has the length of the corresponding GET response.
        #expect(head.response?.value(forHTTPHeaderField: "Content-Length").flatMap { Int($0) } ?? 0 > 0)
    }

    @Test(arguments: ["GET", "POST", "PUT", "PATCH", "DELETE"])
    func `every verb can carry a body`(verb: String) async throws {
        var serializer = JSONRequestSerializer()
        serializer.http.httpMethodsEncodingParametersInURI = []
        manager.requestSerializer = serializer
        let echo: Echo = try await manager.value(HTTPMethod(verb), "anything", parameters: ["a": [1, 2]])
        #expect(echo.method == verb && echo.json == ["a": [1, 2]] && echo.args.isEmpty)
    }

    @Test func `TRACE and OPTIONS requests arrive`() async throws {
        let echo: Echo = try await manager.value(.trace, "anything")
        #expect(echo.method == "TRACE")
        let options = try await manager.send(.options, "anything")
        let allowed = options.response?.value(forHTTPHeaderField: "Allow")?.components(separatedBy: ", ") ?? []
        #expect(Set(["GET", "POST", "PATCH", "OPTIONS"]).isSubset(of: allowed))
    }

    @Test func `a wrong method is rejected with a list of the allowed methods`() async throws {
        let (operation, error) = try await manager.failure(.delete, "post")
        #expect((error as NSError?)?.code == NSURLErrorBadServerResponse)
        #expect(operation.statusCode == 405)
        #expect(operation.response?.value(forHTTPHeaderField: "Allow")?.contains("POST") == true)
    }

    @Test func `raw bytes of all values arrive unchanged`() async throws {
        let bytes = Data((0..<70_000).map { UInt8(truncatingIfNeeded: $0) })
        let operation = try await manager.send(
            .put, "put", body: bytes, headers: ["Content-Type": "application/octet-stream"]
        ) { $0.responseSerializer = DecodableResponseSerializer<Echo>() }
        let echo = try #require(operation.responseObject as? Echo)
        #expect(echo.body == bytes && echo.header("Content-Length") == "70000")
    }

    @Test func `headers of the serializer and of the request arrive`() async throws {
        var serializer = HTTPRequestSerializer()
        serializer.setValue("ours", forHTTPHeaderField: "X-Common")
        serializer.setValue("ours", forHTTPHeaderField: "X-Taken")
        serializer.setValue("ours", forHTTPHeaderField: "X-Removed")
        manager.requestSerializer = serializer
        let echo: Echo = try await manager.get(
            "headers/../anything", headers: ["X-Taken": "its own", "X-Removed": nil, "X-Empty": ""])
        #expect(echo.header("X-Common") == "ours" && echo.header("X-Taken") == "its own")
        #expect(echo.header("X-Removed") == nil && echo.header("X-Empty") == "")
        #expect(echo.header("Accept-Language") == serializer.value(forHTTPHeaderField: "Accept-Language"))
    }

    @Test func `the user agent is the serializer's`() async throws {
        let answer: [String: String] = try await manager.get("user-agent")
        let own = HTTPRequestSerializer().value(forHTTPHeaderField: "User-Agent")
        #expect(own != nil && answer["user-agent"] == own)
        let other: [String: String] = try await manager.get("user-agent", headers: ["User-Agent": "Round/1.0 (trip)"])
        #expect(other["user-agent"] == "Round/1.0 (trip)")
    }

    @Test func `Basic credentials are accepted`() async throws {
        struct Answer: Decodable, Sendable { var authenticated: Bool, user: String }
        var serializer = HTTPRequestSerializer()
        serializer.setAuthorizationHeader(username: "ada", password: "p:ä ss")
        manager.requestSerializer = serializer
        let answer: Answer = try await manager.get("basic-auth/ada/p:%C3%A4%20ss")
        #expect(answer.authenticated && answer.user == "ada")
        // This path answers wrong credentials with 404, not 401.
        let hidden: Answer = try await manager.get("hidden-basic-auth/ada/p:%C3%A4%20ss")
        #expect(hidden.authenticated)
        let (refused, error) = try await manager.failure(.get, "basic-auth/ada/other")
        #expect(refused.statusCode == 401 && error != nil)
        #expect(refused.response?.value(forHTTPHeaderField: "WWW-Authenticate")?.hasPrefix("Basic realm=") == true)
    }

    @Test func `a bearer token is accepted`() async throws {
        struct Answer: Decodable, Sendable { var authenticated: Bool, token: String }
        var serializer = HTTPRequestSerializer()
        serializer.setAuthorizationHeader(bearerToken: "abc.def-123~x")
        manager.requestSerializer = serializer
        let answer: Answer = try await manager.get("bearer")
        #expect(answer.authenticated && answer.token == "abc.def-123~x")
        serializer.clearAuthorizationHeader()
        manager.requestSerializer = serializer
        #expect(try await manager.failure(.get, "bearer").operation.statusCode == 401)
    }
}
