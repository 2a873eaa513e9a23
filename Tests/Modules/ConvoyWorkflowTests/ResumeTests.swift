import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

@Suite struct ResumeTests {
    let bench: WorkflowBench
    var server: TestServer { bench.server }
    var journal: URL { bench.directory.url.appendingPathComponent("journal") }

    init() throws { bench = try WorkflowBench() }

    private func run(
        _ text: String, environment: [String: String] = [:], resumes: Bool = true
    ) async throws -> [String: String] {
        try await bench.run(text, environment: environment) { ($0.journal, $0.resumes) = (journal, resumes) }.states
    }

    @Test func `successful requests with unchanged values are not sent again`() async throws {
        server.route("/a", .json(["v": "1"]))
        server.route("/b/1", inTurn: [.status(500), .text("x")])
        let text = "requests: {a: {get: a, capture: {v: json:/v}}, b: {get: \"b/${a.v}\"}}"
        #expect(try await run(text) == ["a": "succeeded", "b": "failed"])
        #expect(try await run(text) == ["a": "kept", "b": "succeeded"])
        #expect(try await run(text) == ["a": "kept", "b": "kept"])
        #expect(server.requests.map(\.path) == ["/a", "/b/1", "/b/1"])
        // Without --resume, everything is sent again.
        #expect(try await run(text, resumes: false) == ["a": "succeeded", "b": "succeeded"])
    }

    @Test func `a teardown runs in each run`() async throws {
        server.route("/a", .text("x"))
        server.route("/end", .text("x"))
        let text = "requests: {a: {get: a}, end: {get: end, after: [a], when: always()}}"
        #expect(try await run(text) == ["a": "succeeded", "end": "succeeded"])
        #expect(try await run(text) == ["a": "kept", "end": "succeeded"])
    }

    @Test func `a value named like a secret is used, but not stored`() async throws {
        server.route("/a", .json(["token": "T-of-the-login", "list": "http://h/?sig=S-of-the-link"]))
        server.route("POST", "/b", .text("x"))
        let text = """
            requests:
              a: {get: a, query: {key: "${env.KEY}"}, capture: {token: json:/token, list: json:/list}}
              b: {post: b, bearer: "${a.token}"}
            """
        #expect(try await run(text, environment: ["KEY": "2024-01"]) == ["a": "succeeded", "b": "succeeded"])
        #expect(try await run(text, environment: ["KEY": "2024-02"])["a"] == "succeeded")
        #expect(Set(server.requests.filter { $0.path == "/a" }.map(\.target)) == ["/a?key=2024-01", "/a?key=2024-02"])
        for name in ["journal", "journal-wal"] {
            let data = (try? Data(contentsOf: bench.directory.url.appendingPathComponent(name))) ?? Data()
            let stored = String(decoding: data, as: UTF8.self)
            #expect(!stored.contains("T-of-the-login") && !stored.contains("S-of-the-link"))
        }
    }

    @Test func `requests with changed values are sent again`() async throws {
        server.route("/a", .text("x"))
        server.route("/b", .text("x"))
        let text = "requests: {a: {get: a, query: {q: \"${env.Q}\"}}, b: {get: b}}"
        #expect(try await run(text, environment: ["Q": "1"]) == ["a": "succeeded", "b": "succeeded"])
        #expect(try await run(text, environment: ["Q": "2"]) == ["a": "succeeded", "b": "kept"])
        #expect(
            try await run(text.replacing("get: b", with: "get: b, capture: {s: status}"), environment: ["Q": "2"]) == [
                "a": "kept", "b": "succeeded",
            ])
    }

    @Test func `missing and modified files are downloaded again`() async throws {
        server.route("/f/*", .pattern(count: 100))
        let text = "requests: {f: {forEach: [a, b, c], get: \"f/${item}\", output: \"${item}\"}}"
        #expect(try await run(text) == ["f[a]": "succeeded", "f[b]": "succeeded", "f[c]": "succeeded"])
        try FileManager.default.removeItem(at: bench.directory.url.appendingPathComponent("a"))
        try Data("other".utf8).write(to: bench.directory.url.appendingPathComponent("b"))
        #expect(try await run(text) == ["f[a]": "succeeded", "f[b]": "succeeded", "f[c]": "kept"])
        #expect(try Data(contentsOf: bench.directory.url.appendingPathComponent("b")) == PatternBytes.data(count: 100))
    }

    @Test func `a secret is requested again only if another request needs it`() async throws {
        server.route("POST", "/login") { _ in .json(["token": UUID().uuidString]) }
        server.route("/a", .text("x"))
        server.route("/b", inTurn: [.status(500), .text("x")])
        let text = """
            secrets: [login.token]
            requests:
              login: {post: login, capture: {token: json:/token}}
              a: {get: a, bearer: "${login.token}"}
              b: {get: b, bearer: "${login.token}"}
            """
        #expect(try await run(text) == ["login": "succeeded", "a": "succeeded", "b": "failed"])
        server.forgetRequests()
        #expect(try await run(text) == ["login": "succeeded", "a": "kept", "b": "succeeded"])
        #expect(server.requests.map(\.path) == ["/login", "/b"])
        server.forgetRequests()
        #expect(try await run(text) == ["login": "kept", "a": "kept", "b": "kept"])
        #expect(server.requests.isEmpty)
    }
}
