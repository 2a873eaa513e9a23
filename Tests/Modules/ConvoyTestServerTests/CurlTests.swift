import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

private let curlIsInstalled = FileManager.default.isExecutableFile(atPath: "/usr/bin/curl")

/// Uses curl as an independent client. Skipped if curl is not installed.
@Suite(.enabled(if: curlIsInstalled, "/usr/bin/curl is not installed"))
struct CurlTests {
    private func curl(_ arguments: String...) throws -> ProcessRunner.Result {
        try ProcessRunner.run("/usr/bin/curl", ["-sS", "--max-time", "20"] + arguments)
    }

    @Test func `curl follows a redirect and uploads with Expect and in chunks`() throws {
        let server = try TestServer()
        server.redirect("/a", to: "/e", status: 307)
        server.echo(at: "/e")
        let result = try curl("-L", "-d", "hello", server.url("/a").absoluteString)
        #expect(try JSONDecoder().decode(EchoedRequest.self, from: result.output).text == "hello")
        let body = PatternBytes.data(count: 3_000_000)
        let directory = try TemporaryDirectory()
        let file = try directory.write(body, to: "body")
        _ = try curl("-H", "Expect: 100-continue", "-T", file.path, server.url("/e").absoluteString)
        _ = try curl("-H", "Transfer-Encoding: chunked", "-T", file.path, server.url("/e").absoluteString)
        #expect(server.requests("PUT", "/e").map(\.bodyChecksum) == [.of(body), .of(body)])
    }

    @Test func `curl resumes an interrupted download with the right bytes`() throws {
        let body = PatternBytes.data(count: 1_000_000)
        let server = try TestServer()
        server.serve(body, at: "/f", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.resets(afterBytes: 300_000) : response
        }
        let directory = try TemporaryDirectory()
        let file = directory.file("f")
        #expect(try curl("-o", file.path, server.url("/f").absoluteString).status == 56)
        #expect(try curl("-C", "-", "-o", file.path, server.url("/f").absoluteString).status == 0)
        #expect(try Data(contentsOf: file) == body)
    }

    @Test func `curl reports each fault with its exit status`() throws {
        let server = try TestServer()
        server.route("/truncated", .text("hello").truncated(afterBytes: 2))
        server.route("/empty", .text("hello").failing(.closeBeforeHead))
        server.route("/reset", .text("hello").resetBeforeHead())
        server.route("/nothttp", .raw("hello\r\n"))
        server.route("/chunked", .chunked(["hello"]).truncated(afterBytes: 2))
        server.route("/stall", .text("hello").stalls(afterBytes: 1))
        #expect(try curl(server.url("/truncated").absoluteString).status == 18)
        #expect(try curl(server.url("/empty").absoluteString).status == 52)
        #expect(try curl(server.url("/reset").absoluteString).status == 56)
        #expect(try curl(server.url("/nothttp").absoluteString).status == 1)
        #expect(try curl(server.url("/chunked").absoluteString).status == 18)
        #expect(try curl("--max-time", "0.2", server.url("/stall").absoluteString).status == 28)
    }
}
