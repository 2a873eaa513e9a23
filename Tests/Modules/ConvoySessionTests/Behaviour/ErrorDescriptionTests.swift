import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// Descriptions and contents of the errors of both managers.
@Suite struct ErrorDescriptionTests {
    let server: TestServer

    struct User: Codable, Sendable, Equatable { var name: String }
    struct Users: Codable, Sendable { var users: [User] }
    struct Problem: Codable, Sendable, Equatable { var title: String }

    init() throws {
        server = try TestServer()
        server.route("/problem", .json(text: #"{"title": "no such user", "secret": "s3cret"}"#, status: 404))
    }

    private func api(_ kind: ManagerKind) -> any HTTPManager { kind.make(server.url) }

    private func error(_ api: any HTTPManager, _ path: String, _ timeout: RequestTimeout? = nil) async -> any Error {
        do {
            _ = try await api.get(path, timeout: timeout, as: Users.self)
            return CancellationError()
        } catch {
            return error
        }
    }

    @Test(arguments: ManagerKind.allCases)
    func `an error response is described in one line, without its header and body`(kind: ManagerKind) async throws {
        let api = api(kind)
        let error = await error(api, "problem")
        let line = "Request failed: not found (404) \(server.url)/problem (com.alamofire.error.serialization.response -1011)"
        #expect("\(error)" == line)
        #expect(String(reflecting: error).hasPrefix("\(line) Its body begins with: "))
        #expect(error.localizedDescription == "Request failed: not found (404)")
        #expect((error as NSError).localizedFailureReason == "Request failed: not found (404)")
    }

    @Test(arguments: ManagerKind.allCases)
    func `an error response has its status, head, body and URL`(kind: ManagerKind) async throws {
        let api = api(kind)
        let error = try #require(await error(api, "problem") as? HTTPError)
        #expect(error.statusCode == 404 && error.url == URL(string: "\(server.url)/problem"))
        #expect(error.response?.value(forHTTPHeaderField: "Content-Type") == "application/json")
        #expect(try error.decoded(as: Problem.self) == Problem(title: "no such user"))
        #expect((error.responseObject as? [String: String])?["title"] == "no such user")
        #expect(error.data?.isEmpty == false && error.exceededLimit == nil)
        #expect(throws: DecodingError.self) { try error.decoded(as: User.self) }
    }

    @Test(arguments: ManagerKind.allCases)
    func `an error response can be caught as an NSError`(kind: ManagerKind) async throws {
        let api = api(kind)
        do {
            try await api.get("problem")
            Issue.record("no error")
        } catch let error as NSError {
            #expect(error.domain == URLResponseSerializationErrorDomain && error.code == NSURLErrorBadServerResponse)
            #expect(error.userInfo[URLResponseSerializationErrorKey.response] is HTTPURLResponse)
        }
    }

    @Test(arguments: ManagerKind.allCases)
    func `a transfer failure is described in one line with its URL`(kind: ManagerKind) async throws {
        let api = api(kind)
        let port = server.port
        server.stop()
        let line = "\(await error(api, "http://127.0.0.1:\(port)/x"))"
        #expect(line.contains("http://127.0.0.1:\(port)/x") && line.contains("(NSURLErrorDomain -1004)"))
        #expect(!line.contains("null") && !line.contains("\n"))
    }

    @Test(arguments: ManagerKind.allCases)
    func `a URL with a password is rejected without printing it`(kind: ManagerKind) async throws {
        let api = api(kind)
        let line = "\(await error(api, "http://ada:s3cret@127.0.0.1:\(server.port)/x"))"
        #expect(line.contains("http://127.0.0.1:\(server.port)/x") && line.contains("(NSURLErrorDomain -1000)"))
        #expect(!line.contains("s3cret") && !line.contains("null") && !line.contains("\n"))
    }

    @Test(arguments: ManagerKind.allCases)
    func `a decoding error names the URL and the coding path`(kind: ManagerKind) async throws {
        let api = api(kind)
        server.route("/users", .json(text: #"{"users": [{"name": "ada"}, {"name": 7}]}"#))
        let error = try #require(await error(api, "users") as? HTTPError)
        guard case .typeMismatch(_, let context) = error.decodingError else {
            Issue.record("\(error)")
            return
        }
        #expect(context.codingPath.count == 3)
        #expect(error.localizedDescription.contains("At users[1].name: "))
        #expect(error.statusCode == 200 && "\(error)".contains("\(server.url)/users"))
        server.route("/list", .json(text: "[1]"))
        #expect(await self.error(api, "list").localizedDescription.contains("At the root: "))
        server.route("/none", .json(text: #"{"users": [{"nam": "ada"}]}"#))
        #expect(await self.error(api, "none").localizedDescription.contains(#"At users[0]: The key "name" is missing."#))
    }

    @Test(arguments: ManagerKind.allCases)
    func `a request that cannot be made is described in one line`(kind: ManagerKind) throws {
        let api = api(kind)
        let error = #expect(throws: NSError.self) { try api.makeOperation("G T", "x") }
        #expect(error?.description.hasPrefix("The method is not a token (RFC 9110, section 5.6.2).") == true)
        #expect(error?.description.contains("UserInfo") == false)
    }
}
