import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// What `convoy send` prints: the parts, the colors, and bodies as they arrive.
@Suite(.serialized) struct SendOutputTests {
    let server: TestServer
    let scratch: Scratch

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
        server.route(nil, "/api", .json(text: #"{"n":5}"#))
        server.route(
            "/html", .bytes(Data("<!doctype html>\n<p class=\"x\">\tone &amp; <b>two</b>\n".utf8), type: "text/html"))
        server.route(
            "/xml", .bytes(Data("<?xml version=\"1.0\"?><a x='1'><b>one</b><c/></a>".utf8), type: "application/xml"))
    }

    private func send(_ arguments: String..., columns: Int? = nil) async throws -> ToolProcess.Result {
        let url = server.url.absoluteString
        return try await ToolProcess.run(
            ["send"] + arguments.map { $0.replacing("URL", with: url) }, in: scratch.url, columns: columns)
    }

    @Test func `--print selects the parts`() async throws {
        let all = try await send("--print", "HBhb", "POST", "URL/api?q=1", "a=b", "X-A:c")
        #expect(all.status == 0 && all.errors.isEmpty, "\(all.errors)")
        let parts = all.output.components(separatedBy: "\n\n")
        try #require(parts.count == 4, "\(all.output)")
        #expect(parts[0].hasPrefix("POST /api?q=1 HTTP/1.1\nHost: 127.0.0.1:\(server.port)\n"))
        #expect(parts[0].contains("\nX-A: c") && parts[0].contains("\nContent-Type: application/json"))
        #expect(parts[1] == #"{"a":"b"}"#)
        #expect(parts[2].hasPrefix("HTTP/1.1 200 ") && parts[2].contains("Content-Type: application/json"))
        #expect(parts[3] == #"{"n":5}"#)
        #expect(try await send("--print", "b", "URL/api").output == #"{"n":5}"#)
        #expect(try await send("-p", "h", "URL/api").output.hasPrefix("HTTP/1.1 200 "))
        #expect(try await send("-p", "B", "PUT", "URL/api", "a:=1").output == "{\"a\":1}\n")
        #expect(try await send("-p", "", "URL/api").output == "")
        let head = try await send("--print", "H", "URL/api", "Authorization:Bearer token-12345")
        #expect(
            head.output.contains("Authorization: ***\n") && !head.output.contains("token-12345"), "\(head.output)")
    }

    @Test(arguments: ["/missing", "/nothing"])
    func `a pipe receives the body of an error, and an empty one`(_ path: String) async throws {
        server.route("/missing", .text("not here").status(404))
        server.route("/nothing", .status(204))
        let url = server.url(path).absoluteString
        let result = try await ToolProcess.run(
            command: "mkfifo pipe; cat pipe >copy & timeout 60 $convoy send GET \(url) -o pipe; s=$?; wait; exit $s",
            in: scratch.url)
        #expect(result.status == (path == "/missing" ? 7 : 0), "\(result.errors)")
        #expect(try scratch.text("copy") == (path == "/missing" ? "not here" : ""))
    }

    @Test(arguments: [["--print", "x"], ["--print", "h", "--head"], ["--print", "h", "--capture", "a=status"]])
    func `wrong parts are usage errors`(_ arguments: [String]) async throws {
        let result = try await ToolProcess.run(["send"] + arguments + [server.url("/api").absoluteString], in: scratch.url)
        #expect(result.status == 2 && result.errors.contains("--print") && server.requests.isEmpty, "\(result.errors)")
    }

    @Test func `the heads are printed beside a body that goes to a file`() async throws {
        let result = try await send("-o", "out.json", "--print", "Hh", "URL/api")
        #expect(
            result.output.hasPrefix("GET /api HTTP/1.1\n") && result.output.contains("\nHTTP/1.1 200 "), "\(result.output)")
        #expect(try scratch.text("out.json") == #"{"n":5}"#)
        #expect(try await send("-o", "-", "URL/api").output == #"{"n":5}"#)
    }

    @Test func `--color always formats and colors bodies without a terminal`() async throws {
        let json = try await send("--color", "always", "URL/api")
        #expect(json.output == "{\n  \u{1B}[36m\"n\"\u{1B}[0m: \u{1B}[33m5\u{1B}[0m\n}\n")
        let html = try await send("--color", "always", "URL/html")
        #expect(
            html.output == """
                \u{1B}[2m<!doctype html>\u{1B}[0m
                \u{1B}[36m<p\u{1B}[0m \u{1B}[33mclass\u{1B}[0m=\u{1B}[32m"x"\u{1B}[0m\u{1B}[36m>\u{1B}[0m    one &amp; \u{1B}[36m<b\u{1B}[0m\u{1B}[36m>\u{1B}[0mtwo\u{1B}[36m</b\u{1B}[0m\u{1B}[36m>\u{1B}[0m


                """, "\(html.output.debugDescription)")
        let xml = try await send("--color", "always", "-p", "b", "URL/xml")
        #expect(
            xml.output.replacing(/\x1B\[[0-9]+m/, with: "")
                == "<?xml version=\"1.0\"?>\n<a x='1'>\n  <b>one</b>\n  <c/>\n</a>\n", "\(xml.output.debugDescription)")
    }

    @Test func `without a terminal nothing is colored or changed`() async throws {
        for path in ["html", "xml", "api"] {
            let result = try await send("URL/\(path)")
            #expect(!result.output.contains("\u{1B}") && !result.output.contains("  <b>"), "\(result.output)")
        }
        let terminal = try await send("--color", "never", "URL/xml", columns: 80)
        #expect(!terminal.output.contains("\u{1B}[3") && terminal.output.contains("\r\n  <b>one</b>"), "\(terminal.output)")
    }

    @Test(arguments: [
        ("<a><b>x</b>y</a>", "<a><b>x</b>y</a>"), ("<a>\n<b/></a>", "<a>\n<b/></a>"), ("<a><b></a>", "<a><b></a>"),
        ("<a><b>x</b><!-- c --><c d='>'/></a>", "<a>\n  <b>x</b>\n  <!-- c -->\n  <c d='>'/>\n</a>"),
        ("<a> <b/> </a>", "<a>\n  <b/>\n</a>"),
        ("a < b", "a < b"), ("<a", "<a"), ("<!-- <a>", "<!-- <a>"), ("<a x=\"", "<a x=\""),
        ("<a><![CDATA[<b>]]></a>", "<a><![CDATA[<b>]]></a>"),
        ("<a>\u{1B}[31m\u{202E}</a>", "<a>?[31m?</a>"), ("</a>", "</a>"), ("", ""), ("<a/><b/>", "<a/>\n<b/>"),
    ])
    func `XML is indented only if that keeps its meaning`(_ text: String, _ expected: String) throws {
        let lines = MarkupPrinter.lines(of: text, isHTML: false, Display())
        #expect(lines.joined(separator: "\n") == expected)
        let html = MarkupPrinter.lines(of: text, isHTML: true, Display())
        #expect(html.count == text.split(separator: "\n", omittingEmptySubsequences: false).count)
    }

    @Test func `the tokens of markup cover every byte`() {
        let parts = [
            "<", ">", "a", "</", "<!--", "-->", "\"", "'", "=", " ", "\n", "<script>", "</script>", "<![CDATA[", "]]>", "/",
            "é", "?",
        ]
        var generator = SplitMix64(seed: 7)
        for _ in 0..<5_000 {
            let text = (0..<Int.random(in: 0..<12, using: &generator)).map { _ in
                parts.randomElement(using: &generator) ?? ""
            }.joined()
            for isHTML in [false, true] {
                let tokens = MarkupPrinter.tokens(in: Array(text.utf8), isHTML: isHTML)
                let ranges = tokens.map(\.range)
                #expect(ranges.flatMap { Array($0) } == Array(0..<text.utf8.count), "\(text.debugDescription)")
            }
            _ = MarkupPrinter.lines(of: text, isHTML: false, Display())
        }
    }

    // MARK: Streams

    @Test(arguments: [nil, 80]) func `events are printed as they arrive`(columns: Int?) async throws {
        let gate = TestServer.Gate(), text = "data: one\n\ndata: two\n\n"
        server.route("/events", .bytes(Data(text.utf8), type: "text/event-stream").heldBody(by: gate, afterBytes: 12))
        let process = try ToolProcess(["send", server.url("/events").absoluteString], in: scratch.url, columns: columns)
        try await process.waitForOutput("data: one")
        #expect(try !process.output().contains("two"))
        gate.open()
        let result = try await process.finished()
        #expect(result.status == 0 && result.output.contains("data: two"), "\(result.errors)")
    }

    @Test func `a long line is cut between characters`() async throws {
        // Each character after the first begins at an odd offset, so that no part of the body ends between two of them.
        let line = "a" + String(repeating: "é", count: 100_000)
        server.route("/long", .bytes(Data(line.utf8), type: "text/event-stream"))
        let result = try await send("--color", "always", "--print", "b", "URL/long")
        #expect(result.outputLines.count > 1 && result.outputLines.joined() == line, "\(result.errors)")
    }

    /// Returns the peak of a process's memory in KiB when it has received all but the last byte of a body.
    private func peak(_ options: [String], count: Int) async throws -> Int {
        let gate = TestServer.Gate(), line = String(repeating: "x", count: 99) + "\n"
        let data = Data(String(repeating: line, count: count / 100).utf8)
        server.route("/large", .bytes(data, type: "text/plain").heldBody(by: gate, afterBytes: data.count - 1))
        let url = server.url("/large").absoluteString
        let words = (options + [url]).joined(separator: " "), scratch = scratch
        let process = try ToolProcess(command: "exec \"$convoy\" send \(words) >printed.txt", in: scratch.url)
        try await waitUntil("most of the body") {
            let sizes = scratch.names.map { name -> Int in
                let path = scratch.url.appendingPathComponent(name).path
                let attributes = try? FileManager.default.attributesOfItem(atPath: path)
                return attributes?[.size] as? Int ?? 0
            }
            return (sizes.max() ?? 0) >= data.count - (128 << 10)
        }
        let status = try String(contentsOfFile: "/proc/\(process.id)/status", encoding: .utf8)
        let peak = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        gate.open()
        #expect(try await process.finished().status == 0)
        for name in scratch.names { try FileManager.default.removeItem(at: scratch.url.appendingPathComponent(name)) }
        return try #require(peak?.split(separator: " ").dropFirst().first.flatMap { Int($0) })
    }

    @Test(arguments: [[], ["-o", "out.txt"], ["--color", "always"]] as [[String]])
    func `a large body takes no more memory than a small one`(_ options: [String]) async throws {
        let small = try await peak(options, count: 6 << 20), large = try await peak(options, count: 22 << 20)
        #expect(large < small + (12 << 10), "\(small) KiB, \(large) KiB")
    }

    @Test func `a closed pipe ends the program`() async throws {
        server.route("/large", .pattern(count: 50 << 20))
        let url = server.url("/large").absoluteString
        let result = try await ToolProcess.run(
            command: "\"$convoy\" send \(url) 2>errors.txt | head -c 10 >/dev/null; echo ${PIPESTATUS[0]}", in: scratch.url)
        #expect(result.output != "0\n", "\(result.output)")
        #expect(try scratch.text("errors.txt").contains("standard output"))
    }

    @Test func `an output file keeps its mode, and an interrupted one is not replaced`() async throws {
        try scratch.write("old", to: "out.txt")
        let file = scratch.url.appendingPathComponent("out.txt").path
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: file)
        server.route("/cut", TestServer.Response.text("half").header("Content-Length", "100"))
        let cut = try await send("-o", "out.txt", "--retry", "0", "URL/cut")
        #expect(cut.status == 4 && scratch.names == ["out.txt"], "\(cut.errors) \(scratch.names)")
        #expect(try scratch.text("out.txt") == "old")
        #expect(try await send("-o", "out.txt", "URL/api").status == 0)
        #expect(try scratch.text("out.txt") == #"{"n":5}"#)
        let attributes = try FileManager.default.attributesOfItem(atPath: file)
        #expect(attributes[.posixPermissions] as? Int == 0o640)
        server.route("/empty", .bytes(Data()))
        #expect(try await send("-o", "out.txt", "URL/empty").status == 0)
        #expect(try scratch.text("out.txt") == "")
        server.route("/bad", .text("an error", status: 500))
        #expect(try await send("-o", "out.txt", "--retry", "0", "URL/bad").status == 7)
        #expect(try scratch.text("out.txt") == "an error")
    }

    @Test func `a signal removes the incomplete file and keeps the old one`() async throws {
        try scratch.write("old", to: "out.txt")
        for _ in 0..<5 {
            let gate = TestServer.Gate()
            server.route("/large", TestServer.Response.pattern(count: 8 << 20).heldBody(by: gate, afterBytes: 4 << 20))
            let process = try ToolProcess(["send", "-o", "out.txt", server.url("/large").absoluteString], in: scratch.url)
            let scratch = scratch
            try await waitUntil("an incomplete file") { scratch.names.count == 2 }
            process.send(signal: SIGTERM)
            #expect(try await process.finished().status == -SIGTERM)
            gate.open()
            #expect(scratch.names == ["out.txt"])
            #expect(try scratch.text("out.txt") == "old")
        }
    }

    @Test func `a body is retried before its first byte, and checked when an expectation needs it`() async throws {
        let tries = Locked(0)
        server.route("/busy") { _ in
            let number = tries.withLock { tries in
                tries += 1
                return tries
            }
            return number < 2 ? .text("busy", status: 503) : .text("ok")
        }
        #expect(try await send("--retry", "2", "URL/busy").output == "ok")
        let wrong = try await send("--expect", "bytes=3", "URL/api")
        #expect(wrong.status != 0 && wrong.output == #"{"n":5}"#, "\(wrong.errors)")
        #expect(try await send("--expect", "bytes=7", "--expect", "status=200", "URL/api").status == 0)
    }
}
