import ConvoyTestServer
import Foundation
import Testing

/// What `--user`, `--max-redirs` and `--verbose` do, in both commands.
@Suite(.serialized) struct RequestOptionsTests {
    let server: TestServer
    let scratch: Scratch

    init() throws {
        server = try TestServer()
        server.route("/file", .text("hello").header("Set-Cookie", "a=s3cret"))
        scratch = try Scratch()
    }

    private func get(_ arguments: String...) async throws -> ToolProcess.Result {
        try await ToolProcess.run(["get", "-f"] + arguments, in: scratch.url)
    }

    private func run(_ manifest: String, _ arguments: String...) async throws -> ToolProcess.Result {
        try scratch.write(manifest, to: "m.json")
        return try await ToolProcess.run(["run"] + arguments + ["m.json"], in: scratch.url)
    }

    private var authorizations: [String?] { server.requests.map { $0.headers["Authorization"] } }

    // MARK: --user

    @Test(arguments: [
        ("ada:l@ve:x", "Basic YWRhOmxAdmU6eA=="), ("ada:", "Basic YWRhOg=="), ("é:ü", "Basic w6k6w7w="),
        (":p", "Basic OnA="),
    ])
    func `a login is sent as Basic`(user: String, value: String) async throws {
        let url = server.url("/file").absoluteString
        #expect(try await get("--user", user, url).status == 0)
        #expect(try await run(#"{"requests": [{"id": "a", "url": "\#(url)"}]}"#, "-u", user).status == 0)
        #expect(authorizations == [value, value])
    }

    @Test func `a login does not replace that of a URL, nor a header`() async throws {
        let url = server.url("/file").absoluteString
        let own = url.replacing("http://", with: "http://b:c@")
        #expect(try await get("-u", "ada:x", own).status == 0)
        #expect(try await get("-u", "ada:x", "-H", "authorization: mine", url).status == 0)
        #expect(authorizations == ["Basic Yjpj", "mine"])
    }

    @Test func `a login in a manifest's URL is sent to that server, with --user or without`() async throws {
        let other = try TestServer()
        other.route("/file", .text("x"))
        let base = server.url.absoluteString.replacing("http://", with: "http://ada:l%40ve@")
        let manifest = """
            {"baseURL": "\(base)", "requests": [{"id": "a", "url": "/file"}, {"id": "b", "url": "\(other.url("/file"))"}]}
            """
        #expect(try await run(manifest).status == 0)
        #expect(try await run(manifest, "-u", "b:c").status == 0)
        #expect(authorizations == ["Basic YWRhOmxAdmU=", "Basic YWRhOmxAdmU="])
        #expect(other.requests.count == 2 && other.requests.allSatisfy { $0.headers["Authorization"] == nil })
    }

    @Test func `a login goes to one server only`() async throws {
        let other = try TestServer()
        other.route("/file", .text("x"))
        server.redirect("/away", to: other.url("/file").absoluteString)
        let (mine, theirs) = (server.url("/file").absoluteString, other.url("/file").absoluteString)
        let mixed = try await get("-u", "ada:x", mine, theirs)
        #expect(mixed.status == 2 && mixed.errors.contains("--user is for one server"), "\(mixed.errors)")
        let requests = #"[{"id": "a", "url": "\#(mine)"}, {"id": "b", "url": "\#(theirs)"}]"#
        #expect(try await run(#"{"requests": \#(requests)}"#, "-u", "ada:x").status == 2)
        #expect(server.requests.isEmpty && other.requests.isEmpty)

        let based = try await run(#"{"baseURL": "\#(server.url)", "requests": \#(requests)}"#, "-u", "ada:x")
        #expect(based.status == 0, "\(based.errors)")
        #expect(try await get("-u", "ada:x", server.url("/away").absoluteString).status == 0)
        #expect(authorizations == ["Basic YWRhOng=", "Basic YWRhOng="])
        #expect(other.requests.count == 2 && other.requests.allSatisfy { $0.headers["Authorization"] == nil })
    }

    @Test func `a password is asked for at the terminal, and not shown`() async throws {
        let terminal = try PseudoTerminal()
        let tool = try ToolProcess(
            command: terminal.command("exec $convoy get --user ada \(server.url("/file"))"), in: scratch.url)
        try await terminal.waitFor("Password for ada: ")
        #expect(try !terminal.isEchoing)
        try terminal.type("s3cret\n")
        let result = try await tool.finished()
        #expect(result.status == 0, "\(result.errors)")
        #expect(authorizations == ["Basic \(Data("ada:s3cret".utf8).base64EncodedString())"])
        #expect(!(terminal.text + result.output + result.errors).contains("s3cret"))
        #expect(try terminal.isEchoing)
    }

    // MARK: --max-redirs

    @Test func `the limit of redirects is the user's`() async throws {
        server.redirect("/a", to: "/b")
        server.redirect("/b", to: "/file")
        let url = server.url("/a").absoluteString
        for (limit, status) in [("0", 1), ("1", 1), ("2", 0)] {
            let result = try await get("--max-redirs", limit, url)
            #expect(Int(result.status) == status, "\(result.errors)")
            let manifest = try await run(#"{"requests": [{"id": "a", "url": "\#(url)"}]}"#, "--max-redirs=\(limit)")
            #expect(Int(manifest.status) == status)
        }
        for bad in ["-1", "x", "1001", ""] { #expect(try await get("--max-redirs", bad, url).status == 2) }
    }

    // MARK: --verbose

    @Test func `what is sent and received is told on standard error, without secrets`() async throws {
        let url = server.url("/file?token=s3cret").absoluteString
        let result = try await get("-v", "-u", "ada:s3cret", "-H", "X-Own: s3cret", "-H", "Accept: text/plain", url)
        #expect(result.status == 0)
        for line in [
            "> GET /file?token=*** HTTP/1.1", "> Authorization: ***", "> X-Own: ***", "> Accept: text/plain",
            "< HTTP/1.1 200 OK", "< Set-Cookie: ***", "{ 5 bytes",
        ] {
            #expect(result.errorLines.contains(line), "\(line) in \(result.errors)")
        }
        #expect(result.errorLines.contains { $0.hasPrefix("* Connected to 127.0.0.1") })
        #expect(!(result.output + result.errors).contains("s3cret"))
        #expect(!result.output.contains("HTTP/1.1"))
        let manifest = #"{"requests": [{"id": "a", "url": "\#(url)"}, {"id": "b", "url": "\#(url)"}]}"#
        let both = try await run(manifest, "--verbose")
        #expect(both.errorLines.contains("[1] < HTTP/1.1 200 OK") && both.errorLines.contains("[2] < HTTP/1.1 200 OK"))
        #expect(!both.errors.contains("s3cret"))
    }

    @Test func `a server's control characters do not reach the terminal`() async throws {
        server.route("/odd", .raw(Data("HTTP/1.1 200 \u{1B}[2J\r\nX-A: \u{1B}]0;x\u{7}\r\nContent-Length: 0\r\n\r\n".utf8)))
        let result = try await get("-v", server.url("/odd").absoluteString)
        #expect(result.errors.contains("< X-A: ?]0;x?"), "\(result.errors)")
        #expect(!result.errors.contains("\u{1B}"))
    }
}
