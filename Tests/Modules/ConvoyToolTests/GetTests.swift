import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@Suite(.serialized) struct GetTests {
    let server: TestServer
    let scratch: Scratch

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
    }

    private func get(_ arguments: String..., paths: String...) async throws -> ToolProcess.Result {
        try await ToolProcess.run(
            ["get"] + arguments + paths.map { server.url($0).absoluteString }, in: scratch.url)
    }

    @Test func `a file is downloaded byte for byte under the name in its URL`() async throws {
        server.route("/a/data.bin", .pattern(count: 3_000_000))
        let result = try await get(paths: "/a/data.bin?x=1#y")
        #expect(result.status == 0)
        #expect(result.outputLines.count == 1)
        #expect(result.output.hasPrefix("data.bin: 3.0 MB in "))
        #expect(result.errors.isEmpty)
        #expect(scratch.names == ["data.bin"])
        #expect(try scratch.data("data.bin") == PatternBytes.data(count: 3_000_000))
    }

    @Test func `--json describes each download, and messages go to standard error`() async throws {
        server.route("/a", .pattern(count: 500_000))
        server.route("/b", .text("gone", status: 404))
        let result = try await get("--json", "-d", "new/deep", paths: "/a", "/b")
        #expect(result.status == 7)
        let objects = try result.objects()
        let good = try #require(objects.first { $0["url"] as? String == server.url("/a").absoluteString })
        #expect(good["status"] as? Double == 200)
        #expect(good["bytes"] as? Double == 500_000)
        #expect(good["file"] as? String == "new/deep/a")
        #expect(good["sha256"] as? String == MessageDigest.sha256(PatternBytes.data(count: 500_000))?.hexadecimalString)
        #expect((good["seconds"] as? Double ?? 0) > 0)
        #expect(good["error"] == nil && good["errorCode"] == nil)
        #expect(good["outcome"] as? String == "downloaded")
        let bad = try #require(objects.first { $0["url"] as? String == server.url("/b").absoluteString })
        #expect(bad["status"] as? Double == 404)
        #expect(bad["file"] == nil)
        #expect(bad["sha256"] == nil)
        #expect((bad["error"] as? String)?.contains("404") == true)
        #expect(bad["errorCode"] as? String == "status")
        #expect(result.errors.contains("1 downloaded, 1 failed"))
        #expect(result.outputLines.allSatisfy { $0.hasPrefix(#"{"url":"#) && $0.contains(#""error":"#) })
    }

    @Test func `failed downloads leave no files, except the received part of a lost body`() async throws {
        server.route("/missing", .text("gone", status: 404))
        server.route("/cut", .pattern(count: 100_000).header("ETag", "\"1\"").truncated(afterBytes: 50_000))
        server.route("/reset", .pattern(count: 100_000).header("ETag", "\"1\"").resets(afterBytes: 50_000))
        let urls = ["http://127.0.0.1:1/dead"] + ["/missing", "/cut", "/reset"].map { server.url($0).absoluteString }
        let result = try await ToolProcess.run(["get", "--retry", "0"] + urls, in: scratch.url)
        #expect(result.status == 1, "expected the status for several kinds of failures")
        #expect(scratch.names.filter { !$0.hasPrefix("cut.convoy") && !$0.hasPrefix("reset.convoy") } == [])
        #expect(scratch.names.contains("cut.convoypart"))
        #expect(result.errorLines.count == 4)
        #expect(result.errorLines.allSatisfy { $0.hasPrefix("convoy: http://127.0.0.1:") && !$0.contains("Domain") })
        #expect(result.output.hasPrefix("0 downloaded, 4 failed"))
    }

    @Test func `a stalled body fails after the timeout`() async throws {
        server.route("/stall", .pattern(count: 100_000).stalls(afterBytes: 10))
        let result = try await get("--timeout", "0.5", "--retry", "0", paths: "/stall")
        #expect(result.status == 6)
        #expect(!scratch.names.contains("stall"))
    }

    @Test func `an empty body creates an empty file`() async throws {
        server.route("/nothing", .bytes(Data()))
        #expect(try await get(paths: "/nothing").status == 0)
        #expect(try scratch.data("nothing").isEmpty)
    }

    @Test func `two URLs with the same name are saved as two files, which the output reports`() async throws {
        server.route("/a/file.tar.gz", .text("first"))
        server.route("/b/file.tar.gz", .text("second"))
        let result = try await get("--jobs=1", paths: "/a/file.tar.gz", "/b/file.tar.gz")
        #expect(result.status == 0)
        #expect(scratch.names == ["file.1.tar.gz", "file.tar.gz"])
        #expect(try scratch.text("file.tar.gz") == "first")
        #expect(try scratch.text("file.1.tar.gz") == "second")
        #expect(result.output.contains("/b/file.tar.gz is saved as file.1.tar.gz"))
    }

    @Test func `an existing file is replaced only with --force`() async throws {
        server.route("/file", .text("new"))
        try scratch.write("old", to: "file")
        let refused = try await get(paths: "/file")
        #expect(refused.status == 8)
        #expect(refused.errors.contains("file exists"))
        #expect(try scratch.text("file") == "old")
        #expect(server.requests.isEmpty)
        let forced = try await get("--force", paths: "/file")
        #expect(forced.status == 0)
        #expect(try scratch.text("file") == "new")
        #expect(scratch.names == ["file"])
    }

    @Test func `a file that appears while it is downloaded is not overwritten`() async throws {
        let gate = TestServer.Gate()
        server.route("/file", .pattern(count: 100_000).heldBody(by: gate, afterBytes: 1000))
        let tool = try ToolProcess(["get", server.url("/file").absoluteString], in: scratch.url)
        try await scratch.waitForFile("file.convoypart")
        try scratch.write("mine", to: "file")
        gate.open()
        let result = try await tool.finished()
        #expect(result.status == 8)
        #expect(result.errors.contains("already exists"))
        #expect(try scratch.text("file") == "mine")
        #expect(scratch.names == ["file"])
    }

    @Test func `two runs never write the same file, even with --force`() async throws {
        let gate = TestServer.Gate()
        server.route("/first/file", .pattern(count: 100_000).heldBody(by: gate, afterBytes: 1000))
        server.route("/second/file", .text("second"))
        let first = try ToolProcess(["get", "-f", server.url("/first/file").absoluteString], in: scratch.url)
        try await scratch.waitForFile("file.convoypart")
        let second = try await get("-f", paths: "/second/file")
        #expect(second.status == 8)
        #expect(second.errors.contains("is writing the file"))
        gate.open()
        #expect(try await first.finished().status == 0)
        #expect(try scratch.data("file") == PatternBytes.data(count: 100_000))
        #expect(scratch.names == ["file"])
    }

    @Test func `given headers are sent, even if a name is repeated`() async throws {
        server.echo(at: "/echo")
        let result = try await get(
            "-H", "X-One: a b", "--header=X-Two: 1", "-HX-Two:2", "--user-agent", "me/1", paths: "/echo")
        #expect(result.status == 0, "\(result.errors)")
        let request = try #require(server.requests.first)
        #expect(request.headers["X-One"] == "a b")
        #expect(request.headers["X-Two"] == "1, 2")
        #expect(request.headers["User-Agent"] == "me/1")
    }

    @Test func `Cookie headers are joined with semicolons`() async throws {
        server.echo(at: "/echo")
        let result = try await get("-H", "Cookie: a=1", "-H", "cookie: b=2", paths: "/echo")
        #expect(result.status == 0, "\(result.errors)")
        #expect(server.requests.first?.headers.values(for: "Cookie") == ["a=1; b=2"])
    }

    @Test func `--user-agent replaces a given User-Agent header, ignoring case`() async throws {
        server.echo(at: "/echo")
        let result = try await get("-H", "user-agent: X", "--user-agent", "Y", paths: "/echo")
        #expect(result.status == 0, "\(result.errors)")
        #expect(server.requests.first?.headers.values(for: "User-Agent") == ["Y"])
    }

    @Test(arguments: ["Content-Type", "authorization", "Host", "User-Agent"])
    func `repeating a single-value header is a usage error`(_ name: String) async throws {
        let result = try await get("-H", "\(name): a", "-H", "\(name.uppercased()): b", paths: "/echo")
        #expect(result.status == 2)
        #expect(result.errors.contains("given twice"))
        #expect(server.requests.isEmpty)
    }

    @Test func `requests do not depend on the user's locale`() async throws {
        server.echo(at: "/echo")
        let url = server.url("/echo").absoluteString
        try scratch.write(#"{"requests": [{"id": "a", "url": "\#(url)"}]}"#, to: "m.json")
        let environment = ["LANG": "de_DE.UTF-8", "LANGUAGE": "de:fr", "LC_ALL": "de_DE.UTF-8"]
        for arguments in [["get", url], ["run", "m.json"]] {
            let result = try await ToolProcess.run(arguments, in: scratch.url, environment: environment)
            #expect(result.status == 0, "\(result.errors)")
        }
        #expect(server.requests.count == 2)
        #expect(server.requests.allSatisfy { $0.headers["Accept-Language"] == nil })
    }

    @Test(arguments: ["X: a\r\nY: b", "X: a\r\n", "X\n: a", "X Y: a", ": a", "X: \u{1B}[2J"])
    func `an invalid header is a usage error, and nothing is sent`(_ header: String) async throws {
        server.route("/file", .text("x"))
        let result = try await get("--header", header, paths: "/file")
        #expect(result.status == 2)
        #expect(result.errorLines.count == 1)
        #expect(!result.errors.contains("\u{1B}"))
        #expect(server.requests.isEmpty)
        #expect(scratch.names.isEmpty)
    }

    @Test func `a custom header is not sent to another origin after a redirect`() async throws {
        let other = try TestServer()
        other.route("/there", .text("x"))
        server.redirect("/here", to: other.url("/there").absoluteString)
        let result = try await get("-H", "X-Key: secret", "-H", "Accept: text/plain", paths: "/here")
        #expect(result.status == 0)
        #expect(scratch.names == ["here"])
        let request = try #require(other.requests.first)
        #expect(request.headers["X-Key"] == nil)
        #expect(request.headers["Accept"] == "text/plain")
        #expect(server.requests.first?.headers["X-Key"] == "secret")
    }

    @Test func `--jobs limits concurrent downloads`() async throws {
        let paths = (0..<12).map { "/n/\($0)" }
        for path in paths { server.route(path, .text("x").delayed(0.05)) }
        let result = try await ToolProcess.run(
            ["get", "-j", "3"] + paths.map { server.url($0).absoluteString }, in: scratch.url)
        #expect(result.status == 0)
        #expect(scratch.names.count == 12)
        #expect(server.peakActiveRequestCount <= 3)
        #expect(server.peakActiveRequestCount > 1)
    }

    @Test(arguments: [SIGINT, SIGTERM, SIGHUP, SIGQUIT])
    func `a signal ends all downloads and keeps the received bytes`(_ signal: Int32) async throws {
        let gate = TestServer.Gate()
        server.route("/held/*", .pattern(count: 100_000).header("ETag", "\"1\"").heldBody(by: gate, afterBytes: 50_000))
        let urls = (0..<4).map { server.url("/held/\($0)").absoluteString }
        let tool = try ToolProcess(["get", "-j2", "--json"] + urls, in: scratch.url)
        for name in ["0.convoypart", "1.convoypart"] {
            try await waitUntil("bytes of \(name)") { (try? scratch.data(name).isEmpty) == false }
        }
        tool.send(signal: signal)
        let result = try await tool.finished()
        #expect(result.status == -signal, "expected termination by the signal")
        #expect(scratch.names == ["0.convoyjournal", "0.convoypart", "1.convoyjournal", "1.convoypart"])
        #expect(result.errors.contains("to resume: convoy get --no-clobber -j 2 --json http"))
        #expect(try result.objects().count == 4)
        #expect(try result.objects().allSatisfy { $0["error"] as? String == "cancelled" })
    }

    @Test func `credentials in a URL are sent to that server only, unless a header overrides them`() async throws {
        let other = try TestServer()
        other.route("/b", .text("x"))
        let redirect = TestServer.Response.redirect(to: other.url("/b").absoluteString)
        server.route("/a") { request in
            request.headers["Authorization"] == nil
                ? .status(401).header("WWW-Authenticate", "Basic realm=\"a\"") : redirect
        }
        let secret = server.url("/a").absoluteString.replacing("http://", with: "http://ada:l%40ve@")
        #expect(try await ToolProcess.run(["get", secret], in: scratch.url).status == 0)
        #expect(server.requests.map { $0.headers["Authorization"] } == [nil, "Basic YWRhOmxAdmU="])
        #expect(other.requests.map { $0.headers["Authorization"] } == [nil])
        let given = try await ToolProcess.run(["get", "-f", "-H", "Authorization: mine", secret], in: scratch.url)
        #expect(given.status == 0 && server.requests.last?.headers["Authorization"] == "mine")
    }

    @Test func `passwords and control characters are not printed`() async throws {
        server.route("/secret", .text("no", status: 403))
        server.route("/%1B%5B2Jx%E2%80%AEy", .text("x"))
        let secret = server.url("/secret").absoluteString.replacing("http://", with: "http://ada:pa55@")
        let result = try await ToolProcess.run(
            ["get", secret, server.url("/%1B%5B2Jx%E2%80%AEy").absoluteString], in: scratch.url)
        #expect(result.status == 7)
        #expect(!(result.output + result.errors).contains("pa55"))
        #expect(!(result.output + result.errors).contains("\u{1B}"))
        #expect(scratch.names == ["_[2Jx_y"])
    }

    @Test(arguments: [
        "http://ada:pa55@127.0.0.1:1/x", "http://ada:pa55@", "ftp://ada:pa55@h/", "http://ada:pa55@h:99999/",
        "http://ada:pa55/wd@h/", "http://ada:pa%0055@h\u{7}/", "//ada:pa55@h/", "HTTP://ada:b@pa55@h/",
    ])
    func `passwords in valid and invalid URLs are not printed`(_ url: String) async throws {
        try scratch.write(#"{"baseURL": "\#(url)", "requests": [{"id": "a", "url": "x"}]}"#, to: "base.json")
        try scratch.write(
            #"{"baseURL": "http://127.0.0.1:1/", "requests": [{"id": "a", "url": "\#(url)"}]}"#, to: "url.json")
        for arguments in [["get", url], ["get", "--json", url], ["run", "--json", "base.json"], ["run", "url.json"]] {
            let result = try await ToolProcess.run(arguments, in: scratch.url)
            #expect(result.status != 0)
            #expect(!(result.output + result.errors).contains("pa55"), "\(result.output)\(result.errors)")
        }
    }

    @Test(arguments: [
        "/..%2f..%2fup", "/%2e%2e", "/.hidden", "/-rf", "/%00", "/", "/dir/", "/%2E%CC%81bashrc", "/a%CC%81.txt",
    ])
    func `a name from a URL stays in the output directory and is not hidden`(_ path: String) async throws {
        server.route("/*", .text("x"))
        let result = try await get("-d", "in", paths: path)
        #expect(result.status == 0, "\(result.errors)")
        #expect(scratch.names == ["in"])
        let names = try FileManager.default.contentsOfDirectory(atPath: scratch.url.appendingPathComponent("in").path)
        #expect(names.count == 1)
        #expect(names.allSatisfy { !".-".unicodeScalars.contains($0.unicodeScalars.first ?? ".") })
    }

    @Test(arguments: ["file", "file.convoypart"])
    func `a destination that is not a regular file is kept, and nothing is sent`(_ name: String) async throws {
        server.route("/file", .text("new"))
        try scratch.makeDirectory(name)
        let result = try await get("--force", paths: "/file")
        #expect(result.status == 8)
        #expect(result.errors.contains("file"), "\(result.errors)")
        #expect(server.requests.isEmpty)
        #expect(scratch.names == [name])
    }

    @Test func `a symbolic link is not followed when writing`() async throws {
        server.route("/file", .pattern(count: 1_000_000))
        try scratch.write("theirs", to: "other")
        try FileManager.default.createSymbolicLink(
            atPath: scratch.url.appendingPathComponent("file.convoypart").path, withDestinationPath: "other")
        #expect(try await get("-f", paths: "/file").status == 8)
        #expect(try scratch.text("other") == "theirs")
        #expect(scratch.names == ["file.convoypart", "other"])
    }

    @Test func `a failed write is reported and keeps the received bytes`() async throws {
        server.route("/file", .pattern(count: 1_000_000).header("ETag", "\"1\""))
        let result = try await ToolProcess.run(
            command: "ulimit -f 100; exec $convoy get '\(server.url("/file"))'", in: scratch.url)
        #expect(result.status == 8)
        #expect(result.errors.contains("File too large"), "\(result.errors)")
        #expect(try await get(paths: "/file").status == 0)
        #expect(scratch.names == ["file"])
        #expect(try scratch.data("file") == PatternBytes.data(count: 1_000_000))
    }

    @Test func `progress bars are drawn on a terminal, one per line, and removed at the end`() async throws {
        server.route("/slow/*", .pattern(count: 400_000).bandwidth(bytesPerSecond: 800_000))
        let urls = ["one", "two", "three"].map { server.url("/slow/\($0)").absoluteString }
        let result = try await ToolProcess.run(["get"] + urls, in: scratch.url, columns: 72)
        #expect(result.status == 0)
        #expect(result.output.contains("━"))
        #expect(result.output.contains("0 of 3 finished"))
        #expect(result.output.contains("kB/s"))
        #expect(result.output.hasSuffix("3 downloaded, 1.2 MB in \(result.output.split(separator: " in ").last ?? "")"))
        #expect(result.output.components(separatedBy: "\u{1B}[?25l").count == 2)
        #expect(result.output.components(separatedBy: "\u{1B}[?25h").count == 2)
        // Each update of the bars ends at the position where it began.
        for line in result.output.replacing("\u{1B}[?7h", with: "\n").split(whereSeparator: \.isNewline) {
            let plain = String(line).replacing(/\x1B\[[?0-9;]*[A-Za-z]/, with: "").filter { $0 != "\r" }
            #expect(plain.count <= 72, "\(plain)")
        }
    }

    @Test func `the program exits with an error when the reader of its output disappears`() async throws {
        let gate = TestServer.Gate()
        server.route("/quick", .text("x"))
        server.route("/held", .pattern(count: 100_000).heldBody(by: gate, afterBytes: 50_000))
        let urls = ["/held", "/quick"].map { "'\(server.url($0))'" }.joined(separator: " ")
        // The reader has exited before the program starts.
        let command = "exec 3> >(exec true); wait $!; exec $convoy get --json \(urls) >&3"
        let result = try await ToolProcess.run(command: command, in: scratch.url)
        #expect(result.status == 1)
        #expect(result.errors.contains("convoy: cannot write to standard output: Broken pipe\n"))
        #expect(scratch.names.filter { !$0.hasPrefix("held.convoy") } == ["quick"])
    }

    @Test func `a failed write to standard output is reported with the number of unfinished downloads`() async throws {
        let gate = TestServer.Gate()
        server.route("/quick", .text("x"))
        server.route("/held", .pattern(count: 100_000).heldBody(by: gate, afterBytes: 50_000))
        let urls = ["/held", "/quick"].map { "'\(server.url($0))'" }.joined(separator: " ")
        let result = try await ToolProcess.run(command: "exec $convoy get \(urls) >/dev/full", in: scratch.url)
        #expect(result.status == 1)
        #expect(result.errorLines.count == 2)
        #expect(result.errorLines.first == "convoy: cannot write to standard output: No space left on device")
        #expect(result.errorLines.last?.hasPrefix("1 downloaded, 1 not finished, 1 B in ") == true)
        #expect(scratch.names.filter { !$0.hasPrefix("held.convoy") } == ["quick"])
    }

    @Test(arguments: ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
    func `a file or socket never reuses the descriptor of a closed standard stream`(_ closed: String) async throws {
        let gate = TestServer.Gate()
        server.route("/held", .pattern(count: 100_000).heldBody(by: gate, afterBytes: 50_000))
        let command = """
            $convoy get '\(server.url("/held"))' \(closed) & pid=$!
            \(ToolProcess.shellWait(for: "[ -e held.convoypart ]"))
            for n in 0 1 2; do readlink /proc/$pid/fd/$n; done
            echo READ
            wait $pid
            """
        let tool = try ToolProcess(command: command, in: scratch.url)
        try await tool.waitForOutput("READ")
        gate.open()
        let result = try await tool.finished()
        #expect(result.status == 0)
        let targets = result.outputLines.prefix(while: { $0.hasPrefix("/") })
        #expect(targets.count == 3, "\(result.output)")
        for (stream, target) in zip(["<&-", ">&-", "2>&-"], targets) where closed.split(separator: " ").contains(stream[...])
        {
            #expect(target == "/dev/null", "\(stream)")
        }
    }
}
