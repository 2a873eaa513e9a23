import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Servers named only by a response, which receive no secrets.
@Suite struct SecretServerTests {
    let bench: WorkflowBench
    let other: TestServer

    init() throws {
        (bench, other) = (try WorkflowBench(), try TestServer())
        let url = other.url("/taken").absoluteString
        bench.server.route(
            "/list", .json(["next": url, "key": "K-of-the-upload", "token": "T-of-the-login", "own": "/own"]))
        for server in [bench.server, other] {
            for path in ["/taken", "/own"] { server.route(nil, path, .text("x")) }
        }
    }

    private static let list =
        "list: {get: list, capture: {next: json:/next, key: json:/key, token: json:/token, own: json:/own}}"

    /// The fields received by the other server, except those of every request.
    private var received: [String] {
        other.requests.flatMap { request in
            ["Authorization", "Cookie", "X-Api-Key", "X-Unknown", "Accept"].filter { request.headers[$0] != nil }
        }
    }

    static let defaults = [
        "bearer: DDDDDDDD", "basic: {user: ada, password: DDDDDDDD}", "headers: {Authorization: Bearer DDDDDDDD}",
        "headers: {Cookie: sid=DDDDDDDD}", "headers: {X-Api-Key: DDDDDDDD}", "headers: {X-Unknown: DDDDDDDD}",
        "bearer: \"${env.TOKEN}\"",
    ]

    @Test(arguments: defaults)
    func `secrets in defaults are sent only to servers named in the manifest`(defaults: String) async throws {
        let finished = try await bench.run(
            """
            defaults: {\(defaults.replacing("headers: {", with: "headers: {Accept: a/b, "))}
            requests:
              \(Self.list)
              next: {get: "${list.next}"}
              items: {forEach: ["${list.next}"], get: "${item}"}
              own: {get: "${list.own}"}
            """, environment: ["TOKEN": "DDDDDDDD"])
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        #expect(other.requests.count == 2)
        #expect(received.allSatisfy { $0 == "Accept" }, "\(received)")
        let kept = bench.server.requests
        #expect(kept.count == 2)
        #expect(kept.allSatisfy { "\($0.headers)".contains("DDDDDDDD") || $0.headers["Authorization"] != nil })
    }

    @Test(arguments: defaults) func `secrets-for allows additional servers`(defaults: String) async throws {
        let finished = try await bench.run(
            """
            secrets-for: ["${env.OTHER}"]
            defaults: {\(defaults)}
            requests:
              \(Self.list)
              next: {get: "${list.next}"}
            """, environment: ["TOKEN": "DDDDDDDD", "OTHER": other.url("/").absoluteString])
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        #expect(received.filter { $0 != "Accept" }.count == 1)
    }

    static let own = [
        "bearer: DDDDDDDD", "basic: {user: ada, password: DDDDDDDD}", "bearer: \"${list.token}\", after: list",
        "headers: {X-Api-Key: DDDDDDDD}", "query: {api_key: DDDDDDDD}", "form: {password: DDDDDDDD}",
        "json: {a: [{client_secret: DDDDDDDD}]}", "multipart: {passphrase: DDDDDDDD}", "text: \"${env.TOKEN}\"",
    ]

    @Test(arguments: own)
    func `a request's own secrets are not sent to a server named by a response`(own: String) async throws {
        let finished = try await bench.run(
            """
            secrets: [env.TOKEN]
            requests:
              \(Self.list)
              login: {get: list, capture: {token: json:/token}}
              next: {post: "${list.next}", \(own.replacing("${list.token}", with: "${login.token}"))}
            """, environment: ["TOKEN": "DDDDDDDD"])
        #expect(finished.states["next"] == "failed")
        let server = other.url("/").absoluteString.dropLast()
        #expect(
            try finished.failure("next").hasSuffix(
                "was not sent to \(server), which is named only by a response; to allow this, add the server to secrets-for")
        )
        #expect(other.requests.isEmpty)
    }

    @Test(arguments: [
        "form: {key: \"${list.key}\", policy: \"${list.token}\"}", "bearer: \"${list.token}\"",
        "headers: {X-Ms-Blob-Type: BlockBlob}", "json: {name: ada}",
    ])
    func `values from the response that names a server may be sent to it`(own: String) async throws {
        let finished = try await bench.run(
            "requests: {\(Self.list), next: {post: \"${list.next}\", \(own)}}")
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        #expect(other.requests.count == 1)
    }

    @Test func `a response cannot set credentials`() async throws {
        let url = other.url("/taken").absoluteString.replacing("http://", with: "http://ada:pw@")
        bench.server.route("/list", .json(["next": url]))
        let finished = try await bench.run(
            "requests: {list: {get: list, capture: {next: json:/next}}, next: {get: \"${list.next}\"}}")
        #expect(try finished.failure("next").contains("a response must not set a user or a password"))
        #expect(try !finished.failure("next").contains("pw") && other.requests.isEmpty)
    }
}
