import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// The logins of the tool: `--user`, `--netrc`, and the user in a URL.
@Suite(.serialized) struct LoginTests {
    let scratch: Scratch
    let server: TestServer
    private static let authorization = "Basic " + Data("ada:se:cret".utf8).base64EncodedString()

    init() throws {
        scratch = try Scratch()
        server = try TestServer()
        server.route("/file") { request in
            request.headers.values(for: "Authorization") == [Self.authorization]
                ? .text("let in") : .status(401).header("WWW-Authenticate", "Basic realm=\"here\"")
        }
    }

    private func get(_ arguments: [String], environment: [String: String] = [:]) async throws -> ToolProcess.Result {
        try await ToolProcess.run(["get", "-f"] + arguments, in: scratch.url, environment: environment)
    }

    private var url: String { server.url("/file").absoluteString }

    @Test func `the credentials of --user are sent to one server only`() async throws {
        let other = try TestServer()
        other.route("/file", .status(401).header("WWW-Authenticate", "Basic realm=\"here\""))
        let theirs = other.url("/file").absoluteString
        let mixed = try await get(["-u", "ada:se:cret", url, theirs])
        #expect(mixed.status == 2 && mixed.errors.contains("--user applies to one server"), "\(mixed.errors)")
        let requests = #"[{"id": "a", "url": "\#(url)"}, {"id": "b", "url": "\#(theirs)"}]"#
        try scratch.write(#"{"requests": \#(requests)}"#, to: "m.json")
        #expect(try await ToolProcess.run(["run", "-u", "ada:x", "m.json"], in: scratch.url).status == 2)
        #expect(server.requests.isEmpty && other.requests.isEmpty)
        try scratch.write(#"{"baseURL": "\#(server.url)", "requests": \#(requests)}"#, to: "m.json")
        let based = try await ToolProcess.run(["run", "-u", "ada:se:cret", "m.json"], in: scratch.url)
        #expect(based.status == 7 && server.requests.count == 2, "\(based.errors)")
        #expect(other.requests.count == 1 && other.requests.allSatisfy { $0.headers["Authorization"] == nil })
    }

    @Test func `credentials are sent only after a challenge`() async throws {
        server.route("/open", .text("open"))
        // This URL comes first, because after a challenge the login is sent preemptively to neighbouring paths (RFC
        // 7617, section 2.2).
        let result = try await get(["--user", "ada:se:cret", "-j", "1", server.url("/open").absoluteString, url])
        #expect(result.status == 0, "\(result.errors)")
        #expect(try scratch.data("file") == Data("let in".utf8))
        #expect(server.requests("/open").allSatisfy { $0.headers["Authorization"] == nil })
        #expect(try await get([url]).status == 7)
        let wrong = try await get(["-u", "ada:wrong", url])
        #expect(wrong.status == 7 && wrong.errors.contains("401") && !wrong.errors.contains("wrong"))
    }

    @Test func `credentials in a URL apply to that URL only, and the password is not printed`() async throws {
        let other = try TestServer()
        other.route("/other", .status(401).header("WWW-Authenticate", "Basic realm=\"here\""))
        let inURL = url.replacing("http://", with: "http://ada:se%3Acret@")
        let result = try await get([inURL, other.url("/other").absoluteString, "--json"])
        #expect(result.status == 7 && (result.output + result.errors).contains("cret") == false)
        #expect(try scratch.data("file") == Data("let in".utf8))
        #expect(other.requests.count == 1)
        server.redirect("/away", to: other.url("/other").absoluteString)
        _ = try await get([server.url("/away").absoluteString, "--user", "ada:se:cret"])
        #expect(other.requests.allSatisfy { $0.headers["Authorization"] == nil })
    }

    @Test func `netrc is read only with --netrc or --netrc-file, and only if other users cannot read it`() async throws {
        try scratch.write("machine 127.0.0.1 login ada password se:cret\n", to: "netrc")
        let netrc = scratch.url.appendingPathComponent("netrc")
        chmod(netrc.path, 0o600)
        #expect(try await get([url]).status == 7)
        #expect(try await get(["--netrc-file", netrc.path, url]).status == 0)
        #expect(try await get(["-n", url], environment: ["NETRC": netrc.path]).status == 0)
        chmod(netrc.path, 0o644)
        let readable = try await get(["--netrc-file", netrc.path, url])
        #expect(readable.status == 2 && readable.errors.contains("--netrc: "), "\(readable.errors)")
        let missing = try await get(["--netrc-file", "none", url])
        #expect(missing.status == 2 && missing.errors.contains("none"), "\(missing.errors)")
    }

    @Test func `requests in a manifest are authenticated`() async throws {
        try scratch.write(#"{"requests": [{"id": "a", "url": "\#(url)", "output": "a.txt"}]}"#, to: "m.json")
        let result = try await ToolProcess.run(["run", "--user", "ada:se:cret", "m.json"], in: scratch.url)
        #expect(result.status == 0, "\(result.errors)")
        #expect(try scratch.data("a.txt") == Data("let in".utf8))
    }

    @Test func `a missing password is requested at the terminal and not echoed`() async throws {
        let terminal = try PseudoTerminal()
        let tool = try ToolProcess(command: terminal.command("exec $convoy get -u ada \(url)"), in: scratch.url)
        try await terminal.waitFor("Password for ada: ")
        #expect(try !terminal.isEchoing)
        try terminal.type("se:cret\n")
        let result = try await tool.finished()
        #expect(result.status == 0, "\(result.errors)")
        #expect(try scratch.text("file") == "let in" && terminal.isEchoing)
    }

    @Test func `credentials in a manifest's base URL are sent to that server only`() async throws {
        let other = try TestServer()
        other.route("/other", .status(401).header("WWW-Authenticate", "Basic realm=\"here\""))
        let base = server.url.absoluteString.replacing("http://", with: "http://ada:se%3Acret@")
        let requests = #"[{"id": "a", "url": "/file"}, {"id": "b", "url": "\#(other.url("/other"))"}]"#
        try scratch.write(#"{"baseURL": "\#(base)", "requests": \#(requests)}"#, to: "m.json")
        let result = try await ToolProcess.run(["run", "m.json"], in: scratch.url)
        #expect(result.status == 7 && !(result.output + result.errors).contains("cret"), "\(result.errors)")
        #expect(server.requests.map { $0.headers["Authorization"] } == [nil, Self.authorization])
        #expect(other.requests.count == 1 && other.requests.allSatisfy { $0.headers["Authorization"] == nil })
    }

    @Test func `--user overrides the URL's credentials, and netrc completes a URL without a password`()
        async throws
    {
        let file = scratch.url.appendingPathComponent("netrc")
        try Data("machine 127.0.0.1 login eve password x\nmachine 127.0.0.1 login ada password se:cret\n".utf8).write(
            to: file)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
        for (arguments, user) in [(["--user", "ada:se:cret"], "eve:x@"), (["--netrc-file", file.path], "ada@")] {
            let result = try await get(["-f"] + arguments + [url.replacing("://", with: "://\(user)")])
            #expect(result.status == 0, "\(arguments): \(result.errors)")
            #expect(server.requests.last?.headers["Authorization"] == Self.authorization)
        }
    }

    @Test func `invalid option values are usage errors, and nothing is sent`() async throws {
        for (arguments, text) in [
            (["--user", ""], "--user needs a name"), (["--connect-to", "a:80:b"], "--connect-to takes"),
            (["--proxy", "ftp://x"], "--proxy: "), (["--resolve", "a:b:c"], "--resolve takes"),
            (["--resolve", "host:80:name"], "--resolve takes"), (["--max-redirs", "-1"], "--max-redirs takes"),
            (["--unix-socket", ""], "--unix-socket needs a path"),
        ] {
            let result = try await get(arguments + [url])
            #expect(result.status == 2 && result.errors.contains(text), "\(arguments): \(result.errors)")
        }
        #expect(server.requests.isEmpty)
    }
}
