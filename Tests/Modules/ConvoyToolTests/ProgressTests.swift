import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// The progress output, with and without bars.
@Suite(.serialized) struct ProgressTests {
    let bench: Workbench

    init() throws {
        bench = try Workbench()
        bench.hold(count: 3_000_000, at: "/big.iso", after: 1_500_000)
    }

    private var big: String { bench.url("/big.iso") }

    // MARK: Lines

    @Test func `--progress plain prints a line for a long transfer`() async throws {
        let tool = try ToolProcess(["get", "--progress", "plain", big], in: bench.scratch.url)
        try await tool.waitForOutput("\n")
        bench.gate.open()
        let result = try await tool.finished()
        let first = try #require(result.outputLines.first)
        #expect(first.contains(/^big\.iso: 50 %, 1\.5 MB of 3\.0 MB, [\d.]+ [kM]B\/s, 0:\d\d left$/), "\(first)")
        #expect(result.outputLines.last?.hasPrefix("big.iso: 3.0 MB in ") == true)
        #expect(!result.output.contains("\u{1B}"))
    }

    @Test func `--progress plain prints no progress for small files`() async throws {
        bench.server.route("/small/*", .text("x"))
        let urls = (0..<100).map { bench.url("/small/\($0)") }
        let result = try await ToolProcess.run(["get", "--progress=plain"] + urls, in: bench.scratch.url)
        #expect(result.outputLines.count == 101, "\(result.errors)")
        #expect(!result.output.contains("%"))
    }

    @Test func `bytes from an earlier run are not part of the rate`() async throws {
        let data = PatternBytes.data(count: 3_000_000)
        let (first, second) = (TestServer.Gate(), bench.gate)
        bench.server.route("/big.iso") { request in
            guard let range = request.headers["Range"], let start = Int(range.dropFirst(6).prefix { $0.isNumber }) else {
                return .bytes(data).header("ETag", "\"a\"").heldBody(by: first, afterBytes: 1_500_000)
            }
            var rest = TestServer.Response.bytes(data.dropFirst(start)).header("ETag", "\"a\"")
                .header("Content-Range", "bytes \(start)-\(data.count - 1)/\(data.count)")
            rest.status = 206
            return rest.heldBody(by: second, afterBytes: 800_000)
        }
        let interrupted = try ToolProcess(["get", "--progress", "plain", big], in: bench.scratch.url)
        try await interrupted.waitForOutput("50 %")
        interrupted.send(signal: SIGINT)
        _ = try await interrupted.finished()
        first.open()
        let tool = try ToolProcess(["get", "--progress", "plain", big], in: bench.scratch.url)
        try await tool.waitForOutput("\n")
        second.open()
        let result = try await tool.finished()
        #expect(bench.server.requests.last?.headers["Range"] == "bytes=1500000-")
        let line = try #require(result.outputLines.first)
        // The rate is that of 800 kB in a second or more, rather than of 2.3 MB.
        #expect(line.contains(/^big\.iso: 76 %, 2\.3 MB of 3\.0 MB, [\d.]+ kB\/s,/), "\(line)")
    }

    @Test(arguments: [[], ["--progress", "bar"], ["--progress", "auto"], ["--progress", "none"]])
    func `output to a pipe contains no bars or progress lines`(_ options: [String]) async throws {
        bench.server.route("/slow", .pattern(count: 400_000).bandwidth(bytesPerSecond: 250_000))
        let result = try await ToolProcess.run(["get", bench.url("/slow")] + options, in: bench.scratch.url)
        #expect(result.outputLines.count == 1)
        #expect(!(result.output + result.errors).contains("\u{1B}"))
    }

    @Test(arguments: ["none", "plain"])
    func `without bars, no cursor sequences are sent to a terminal`(_ style: String) async throws {
        let tool = try ToolProcess(["get", "--progress", style, big], in: bench.scratch.url, columns: 80)
        if style == "plain" {
            try await tool.waitForOutput("50 %")
        } else {
            try await bench.scratch.waitForFile("big.iso.convoypart")
        }
        bench.gate.open()
        let result = try await tool.finished()
        #expect(result.output.replacing(/\u{1B}\[\d+m/, with: "").contains("\u{1B}") == false, "\(result.output)")
    }

    // MARK: Colour

    @Test(arguments: [
        ([], "", true), ([], "1", false), (["--color", "always"], "1", true), (["--color", "never"], "", false),
    ])
    func `--color controls color, and NO_COLOR disables it by default`(
        _ options: [String], _ variable: String, _ isColoured: Bool
    ) async throws {
        let tool = try ToolProcess(
            ["get"] + options + [big], in: bench.scratch.url, environment: ["NO_COLOR": variable], columns: 80)
        try await tool.waitForOutput("50%")
        bench.gate.open()
        let output = try await tool.finished().output
        #expect(output.contains(/\u{1B}\[\d+m/) == isColoured)
        #expect(output.contains("━") && output.contains("\u{1B}[?25h"))
    }

    @Test func `--color always adds color to piped output`() async throws {
        bench.gate.open()
        let command = "$convoy get --color always '\(big)' http://127.0.0.1:1/ 2>&1 | cat"
        let result = try await ToolProcess.run(command: command, in: bench.scratch.url)
        #expect(result.output.contains("\u{1B}[32m✓ \u{1B}[0mbig.iso: "))
        #expect(result.output.contains("convoy: \u{1B}[31m✗ \u{1B}[0mhttp://127.0.0.1:1/"))
        #expect(result.output.replacing(/\u{1B}\[\d+m/, with: "").contains("\u{1B}") == false)
    }

    @Test(arguments: ["dumb", ""])
    func `no escape sequences are sent to an unknown terminal`(_ terminal: String) async throws {
        bench.gate.open()
        let result = try await ToolProcess.run(
            command: "TERM='\(terminal)' $convoy get '\(big)' http://127.0.0.1:1/", in: bench.scratch.url, columns: 80)
        #expect(result.output.contains("big.iso: 3.0 MB in"))
        #expect(!result.output.contains("\u{1B}"))
    }

    @Test func `no bars are drawn if the body is printed on the terminal`() async throws {
        bench.hold(count: 60_000, at: "/small", after: 30_000)
        let tool = try ToolProcess(["get", "-o", "-", bench.url("/small")], in: bench.scratch.url, columns: 80)
        _ = try await bench.server.waitForRequests(count: 1)
        bench.gate.open()
        let result = try await tool.finished()
        #expect(result.status == 0)
        #expect(!result.output.contains("\u{1B}[?25l"))
    }
}
