import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// Tests that the options of requests produce the same request with every command.
@Suite(.serialized) struct SameRequestTests {
    let server: TestServer
    let scratch: Scratch

    init() throws {
        (server, scratch) = (try TestServer(), try Scratch())
        server.route(nil, "/*") { request in
            if request.target.contains("login"), request.headers["Authorization"] == nil {
                return .status(401, headers: ["WWW-Authenticate": "Basic realm=\"r\""])
            }
            // A 204 ends an event stream.
            return request.headers["Accept"]?.contains("event-stream") == true ? .status(204) : .text("x")
        }
        try scratch.write("{\"a\": 1}\n", to: "d.json")
    }

    /// The arguments of a command, and the request that the server must receive.
    struct Row: Sendable, CustomTestStringConvertible {
        var place = "/x"
        var login = ""
        var headers: [String] = []
        let target: String
        var fields: [String: String] = [:]
        var testDescription: String { "\(login)\(place) \(headers)" }
    }

    static let rows = [
        Row(place: "/a b?c=d e", target: "/a%20b?c=d%20e"),
        Row(place: "/caf\u{E9}/\u{1F600}", target: "/caf%C3%A9/%F0%9F%98%80"),
        Row(place: "/{a}/[b]", target: "/%7Ba%7D/%5Bb%5D"),
        Row(place: "/a%20b%2Fc", target: "/a%20b%2Fc"),
        Row(place: "/login", login: "ada:pw@", target: "/login", fields: ["Authorization": "Basic YWRhOnB3"]),
        Row(place: "/login", login: "a%40b:p%20w@", target: "/login", fields: ["Authorization": "Basic YUBiOnAgdw=="]),
        Row(headers: ["X-A: 1", "X-A: 2"], target: "/x", fields: ["X-A": "1, 2"]),
        Row(headers: ["Cookie: a=1", "cookie: b=2"], target: "/x", fields: ["Cookie": "a=1; b=2"]),
        Row(headers: ["User-Agent: me"], target: "/x", fields: ["User-Agent": "me"]),
        Row(headers: ["X-E: caf\u{E9}"], target: "/x", fields: ["X-E": "caf\u{E9}"]),
    ]

    private func address(_ row: Row) -> String {
        server.url("/").absoluteString.dropLast().replacing("http://", with: "http://\(row.login)") + row.place
    }

    private func commands(_ row: Row) throws -> [(name: String, arguments: [String])] {
        let url = address(row), options = row.headers.flatMap { ["-H", $0] }
        let quoted = { (text: String) in String(decoding: try JSONEncoder().encode(text), as: UTF8.self) }
        let curl = (["curl", "-g", url] + options).map { "'\($0)'" }.joined(separator: " ")
        var commands = [
            ("get", ["get", "-f", "-o", "out"] + options + [url]), ("send", ["send", "GET", url] + options),
            ("send with items", ["send", "GET", url] + row.headers.map { $0.replacing(": ", with: ":") }),
            ("events", ["events", "-q"] + options + [url]), ("import curl", ["import", "--show-secrets", "curl", curl]),
        ]
        if row.headers.count < 2 {
            let headers = try row.headers.map { header in
                let parts = header.components(separatedBy: ": ")
                return "\(parts[0]): \(try quoted(parts[1]))"
            }.joined(separator: ", ")
            try scratch.write("requests: {a: {get: \(try quoted(url)), headers: {\(headers)}}}", to: "by-name.yaml")
            let pairs = try row.headers.map { header in
                let parts = header.components(separatedBy: ": ")
                return "\(try quoted(parts[0])): \(try quoted(parts[1]))"
            }.joined(separator: ", ")
            try scratch.write(
                "{\"requests\": [{\"id\": \"a\", \"url\": \(try quoted(url)), \"headers\": {\(pairs)}}]}", to: "list.json")
            commands += [("run", ["run", "by-name.yaml"]), ("run of a list", ["run", "list.json"])]
        }
        return commands
    }

    @Test(arguments: rows) func `every command sends the same request`(row: Row) async throws {
        for (name, arguments) in try commands(row) {
            server.forgetRequests()
            var result = try await ToolProcess.run(arguments, in: scratch.url)
            if name == "import curl" {
                try scratch.write(result.output, to: "imported.yaml")
                let check = try await ToolProcess.run(["check", "imported.yaml"], in: scratch.url)
                #expect(check.status == 0, "\(check.errors)")
                result = try await ToolProcess.run(["run", "imported.yaml"], in: scratch.url)
            }
            #expect(result.status == 0, "\(name): \(result.errors)")
            let request = server.requests.last
            #expect(request?.target == row.target, "\(name)")
            for (field, value) in row.fields { #expect(request?.headers[field] == value, "\(name)") }
            #expect(request?.headers["Content-Type"] == nil, "\(name)")
        }
    }

    @Test func `Content-Type is derived from the body file and omitted without a body`() async throws {
        let url = server.url("/x").absoluteString
        try scratch.write(
            """
            requests:
              a: {put: "\(url)", file: d.json}
              b: {post: "\(url)", after: a}
              c: {method: FOO, url: "\(url)", after: b}
            """,
            to: "m.yaml")
        for arguments in [["put", "--plain", "d.json", url], ["send", "PUT", url, "--body", "d.json"], ["run", "m.yaml"]] {
            server.forgetRequests()
            let result = try await ToolProcess.run(arguments, in: scratch.url)
            #expect(result.status == 0, "\(result.errors)")
            let put = server.requests.first { $0.method == "PUT" }
            #expect(put?.headers["Content-Type"] == "application/json", "\(arguments)")
            #expect(server.requests.filter { $0.method != "PUT" }.allSatisfy { $0.headers["Content-Type"] == nil })
        }
        for method in ["POST", "OPTIONS", "PATCH", "FOO"] {
            server.forgetRequests()
            _ = try await ToolProcess.run(["send", method, url], in: scratch.url)
            let request = try #require(server.requests.first)
            #expect(request.method == method && request.headers["Content-Type"] == nil)
        }
    }

    @Test func `binary bodies are sent unchanged`() async throws {
        let url = server.url("/x").absoluteString
        let bytes = Data([0, 0xFF, 0x0A, 0xC3])
        try bytes.write(to: scratch.url.appendingPathComponent("bin"))
        for command in ["--body bin", "--body - < bin", "--body <(cat bin)"] {
            server.forgetRequests()
            let tool = try ToolProcess.executable().path
            let result = try await ToolProcess.run(
                command: "bash -c \"'\(tool)' send POST '\(url)' \(command)\"", in: scratch.url)
            #expect(result.status == 0, "\(command): \(result.errors)\(result.output)")
            #expect(server.requests.first?.body == bytes, "\(command)")
        }
        let refused = try await ToolProcess.run(["send", "POST", url, "f@bin"], in: scratch.url)
        #expect(refused.status == 2 && refused.errors.contains("is not UTF-8"), "\(refused.errors)")
        let parts = try await ToolProcess.run(
            ["send", "--multipart", "POST", url, "f@bin", "f@d.json", "n=1"], in: scratch.url)
        #expect(parts.status == 0, "\(parts.errors)")
        let body = try #require(server.requests.last?.body)
        #expect(body.range(of: bytes) != nil && body.range(of: Data("{\"a\": 1}".utf8)) != nil)
    }

    @Test(arguments: [
        ("dc\\:title=x", "{\"dc:title\":\"x\"}"), ("a\\=b=c", "{\"a=b\":\"c\"}"), ("a\\@b=c", "{\"a@b\":\"c\"}"),
        ("a\\\\=c", "{\"a\\\\\":\"c\"}"), ("a\\b=c", "{\"a\\\\b\":\"c\"}"),
        ("a\\\\[b]=c", "{\"a\\\\\":{\"b\":\"c\"}}"), ("a\\[b\\]=c", "{\"a[b]\":\"c\"}"),
    ])
    func `a backslash escapes a separator in an item name`(item: String, body: String) async throws {
        let result = try await ToolProcess.run(["send", "POST", server.url("/x").absoluteString, item], in: scratch.url)
        #expect(result.status == 0, "\(result.errors)")
        #expect(server.requests.first?.text == body)
    }

    @Test(arguments: [
        ("http:/127.0.0.1:1/x", 4), ("https//127.0.0.1/x", 2), ("mailto:a@b.invalid", 2), ("magnet:?xt=urn:btih:x", 2),
        ("file:///etc/passwd", 2), ("localhost:1/x", 4), ("ftp://h/x", 2),
    ])
    func `every command parses URLs the same way`(url: String, status: Int32) async throws {
        for command in [["get", "--retry", "0"], ["send", "--retry", "0", "GET"]] {
            let result = try await ToolProcess.run(command + [url], in: scratch.url)
            #expect(result.status == status, "\(command): \(result.errors)")
            #expect(!result.errors.contains("https://localhost"), "\(result.errors)")
        }
    }

    // MARK: Redirects

    @Test func `a redirect that is not followed is returned as the response`() async throws {
        server.route("/moved", .redirect(to: "/elsewhere", status: 302))
        server.route("/form", .redirect(to: "http://other.invalid/", status: 307))
        let url = server.url("/moved").absoluteString
        let checked = try await ToolProcess.run(
            ["send", "--max-redirs", "0", "--expect", "status=302", "--capture", "l=header:Location", "GET", url],
            in: scratch.url)
        #expect(checked.status == 0 && checked.output == "/elsewhere\n", "\(checked.errors)")
        let head = try await ToolProcess.run(["get", "-I", "--max-redirs", "0", url], in: scratch.url)
        #expect(head.output.contains("302") && head.output.contains("Location: /elsewhere"), "\(head.output) \(head.errors)")
        let unexpected = try await ToolProcess.run(["send", "--max-redirs", "0", "GET", url], in: scratch.url)
        #expect(unexpected.status == 7 && unexpected.errors.contains("got 302, to \"/elsewhere\""), "\(unexpected.errors)")
        try scratch.write(
            """
            baseURL: \(server.url("/").absoluteString)
            defaults: {max-redirs: 0}
            requests:
              a: {get: moved, expect: {status: [300-399], header: {Location: /elsewhere}}, capture: {l: header:Location}}
              b: {get: "${a.l}", expect: {status: 200}}
              c: {post: form, json: {n: 1}, expect: {status: 307}, capture: {l: header:Location}}
              d: {get: moved, max-redirs: 3, expect: {status: 200}}
            """, to: "m.yaml")
        let run = try await ToolProcess.run(["run", "--json", "m.yaml"], in: scratch.url)
        #expect(run.status == 0, "\(run.errors) \(run.output)")
        #expect(run.output.contains("\"status\":302") && run.output.contains("\"status\":307"))
    }

    @Test(arguments: [
        "app://open/7", "mailto:a@b.example", "http://user:password@127.0.0.1/", "http://[", "//other.invalid:99999/", "",
    ])
    func `a redirect that would be refused is also the response`(_ location: String) async throws {
        server.route("/moved", .redirect(to: location, status: 302))
        let url = server.url("/moved").absoluteString
        let sent = try await ToolProcess.run(
            ["send", "--max-redirs", "0", "--expect", "status=302", "--capture", "s=status", "GET", url], in: scratch.url)
        #expect(sent.status == 0 && sent.output == "302\n", "\(sent.errors)")
        let followed = try await ToolProcess.run(["send", "--expect", "status=302", "GET", url], in: scratch.url)
        #expect(followed.status != 0, "\(followed.output)")
        try scratch.write(
            """
            baseURL: \(server.url("/").absoluteString)
            requests:
              a: {get: moved, max-redirs: 0, expect: {status: 302}}
            """, to: "m.yaml")
        let run = try await ToolProcess.run(["run", "m.yaml"], in: scratch.url)
        #expect(run.status == 0, "\(run.errors)")
    }
}
