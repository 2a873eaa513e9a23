import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Values from servers, which may send anything.
@Suite struct HostileTests {
    let bench: WorkflowBench
    var server: TestServer { bench.server }

    init() throws { bench = try WorkflowBench() }

    private func serve(_ value: String) throws {
        let json = String(decoding: try JSONEncoder().encode(["v": value]), as: UTF8.self)
        server.route("/value", .json(text: json))
        server.echo(at: "/echo")
        server.route("/echo/*", .text("x"))
        server.route("/f/*", .text("file"))
    }

    static let values = [
        "../../etc/passwd", "a/b?c=d&e#f", "\"quoted\" 'and' <b>", "x\r\nX-Evil: 1", "nul\0byte", "%2e%2e%2f", "ü 😀",
        "..\\..\\x",
        "\u{202E}txt.exe", String(repeating: "long ", count: 1000),
    ]

    @Test func `names that differ only in Unicode normalization are separate files`() async throws {
        server.route("/x", .text("x"))
        let finished = try await bench.run(
            """
            requests:
              f: {get: x, forEach: ["e\u{301}", "\u{E9}", ".\u{301}h", "/\u{301}"], output: "f/${item}"}
            """)
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        let folder = bench.directory.url.appendingPathComponent("f").path
        let names = try FileManager.default.contentsOfDirectory(atPath: folder).map { Data($0.utf8) }
        #expect(Set(names) == Set(["e\u{301}", "\u{E9}", "_\u{301}h", "_\u{301}"].map { Data($0.utf8) }))
    }

    @Test(arguments: values) func `a value is escaped in URLs, JSON and forms`(value: String) async throws {
        try serve(value)
        let finished = try await bench.run(
            """
            requests:
              value: {get: value, capture: {v: json:/v}}
              path: {get: "echo/${value.v}/end?q=${value.v}", after: value}
              query: {get: echo, query: {q: "${value.v}"}, after: path}
              json: {post: echo, json: {v: "${value.v}", text: "<${value.v}>"}, after: query}
              form: {post: echo, form: {v: "${value.v}"}, after: json}
            """)
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        let requests = server.requests
        try #require(requests.count == 5)
        let encoded = Escaping.url(value)
        #expect(requests[1].target == "/echo/\(encoded)/end?q=\(encoded)")
        #expect(requests[2].target == "/echo?q=\(encoded)")
        let json = try JSONDecoder().decode([String: String].self, from: requests[3].body)
        #expect(json == ["v": value, "text": "<\(value)>"])
        #expect(requests[4].text == "v=\(encoded)")
    }

    @Test(arguments: ["..", "."]) func `a value consisting of dots cannot change the directory`(value: String) async throws {
        try serve(value)
        let finished = try await bench.run(
            "requests: {value: {get: value, capture: {v: json:/v}}, path: {get: \"f/${value.v}/x\"}, file: {get: f/x, output: \"out/${value.v}\"}}"
        )
        #expect(try finished.failure("path").contains("a value leads to another directory"))
        #expect(finished.states["file"] == "succeeded", "\(finished.result.failures.map(\.failures))")
        #expect(try FileManager.default.contentsOfDirectory(atPath: bench.directory.url.path) == ["out"])
    }

    @Test(arguments: values) func `a value cannot move a file out of its directory`(value: String) async throws {
        try serve(value)
        let finished = try await bench.run(
            "requests: {value: {get: value, capture: {v: json:/v}}, file: {get: f/x, output: \"out/${value.v}.txt\"}}")
        #expect(finished.states["file"] == "succeeded", "\(finished.result.failures.map(\.failures))")
        #expect(try FileManager.default.contentsOfDirectory(atPath: bench.directory.url.path) == ["out"])
        let names = try FileManager.default.contentsOfDirectory(
            atPath: bench.directory.url.appendingPathComponent("out").path)
        #expect(names.filter { $0.hasSuffix(".txt") }.count == 1)
        #expect(names.allSatisfy { !$0.unicodeScalars.contains { $0.value < 0x20 || $0.properties.isBidiControl } })
    }

    @Test(arguments: ["x\r\nX-Evil: 1", "nul\0byte", "line\nfeed"])
    func `a value with control characters is rejected in a header`(value: String) async throws {
        try serve(value)
        let finished = try await bench.run(
            """
            requests:
              value: {get: value, capture: {v: json:/v}}
              header: {get: echo, headers: {X-V: "${value.v}"}}
              bearer: {get: echo, bearer: "${value.v}"}
            """)
        #expect(finished.states == ["value": "succeeded", "header": "failed", "bearer": "failed"])
        #expect(try finished.failure("header") == "the value for a header contains control characters")
        #expect(server.requests.count == 1)
    }

    @Test func `a URL from a server must be an http or https URL`() async throws {
        server.route("/value", .json(["a": "file:///etc/passwd", "b": "javascript:x", "c": "/ok", "d": "http://x y/"]))
        server.route("/ok", .text("x"))
        let finished = try await bench.run(
            """
            requests:
              value: {get: value, capture: {a: json:/a, b: json:/b, c: json:/c, d: json:/d}}
              a: {get: "${value.a}"}
              b: {get: "${value.b}"}
              c: {get: "${value.c}"}
              d: {get: "${value.d}"}
            """)
        #expect(finished.states == ["value": "succeeded", "a": "failed", "b": "failed", "c": "succeeded", "d": "failed"])
    }

    @Test func `a value can be ten megabytes of text`() async throws {
        let text = String(repeating: "0123456789", count: 1_000_000)
        server.route("/value", .json(["v": text]))
        server.route("POST", "/take", .text("x"))
        let finished = try await bench.run(
            """
            requests:
              value: {get: value, capture: {v: json:/v, start: "text:\\"v\\":\\"([0-9]{10})"}}
              take: {post: take, json: "${value.v}", headers: {X-Start: "${value.start}"}}
              many: {get: "f/${value.v}"}
            """)
        #expect(
            finished.states["take"] == "succeeded", "\(finished.result.failures.map { $0.failures.map { $0.prefix(200) } })")
        #expect(server.requests.first { $0.path == "/take" }?.body.count == text.utf8.count + 2)
        #expect(finished.states["many"] == "failed")
    }

    @Test func `outputs contain no secrets`() async throws {
        let password = "p/4\"s&s w", token = "t<0>k\"en"
        let body = String(decoding: try JSONEncoder().encode(["token": token]), as: UTF8.self)
        server.route("POST", "/login", .json(text: body))
        // The route echoes everything it was sent: in the body, in a header and in the error.
        server.route("/echo/*") { request in
            .json(
                ["echo": [request.target, request.text, request.headers["Authorization"] ?? "", token, password]],
                status: 500
            )
            .header("X-Echo", token)
        }
        server.route("/fine") { _ in .json(["token": token, "note": "with \(password) in it"]) }
        let journal = bench.directory.url.appendingPathComponent("journal")
        let finished = try await bench.run(
            """
            secrets: [env.PASSWORD, login.token]
            requests:
              login: {post: login, json: {password: "${env.PASSWORD}"}, capture: {token: json:/token}}
              echo:
                post: "echo/${login.token}?password=${env.PASSWORD}"
                bearer: ${login.token}
                text: ${env.PASSWORD}
                expect: {header: {X-Echo: nothing}, json: {/echo/3: other, /echo/4: {matches: "^$"}}}
              fine: {post: fine, bearer: "${login.token}", capture: {again: json:/token, note: json:/note}}
              items: {forEach: ["${env.PASSWORD}", "${login.token}"], get: "echo/${item}"}
            """, environment: ["PASSWORD": password]
        ) { ($0.journal, $0.collectsMetrics) = (journal, true) }
        #expect(finished.states["login"] == "succeeded" && finished.states["fine"] == "succeeded")
        let mask = finished.run.secrets
        let workflow = try bench.workflow("requests: {a: {get: x}}")
        var texts = finished.result.outcomes.map {
            "\($0.name) \($0.url ?? "") \($0.failures) \($0.captures) \($0.file ?? "")"
        }
        var report = WorkflowReport()
        report.add(finished.result, of: workflow)
        report.add(finished.result, of: workflow, title: "again")
        texts += [report.junit, report.tap, report.html, report.json]
        for name in ["journal", "journal-wal"] {
            let data = try? Data(contentsOf: bench.directory.url.appendingPathComponent(name))
            texts.append(String(decoding: data ?? Data(), as: UTF8.self))
        }
        texts.append(finished.run.preview().joined())
        for secret in [password, token] {
            let json = String(JSON.string(secret).description.dropFirst().dropLast())
            for (text, form) in texts.flatMap({ text in [secret, json, Escaping.url(secret)].map { (text, $0) } }) {
                #expect(!text.contains(form), "\(form) in \(text.prefix(3000))")
            }
        }
        #expect(mask.masked("a \(Escaping.url(password)) b \(Data(token.utf8).base64EncodedString())") == "a *** b ***")
    }
}
