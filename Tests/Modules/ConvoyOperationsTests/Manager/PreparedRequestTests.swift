import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that two optimizations have no visible effects: plain GETs are prepared once, and plain JSON bodies are
/// decoded by the awaiting task.
@Suite struct PreparedRequestTests {
    /// A manager that creates its operations from Foundation's requests, as a subclass may.
    private final class OtherManager: HTTPRequestOperationManager, @unchecked Sendable {}

    struct User: Codable, Equatable, Sendable { var name: String }

    let server: TestServer
    private let managers: [HTTPRequestOperationManager]

    init() throws {
        server = try TestServer()
        server.route("GET", "/api/plain", .text("plain"))
        managers = [HTTPRequestOperationManager(baseURL: server.url("/api")), OtherManager(baseURL: server.url("/api"))]
        for manager in managers {
            manager.completionQueue = testQueue
            manager.responseSerializer = HTTPResponseSerializer()
        }
    }

    private func serializers() -> [any HTTPRequestSerialization] {
        var http = HTTPRequestSerializer()
        http.setValue("one", forHTTPHeaderField: "X-First")
        http.setAuthorizationHeader(bearerToken: "token")
        http.timeoutInterval = 7
        var json = JSONRequestSerializer()
        json.http.setValue("", forHTTPHeaderField: "X-Empty")
        json.http.setValue("gzip", forHTTPHeaderField: "accept-encoding")
        var ranged = HTTPRequestSerializer()
        ranged.setValue("bytes=0-1", forHTTPHeaderField: "Range")
        ranged.cachePolicy = .reloadIgnoringLocalCacheData
        return [HTTPRequestSerializer(), http, JSONRequestSerializer(), json, ranged, PropertyListRequestSerializer()]
    }

    @Test func `a prepared request is sent like a newly created one`() async throws {
        for serializer in serializers() {
            var requests: [URLRequest] = []
            for manager in managers {
                manager.requestSerializer = serializer
                let operation = try manager.makeOperation(.get, "plain")
                try? await manager.enqueue(operation).finished()
                requests.append(operation.request)
            }
            #expect(requests[0] == requests[1] && requests[0].timeoutInterval == requests[1].timeoutInterval)
            let sent = server.requests.suffix(2).map { request in
                request.headers.fields.map { "\($0.name): \($0.value)" }.sorted() + [request.method, request.target]
            }
            #expect(sent.count == 2 && sent[0] == sent[1])
        }
    }

    @Test(arguments: [
        "http://user@host/", "http://user:password@host/", "http://@host/", "http://:@host/", "ftp://host/", "file:///tmp/",
        "http://host:99999/", "http://127.1:1/", "HTTP://127.0.0.1:1/", "http://127.0.0.1:1/?query", "http:///path/",
    ])
    func `an invalid request is rejected in the same way, prepared or not`(base: String) async throws {
        guard let url = URL(string: base) else { return }
        var offline = HTTPRequestSerializer()
        offline.cachePolicy = .returnCacheDataDontLoad
        for serializer in [HTTPRequestSerializer(), offline] {
            var outcomes: [[String]] = []
            for manager in [HTTPRequestOperationManager(baseURL: url), OtherManager(baseURL: url)] {
                manager.completionQueue = testQueue
                manager.requestSerializer = serializer
                do {
                    let operation = try manager.makeOperation(.get, "plain")
                    try? await manager.enqueue(operation).finished()
                    let error = try #require(operation.error as? URLError)
                    outcomes.append(["\(error.code)", "\(error.userInfo[NSURLErrorFailingURLErrorKey] ?? "none")"])
                } catch {
                    outcomes.append(["\(error)"])
                }
            }
            #expect(outcomes.count == 2 && outcomes[0] == outcomes[1], "\(outcomes)")
        }
    }

    @Test func `settings that are changed afterwards apply to the next operation`() async throws {
        let manager = managers[0]
        _ = try await manager.response(.get, "plain")
        var serializer = HTTPRequestSerializer()
        serializer.setValue("later", forHTTPHeaderField: "X-Later")
        manager.requestSerializer = serializer
        manager.totalTimeout = 50
        let operation = try await manager.response(.get, "plain")
        #expect(server.requests.last?.headers["X-Later"] == "later")
        #expect(operation.totalTimeout == 50)
        // Settings of one operation do not apply to the others.
        operation.totalTimeout = 3
        operation.userInfo = ["key": 1]
        let other = try await manager.response(.get, "plain")
        #expect(other.totalTimeout == 50 && other.userInfo.isEmpty)
    }

    @Test func `an invalid header fails each request`() async throws {
        var serializer = HTTPRequestSerializer()
        serializer.setValue("line\r\nbreak", forHTTPHeaderField: "X-Broken")
        for manager in managers {
            manager.requestSerializer = serializer
            for _ in 0..<2 {
                let error = await #expect(throws: NSError.self) { _ = try await manager.response(.get, "plain") }
                #expect(error?.domain == URLRequestSerializationErrorDomain)
            }
        }
        #expect(server.requests.isEmpty)
    }

    /// Bodies with types and status codes that a task may or may not decode itself.
    private static let responses: [TestServer.Response] = [
        .json(text: #"{"name": "ada"}"#),
        .json(text: #"{"name": "ada"}"#).header("Content-Type", "Application/JSON; Charset=UTF-8"),
        .json(text: #"{"name": 1}"#),
        .json(text: #"{"name": "#),
        .json(text: " "),
        .json(text: ""),
        .json(text: #"{"name": "ada"}"#, status: 204),
        .json(text: #"{"name": "ada"}"#, status: 404),
        .json(text: #"{"name": "ada"}"#).header("Content-Type", "text/json"),
        .json(text: #"{"name": "ada"}"#).header("Content-Type", "text/html"),
        .bytes(
            Data([0x7B, 0x22]) + Data(#"name": ""#.utf8) + Data([0xE4, 0x22, 0x7D]),
            type: "application/json; charset=iso-8859-1"),
        .bytes(Data(#"{"name": ""#.utf8) + Data([0xE4, 0x22, 0x7D]), type: "application/json"),
        .bytes(Data([0xEF, 0xBB, 0xBF]) + Data(#"{"name": "ada"}"#.utf8), type: "application/json"),
        .bytes(Data(#"{"name": "ada"}"#.data(using: .utf16) ?? Data()), type: "application/json"),
        .json(text: String(repeating: "[", count: 10_000)),
    ]

    @Test(arguments: responses.indices)
    func `a value decoded by the awaiting task is equal to the serializer's`(index: Int) async throws {
        server.route("GET", "/api/value", Self.responses[index])
        let manager = managers[0]
        manager.responseSerializer = JSONResponseSerializer()
        func outcome<Value: Decodable & Sendable>(of type: Value.Type) async -> (awaited: String, made: String) {
            let awaited = await described { try await manager.get("value", as: Value.self) }
            let made = await described {
                let operation = try manager.makeOperation(.get, "value")
                operation.responseSerializer = DecodableResponseSerializer<Value>()
                return try await manager.enqueue(operation).value(as: Value.self)
            }
            return (awaited, made)
        }
        let user = await outcome(of: User.self)
        #expect(user.awaited == user.made)
        let maybe = await outcome(of: User?.self)
        #expect(maybe.awaited == maybe.made)
    }

    @Test func `the object of an awaited operation can be read by others too`() async throws {
        server.route("GET", "/api/value", .json(text: #"{"name": "ada"}"#))
        let manager = managers[0]
        let operation = try manager.makeOperation(
            RequestArguments(.get, "value", nil, nil, [:], nil), awaiting: User.self)
        let copy = operation.makeCopy()
        #expect(try await manager.enqueue(operation).decodedValue(as: User.self) == User(name: "ada"))
        #expect(operation.responseObject as? User == User(name: "ada"))
        #expect(try await operation.value(as: User.self) == User(name: "ada"))
        #expect(try await manager.enqueue(copy).value(as: User.self) == User(name: "ada"))
    }

    @Test func `a copy of an awaited operation fails by itself if its body cannot be decoded`() async throws {
        server.route("GET", "/api/value", .json(text: "{}"))
        let manager = managers[0]
        let operation = try manager.makeOperation(
            RequestArguments(.get, "value", nil, nil, [:], nil), awaiting: User.self)
        await #expect(throws: HTTPError.self) { try await operation.makeCopy().finished() }
        // Only the awaiting task can detect that the body is invalid.
        try await manager.enqueue(operation).finished()
    }

    private func described(_ value: () async throws -> some Sendable) async -> String {
        do {
            return "\(try await value())"
        } catch let error as HTTPError {
            return "\(error)"
        } catch {
            let error = error as NSError
            return "\(error.domain) \(error.code)"
        }
    }
}
