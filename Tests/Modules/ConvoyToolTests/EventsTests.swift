import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// `convoy events`: the events of a stream on standard output.
@Suite struct EventsTests {
    let bench: Workbench

    init() throws { bench = try Workbench() }

    private func events(_ arguments: String...) async throws -> ToolProcess.Result {
        try await ToolProcess.run(["events"] + arguments, in: bench.scratch.url)
    }

    /// Serves streams one after another, and then a status that ends a source successfully.
    private func serve(_ streams: String..., at path: String = "/live") {
        let streams = streams.map { TestServer.Response.bytes(Data("retry: 10\n\($0)".utf8), type: "text/event-stream") }
        bench.server.route(path, inTurn: streams + [.status(204)])
    }

    @Test func `events are printed as lines, prefixed with their type unless it is "message"`() async throws {
        serve("data: one\n\ndata: two\ndata: lines\n\nevent: price\ndata: 3\n\n")
        let result = try await events(bench.url("/live"))
        #expect(result.status == 0, "\(result.errors)")
        #expect(result.output == "one\ntwo\nlines\n\nprice: 3\n")
        #expect(result.errors == "convoy: the server closed the stream; reconnecting in 0.010 s\n")
    }

    @Test func `--json, --type, --last-id and --count select and format the events`() async throws {
        serve(
            "id: 7\nevent: a\ndata: x\ndata: \"y\"\n\nevent: b\ndata: no\n\n",
            "id: 8\nevent: a\ndata: z\n\nevent: a\ndata: w\n\n")
        let result = try await events(
            "--json", "--type", "a", "--last-id", "6", "--count", "2", "--quiet", bench.url("/live"))
        #expect(result.status == 0 && result.errors.isEmpty, "\(result.errors)")
        #expect(
            result.outputLines == [
                #"{"type":"a","data":"x\n\"y\"","id":"7"}"#, #"{"type":"a","data":"z","id":"8"}"#,
            ])
        #expect(bench.server.requests.map { $0.headers["Last-Event-ID"] } == ["6", "7"])
    }

    @Test func `with --type, the type prefix is omitted; control characters are not printed`() async throws {
        serve("event: price\ndata: 3\u{1B}[2J\n\nevent: other\ndata: 4\n\n")
        let result = try await events("-t", "price", "-q", bench.url("/live"))
        #expect(result.status == 0 && result.outputLines.count == 1)
        #expect(result.output.hasPrefix("3") && !result.output.contains("\u{1B}"))
    }

    @Test func `a response that is not an event stream is rejected`() async throws {
        bench.server.route("/page", .text("hello"))
        let page = try await events(bench.url("/page"))
        #expect(page.status == 1 && page.errors.contains("not text/event-stream"), "\(page.errors)")
        #expect(try await events(bench.url("/none")).status == 7)
        #expect(try await events("--max-time", "0.2", bench.url("/none"), bench.url("/page")).status == 2)
        #expect(try await events("--last-id", "a\nb", bench.url("/page")).status == 2)
        #expect(try await events("--count", "0", bench.url("/page")).status == 2)
        #expect(try await events().status == 2)
    }

    @Test func `Ctrl-C ends the program with SIGINT and saves the cookies`() async throws {
        let text = "data: one\n\n"
        bench.server.route(
            "/open",
            .chunked([text], type: "text/event-stream").stalls(afterBytes: text.utf8.count)
                .header("Set-Cookie", "a=b; Max-Age=1000"))
        let tool = try ToolProcess(
            command: "exec $convoy events --cookie-jar jar \(bench.url("/open")) >out", in: bench.scratch.url)
        try await waitUntil("the event") { (try? bench.scratch.data("out")) == Data("one\n".utf8) }
        tool.send(signal: SIGINT)
        #expect(try await tool.finished().status == -SIGINT)
        #expect(String(decoding: try bench.scratch.data("jar"), as: UTF8.self).contains("\ta\tb"))
    }

    @Test func `the program ends when its output is no longer read`() async throws {
        bench.server.route(
            "/open", .chunked(Array(repeating: Data("data: x\n\n".utf8), count: 100_000), type: "text/event-stream"))
        let result = try await ToolProcess.run(
            command: "set -o pipefail; $convoy events -q \(bench.url("/open")) | head -n 1; echo ${PIPESTATUS[0]}",
            in: bench.scratch.url)
        #expect(result.outputLines == ["x", "1"], "\(result.output) \(result.errors)")
    }
}
