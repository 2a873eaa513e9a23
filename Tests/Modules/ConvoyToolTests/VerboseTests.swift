import ConvoyTestServer
import Foundation
import Testing

/// The output of `--verbose`, with both commands.
@Suite(.serialized) struct VerboseTests {
    let server: TestServer
    let scratch: Scratch

    init() throws {
        server = try TestServer()
        server.route("/file", .text("hello").header("Set-Cookie", "a=s3cret"))
        scratch = try Scratch()
    }

    private func get(_ arguments: [String]) async throws -> ToolProcess.Result {
        try await ToolProcess.run(["get", "-f"] + arguments, in: scratch.url)
    }

    private func run(_ manifest: String, _ arguments: String...) async throws -> ToolProcess.Result {
        try scratch.write(manifest, to: "m.json")
        return try await ToolProcess.run(["run"] + arguments + ["m.json"], in: scratch.url)
    }

    @Test func `--verbose prints the traffic on standard error with secrets masked`() async throws {
        let url = server.url("/file?token=s3cret").absoluteString
        let secrets = ["-H", "Authorization: s3cret", "-H", "X-Own-Token: s3cret", "-H", "X-Own: plain"]
        let result = try await get(["-v", "-H", "Accept: text/plain"] + secrets + [url])
        #expect(result.status == 0)
        for line in [
            "> GET /file?token=*** HTTP/1.1", "> Authorization: ***", "> X-Own-Token: ***", "> X-Own: plain",
            "> Accept: text/plain",
            "< HTTP/1.1 200 OK", "< Set-Cookie: ***", "{ 5 bytes",
        ] {
            #expect(result.errorLines.contains(line), "\(line) in \(result.errors)")
        }
        #expect(result.errorLines.contains { $0.contains(/^\* (Connected|Established connection) to 127.0.0.1/) })
        #expect(!(result.output + result.errors).contains("s3cret"))
        #expect(!result.output.contains("HTTP/1.1"))
        let manifest = #"{"requests": [{"id": "a", "url": "\#(url)"}, {"id": "b", "url": "\#(url)"}]}"#
        let both = try await run(manifest, "--verbose")
        #expect(both.errorLines.contains("[1] < HTTP/1.1 200 OK") && both.errorLines.contains("[2] < HTTP/1.1 200 OK"))
        #expect(!both.errors.contains("s3cret"))
    }

    @Test func `a server's control characters do not reach the terminal`() async throws {
        server.route("/odd", .raw(Data("HTTP/1.1 200 \u{1B}[2J\r\nX-A: \u{1B}]0;x\u{7}\r\nContent-Length: 0\r\n\r\n".utf8)))
        let result = try await get(["-v", server.url("/odd").absoluteString])
        #expect(result.errors.contains("< X-A: ?]0;x?"), "\(result.errors)")
        #expect(!result.errors.contains("\u{1B}"))
    }
}
