import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Cookies of a run, and `--cookie-jar`.
@Suite(.serialized) struct CookieJarTests {
    let scratch: Scratch
    let server: TestServer

    init() throws {
        scratch = try Scratch()
        server = try TestServer()
        server.route("/login") { _ in
            .text("in").header("Set-Cookie", "sid=s3cret; Path=/; Max-Age=600; HttpOnly").header("Set-Cookie", "now=1")
        }
        server.route("/report") { request in .text(request.headers["Cookie"] ?? "nothing") }
    }

    private func address(_ path: String) -> String { server.url(path).absoluteString }

    private func run(_ arguments: [String]) async throws -> ToolProcess.Result {
        let requests = #"""
            {"requests": [{"id": "login", "url": "\#(address("/login"))"},
              {"id": "report", "url": "\#(address("/report"))", "dependsOn": ["login"], "output": "report"}]}
            """#
        try scratch.write(requests, to: "m.json")
        return try await ToolProcess.run(["run", "-f"] + arguments + ["m.json"], in: scratch.url)
    }

    private func get(_ path: String, _ arguments: String...) async throws -> ToolProcess.Result {
        try await ToolProcess.run(["get", "-f"] + arguments + [address(path)], in: scratch.url)
    }

    @Test func `cookies are shared within a run, but not between runs`() async throws {
        #expect(try await run([]).status == 0)
        #expect(try scratch.text("report") == "sid=s3cret; now=1")
        #expect(try await get("/report").status == 0)
        #expect(try scratch.text("report") == "nothing")
        #expect(!scratch.names.contains("jar"))
    }

    @Test func `--cookie-jar shares cookies with other runs and curl; only the owner can read it`() async throws {
        let result = try await run(["--cookie-jar", "jar"])
        #expect(result.status == 0 && !(result.output + result.errors).contains("s3cret"))
        let mode = try FileManager.default.attributesOfItem(atPath: scratch.url.appendingPathComponent("jar").path)
        #expect(mode[.posixPermissions] as? Int == 0o600)
        #expect(try await get("/report", "--cookie-jar", "jar").status == 0)
        #expect(try scratch.text("report") == "sid=s3cret; now=1")
        let other = try ProcessRunner.run(
            "curl", ["-s", "-b", "jar", address("/report")], directory: scratch.url, timeout: 30)
        #expect(Set(String(decoding: other.output, as: UTF8.self).components(separatedBy: "; ")) == ["sid=s3cret", "now=1"])
        // A file written by curl is read, too.
        try FileManager.default.removeItem(at: scratch.url.appendingPathComponent("jar"))
        _ = try ProcessRunner.run("curl", ["-s", "-c", "jar", address("/login")], directory: scratch.url, timeout: 30)
        #expect(try await get("/report", "--cookie-jar", "jar").status == 0)
        #expect(try scratch.text("report").contains("sid=s3cret"))
    }

    @Test func `cookies set by a redirect are sent to its target`() async throws {
        server.route("/gate", .status(302).header("Location", "/report").header("Set-Cookie", "gate=open; Path=/"))
        #expect(try await get("/gate").status == 0)
        #expect(try scratch.text("gate") == "gate=open")
    }

    @Test func `a failed or interrupted run saves the cookies it has received`() async throws {
        server.route("/missing", .status(404).header("Set-Cookie", "seen=1; Path=/"))
        #expect(try await get("/missing", "--cookie-jar", "jar").status == 7)
        #expect(try scratch.text("jar").contains("\tseen\t1\n"))
        let gate = TestServer.Gate()
        server.route(
            "/held", .pattern(count: 100_000).header("Set-Cookie", "held=1; Path=/").heldBody(by: gate, afterBytes: 50_000))
        let tool = try ToolProcess(
            command: "exec $convoy get --cookie-jar jar \(address("/held"))", in: scratch.url)
        try await scratch.waitForBytes(of: "held.convoypart")
        tool.send(signal: SIGINT)
        #expect(try await tool.finished().status == -SIGINT)
        let jar = try scratch.text("jar")
        #expect(jar.contains("\tseen\t1\n") && jar.contains("\theld\t1\n"))
    }

    @Test func `a file that is not a cookie jar is not replaced`() async throws {
        try scratch.write("dear diary,\n", to: "diary")
        let result = try await get("/report", "--cookie-jar", "diary")
        #expect(result.status == 2 && result.errors.contains("line 1 of diary is not a cookie"), "\(result.errors)")
        #expect(try scratch.text("diary") == "dear diary,\n")
        for file in ["/dev/null", ".", ""] {
            let result = try await get("/report", "--cookie-jar", file)
            #expect(result.status == 2 && result.errors.contains("--cookie-jar"), "\(file): \(result.errors)")
        }
        let nowhere = try await get("/report", "--cookie-jar", "none/jar")
        #expect(nowhere.status == 2 && nowhere.errors.contains("cannot be written"), "\(nowhere.errors)")
        #expect(server.requests.isEmpty)
    }

    @Test func `a symbolic link is kept, and its target is replaced`() async throws {
        try scratch.makeDirectory("home")
        try scratch.write("", to: "home/jar")
        try FileManager.default.createSymbolicLink(
            atPath: scratch.url.appendingPathComponent("jar").path, withDestinationPath: "home/jar")
        #expect(try await run(["--cookie-jar", "jar"]).status == 0)
        #expect(try scratch.text("home/jar").contains("\tsid\ts3cret\n"))
        let kind = try FileManager.default.attributesOfItem(atPath: scratch.url.appendingPathComponent("jar").path)
        #expect(kind[.type] as? FileAttributeType == .typeSymbolicLink)
    }

    @Test func `cookies that no server may set are reported and skipped`() async throws {
        try scratch.write(".com\tTRUE\t/\tFALSE\t0\ta\t1\n127.0.0.1\tFALSE\t/\tFALSE\t0\tb\t2\n", to: "jar")
        let result = try await get("/report", "--cookie-jar", "jar")
        #expect(result.status == 0 && result.errors.contains("skipped cookies that no server may set, on line 1"))
        #expect(try scratch.text("report") == "b=2")
    }
}
