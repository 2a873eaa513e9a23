import ConvoyTestServer
import Foundation
import Testing

@testable import ConvoyTool

/// `convoy send --session`.
@Suite(.serialized) struct SendSessionTests {
    let server: TestServer
    let scratch: Scratch

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
        server.route(nil, "/login", TestServer.Response.text("in").header("Set-Cookie", "sid=s-1; Path=/; HttpOnly"))
        server.route(nil, "/me") { .text("\($0.headers["Cookie"] ?? "none") \($0.headers["X-Token"] ?? "none")") }
        server.route("/secret") { request in
            request.headers["Authorization"] == "Basic YWRhOnB3LTEyMw=="
                ? .text("secret") : .status(401, headers: ["WWW-Authenticate": "Basic realm=\"r\""])
        }
    }

    private func send(_ arguments: String...) async throws -> ToolProcess.Result {
        let url = server.url.absoluteString
        return try await ToolProcess.run(
            ["send"] + arguments.map { $0.replacing("URL", with: url) }, in: scratch.url,
            environment: ["XDG_STATE_HOME": scratch.url.path + "/state"])
    }

    private func path(_ name: String = "work") -> String { "state/convoy/sessions/127.0.0.1_\(server.port)/\(name).json" }

    private func mode(_ path: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: scratch.url.appendingPathComponent(path).path)
        return try #require(attributes[.posixPermissions] as? Int)
    }

    @Test func `cookies, fields and the login are kept for the next request`() async throws {
        let first = try await send(
            "--session", "work", "-u", "ada:pw-123", "POST", "URL/login", "X-Token:t-1", "If-Match:x", "a=b")
        #expect(first.status == 0 && first.output == "in" && first.errors.isEmpty, "\(first.errors)")
        #expect(try await send("--session", "work", "URL/me").output == "sid=s-1 t-1")
        #expect(try await send("--session", "work", "URL/secret").output == "secret")
        #expect(try await send("--session", "other", "URL/me").output == "none none")
        #expect(try await send("URL/me").output == "none none")
        #expect(try mode(path()) == 0o600)
        for directory in ["state/convoy", "state/convoy/sessions"] { #expect(try mode(directory) == 0o700) }
        let text = try scratch.text(path())
        #expect(
            text.contains("pw-123") && text.contains("s-1") && !text.contains("If-Match") && !text.contains("Content-Type"))
    }

    @Test func `--auth and --bearer send a login at once, which a session keeps`() async throws {
        server.route("/auth") { .text($0.headers["Authorization"] ?? "none") }
        #expect(try await send("-a", "ada:p:w", "URL/auth").output == "Basic YWRhOnA6dw==")
        #expect(try await send("--session", "work", "--bearer", "token-123456", "URL/auth").output == "Bearer token-123456")
        #expect(try await send("--session", "work", "URL/auth").output == "Bearer token-123456")
        #expect(try await send("--session", "work", "-a", "ada:pw", "URL/auth").output == "Basic YWRhOnB3")
        #expect(try await send("--session", "work", "URL/auth").output == "Basic YWRhOnB3")
        let saved = try await send("--save", "m.yaml", "--bearer", "token-123456", "--offline", "URL/auth")
        #expect(saved.status == 0 && !saved.output.contains("token-123456"), "\(saved.errors)")
        #expect(try scratch.text("m.yaml").contains("Authorization: \"Bearer ${env.TOKEN}\""))
        server.forgetRequests()
        for wrong in [["-a", ""], ["--bearer", ""], ["-a", "a:b", "-u", "c:d"], ["--bearer", "x", "Authorization:y"]] {
            let result = try await ToolProcess.run(["send", server.url("/auth").absoluteString] + wrong, in: scratch.url)
            #expect(result.status == 2 && result.errorLines.count == 1, "\(wrong): \(result.errors)")
        }
        #expect(server.requests.isEmpty)
    }

    @Test func `a field of the command line replaces that of the session, and an empty one removes it`() async throws {
        _ = try await send("--session", "work", "URL/me", "X-Token:t-1")
        #expect(try await send("--session-read-only", "work", "URL/me", "X-Token:t-2").output == "none t-2")
        #expect(try await send("--session", "work", "URL/me").output == "none t-1")
        #expect(try await send("--session", "work", "URL/me", "X-Token:").output == "none none")
        #expect(try await send("--session", "work", "URL/me").output == "none none")
    }

    @Test func `nothing is stored if nothing is sent, or the session is read-only`() async throws {
        _ = try await send("--session", "work", "--offline", "URL/me", "X-Token:t-1")
        _ = try await send("--session", "work", "--curl", "URL/me", "X-Token:t-1")
        _ = try await send("--session-read-only", "work", "URL/login", "X-Token:t-1")
        #expect(!scratch.names.contains("state"))
    }

    @Test func `another server has another session, and receives nothing of this one`() async throws {
        let other = try TestServer()
        other.route("/me") { .text("\($0.headers["Cookie"] ?? "none") \($0.headers["X-Token"] ?? "none")") }
        server.redirect("/away", to: other.url("/me").absoluteString)
        _ = try await send("--session", "work", "-u", "ada:pw-123", "URL/login", "X-Token:t-1")
        let result = try await send("--session", "work", other.url("/me").absoluteString)
        #expect(result.output == "none none")
        #expect(try await send("--session", "work", "URL/away").output.hasSuffix("none"))
        // A copied file must not send its secrets to this server.
        let copy = "state/convoy/sessions/127.0.0.1_\(other.port)/work.json"
        try scratch.write(try scratch.text(path()), to: copy)
        let copied = try await send("--session", "work", other.url("/me").absoluteString)
        #expect(copied.status == 2 && copied.errors.contains("not a session of http://127.0.0.1:\(other.port)"))
    }

    @Test(arguments: [
        ("{", "line 1: "), ("[]", "not a session of"),
        (#"{"server": "SERVER", "headers": {"A": 1}}"#, "the header A is not text"),
        (#"{"server": "SERVER", "headers": {"A": "x\r\nB: y"}}"#, "control character"),
        (#"{"server": "SERVER", "cookies": 1}"#, "cookies is not a list"),
        (#"{"server": "SERVER", "login": 5}"#, "login is not an object"),
        (#"{"server": "SERVER", "login": {"user": "ada"}}"#, "login has no user or no password"),
        (#"{"server": "SERVER", "headers": []}"#, "headers is not an object"),
        (#"{"server": "SERVER", "cookies": [{"name": "a"}]}"#, "not a cookie: a"),
        (#"{"server": "SERVER", "server": "SERVER"}"#, "line 1: "), ("\u{0}", "line 1: "),
    ])
    func `a file that is not a session is rejected, and kept`(_ text: String, _ message: String) async throws {
        _ = try await send("--session", "work", "URL/me", "X-Token:t-1")
        server.forgetRequests()
        let text = text.replacing("SERVER", with: "http://127.0.0.1:\(server.port)")
        try scratch.write(text, to: path())
        let result = try await send("--session", "work", "URL/me")
        #expect(result.status == 2 && result.errorLines.count == 1 && result.errors.contains(message), "\(result.errors)")
        #expect(try scratch.text(path()) == text && server.requests.isEmpty)
    }

    @Test func `a file that is too long is rejected`() async throws {
        _ = try await send("--session", "work", "URL/me", "X-Token:t-1")
        server.forgetRequests()
        let handle = try FileHandle(forWritingTo: scratch.url.appendingPathComponent(path()))
        try handle.truncate(atOffset: UInt64(SendSession.maximumLength) + 1)
        try handle.close()
        let result = try await send("--session", "work", "URL/me")
        #expect(result.status == 2 && result.errorLines.count == 1)
        #expect(result.errors.contains("is larger than \(SendSession.maximumLength) bytes"), "\(result.errors)")
        #expect(server.requests.isEmpty)
    }

    @Test func `links and files that others can write are rejected`() async throws {
        _ = try await send("--session", "work", "URL/me", "X-Token:t-1")
        let file = scratch.url.appendingPathComponent(path())
        try FileManager.default.setAttributes([.posixPermissions: 0o622], ofItemAtPath: file.path)
        let writable = try await send("--session", "work", "URL/me")
        #expect(writable.status == 2 && writable.errors.contains("chmod go-w"), "\(writable.errors)")
        try FileManager.default.removeItem(at: file)
        try scratch.write("precious", to: "precious")
        try FileManager.default.createSymbolicLink(
            at: file, withDestinationURL: scratch.url.appendingPathComponent("precious"))
        let linked = try await send("--session", "work", "URL/me", "X-Token:t-1")
        #expect(linked.status == 2 && linked.errors.contains("symbolic link"), "\(linked.errors)")
        #expect(try scratch.text("precious") == "precious")
        // A link to nothing must not be followed either.
        try FileManager.default.removeItem(at: scratch.url.appendingPathComponent("precious"))
        let dangling = try await send("--session", "work", "URL/me", "X-Token:t-1")
        #expect(dangling.status == 2 && !scratch.names.contains("precious"), "\(dangling.errors)")
    }

    @Test func `a directory that others can write is rejected`() async throws {
        try scratch.makeDirectory("state/convoy/sessions")
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o777], ofItemAtPath: scratch.url.appendingPathComponent("state/convoy/sessions").path)
        let result = try await send("--session", "work", "URL/me")
        #expect(result.status == 8 && result.errors.contains("chmod go-w"), "\(result.errors)")
    }

    @Test(arguments: ["../x", "a/b", "", ".", ".hidden", "a b", "é", String(repeating: "a", count: 101)])
    func `a name that is not plain is a usage error`(_ name: String) async throws {
        let result = try await send("--session", name, "URL/me")
        #expect(result.status == 2 && result.errors.contains("--session takes a name of"), "\(result.errors)")
        #expect(server.requests.isEmpty)
    }

    @Test func `sessions cannot be combined with each other or a cookie file`() async throws {
        for other in [["--cookie-jar", "c.txt"], ["--session-read-only", "b"]] {
            let result = try await ToolProcess.run(
                ["send", "--session", "a"] + other + [server.url("/me").absoluteString], in: scratch.url)
            #expect(result.status == 2 && result.errors.contains("cannot be combined"), "\(result.errors)")
        }
    }

    @Test func `no output contains the secrets of a session`() async throws {
        _ = try await send("--session", "work", "-u", "ada:pw-123456", "URL/login", "X-Api-Key:key-123456")
        for options in [["-v"], ["--print", "HBhb"], ["--offline"], ["--curl"], ["--har", "a.har"]] {
            let url = server.url("/secret").absoluteString
            let result = try await ToolProcess.run(
                ["send", "--session", "work"] + options + [url], in: scratch.url,
                environment: ["XDG_STATE_HOME": scratch.url.path + "/state"])
            let text = result.output + result.errors + ((try? scratch.text("a.har")) ?? "")
            for secret in ["pw-123456", "key-123456", "s-1", "YWRhOnB3LTEyMzQ1Ng"] {
                #expect(!text.contains(secret), "\(options): \(text)")
            }
        }
    }
}
