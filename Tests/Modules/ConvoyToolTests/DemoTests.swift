import Foundation
import Testing

@Suite(.serialized) struct DemoTests {
    @Test func `the demo shows all its parts and succeeds within 20 seconds`() async throws {
        let scratch = try Scratch()
        // The proxy does not respond, as on a machine without a network.
        let environment = ["TMPDIR": scratch.url.path, "http_proxy": "http://127.0.0.1:1"]
        let result = try await ToolProcess.run(["demo"], in: scratch.url, environment: environment)
        #expect(result.status == 0, "\(result.output)\(result.errors)")
        // The output contains the program's own time, because this test may observe the end late.
        let last = try #require(result.output.split(separator: "\n").last?.split(separator: " "))
        #expect(try #require(last.dropLast().last.flatMap { Double($0) }) < 20, "\(last)")
        for part in ["A chain", "A batch", "A download", "bytes=", "SHA-256", "All checks passed"] {
            #expect(result.output.contains(part))
        }
        #expect(!result.output.contains("\u{1B}"), "expected plain lines without a terminal")
        #expect(result.errors.isEmpty)
        #expect(scratch.names.isEmpty, "the demo left its files behind")
    }

    @Test func `the demo draws bars on a terminal and restores the cursor`() async throws {
        let scratch = try Scratch()
        let result = try await ToolProcess.run(["demo"], in: scratch.url, columns: 80)
        #expect(result.status == 0, "\(result.output)")
        #expect(result.output.contains("━"))
        let hidden = result.output.components(separatedBy: "\u{1B}[?25l").count
        let shown = result.output.components(separatedBy: "\u{1B}[?25h").count
        #expect(hidden == shown)
        #expect(hidden > 1)
    }

    @Test func `an interrupted demo ends immediately and leaves no files behind`() async throws {
        let scratch = try Scratch()
        let tool = try ToolProcess(["demo"], in: scratch.url, environment: ["TMPDIR": scratch.url.path])
        try await tool.waitForOutput("A batch")
        tool.send(signal: SIGINT)
        let result = try await tool.finished()
        #expect(result.status == -SIGINT)
        #expect(scratch.names.isEmpty)
    }
}
