import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// The exit statuses of the program, each caused by a real server or a real disk.
@Suite(.serialized) struct ExitStatusTests {
    let bench: Workbench

    init() throws { bench = try Workbench() }

    /// Runs `get` and `run` with the same URL, and expects the same result.
    private func expect(
        _ status: Int32, _ code: String, _ url: String, _ options: [String] = [],
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        try bench.scratch.write(
            #"{"requests": [{"id": "a", "url": "\#(url)", "output": "out"}]}"#, to: "m.json")
        for arguments in [["get", "--retry", "0", "--json"] + options + [url], ["run", "--json"] + options + ["m.json"]] {
            let result = try await ToolProcess.run(arguments, in: bench.scratch.url)
            #expect(result.status == status, "\(arguments): \(result.errors)", sourceLocation: sourceLocation)
            let object = try result.objects().first
            #expect(object?["errorCode"] as? String == code, "\(arguments)", sourceLocation: sourceLocation)
            #expect(result.errorLines.count >= 1, sourceLocation: sourceLocation)
        }
    }

    @Test func `the status is 3 if the host name cannot be resolved`() async throws {
        try await expect(3, "name", "http://no-such-host.invalid/x")
    }

    @Test func `the status is 4 if the connection fails or is lost`() async throws {
        let port = try LoopbackPort.free()
        try await expect(4, "connection", "http://127.0.0.1:\(port)/x")
        bench.server.route("/reset", .pattern(count: 10_000).resets(afterBytes: 100))
        try await expect(4, "connection", bench.url("/reset"))
        bench.server.route("/cut", .pattern(count: 10_000).truncated(afterBytes: 100))
        try await expect(4, "connection", bench.url("/cut"))
    }

    @Test func `the status is 5 if the server is not trusted`() async throws {
        let ground = try TrustGround()
        try await expect(5, "tls", ground.server.url("/file").absoluteString)
    }

    @Test func `the status is 5 if the server does not use TLS`() async throws {
        try await expect(5, "tls", bench.url("/x").replacing("http://", with: "https://"))
    }

    @Test func `the status is 6 after a timeout`() async throws {
        bench.server.route("/stall", .pattern(count: 10_000).stalls(afterBytes: 100))
        try await expect(6, "timeout", bench.url("/stall"), ["--timeout", "0.3"])
        try await expect(6, "timeout", bench.url("/stall"), ["--max-time", "0.3"])
        // The server accepts no connections, and its queue is very short.
        let full = try FullQueue()
        try await expect(6, "timeout", "http://127.0.0.1:\(full.port)/x", ["--connect-timeout", "0.3"])
    }

    @Test(arguments: [400, 401, 403, 404, 410, 500, 503])
    func `the status is 7 if the server responds with an error status`(_ status: Int) async throws {
        bench.server.route("/x", .text("sorry", status: status))
        try await expect(7, "status", bench.url("/x"))
    }

    @Test func `the status is 8 if the destination is blocked or cannot be written`() async throws {
        bench.server.route("/x", .pattern(count: 1_000_000))
        try bench.scratch.makeDirectory("there/x")
        let blocked = try await bench.get("-d", "there", "-f", bench.url("/x"))
        #expect(blocked.status == 8)
        let limited = try await ToolProcess.run(
            command: "ulimit -f 50; exec $convoy get --json \(bench.url("/x"))", in: bench.scratch.url)
        #expect(limited.status == 8)
        #expect(try limited.objects().first?["errorCode"] as? String == "disk")
        let full = try await ToolProcess.run(
            command: "exec $convoy get -o - \(bench.url("/x")) >/dev/full", in: bench.scratch.url)
        #expect(full.status == 8)
        #expect(full.errors.contains("cannot write to standard output: No space left on device"), "\(full.errors)")
        let nowhere = try await bench.get("-d", "/proc/nowhere", bench.url("/x"))
        #expect(nowhere.status == 8)
    }

    @Test func `the status is 9 if the checksum does not match`() async throws {
        bench.server.route("/x", .text("b"))
        let result = try await bench.get(
            "--json", "--checksum", "sha-256=\(String(repeating: "0", count: 64))", bench.url("/x"))
        #expect(result.status == 9)
        #expect(try result.objects().first?["errorCode"] as? String == "checksum")
        #expect(bench.scratch.names.isEmpty)
    }

    @Test func `the status is 1 for several kinds of failures or an unclassified one`() async throws {
        bench.server.route("/x", .status(404))
        bench.server.route("/fine", .text("x"))
        let dead = "http://127.0.0.1:\(try LoopbackPort.free())/"
        #expect(try await bench.get("--retry", "0", bench.url("/x"), dead).status == 1)
        #expect(try await bench.get("-f", bench.url("/x"), bench.url("/x?2"), bench.url("/fine")).status == 7)
        bench.server.route("/loop", .redirect(to: "/loop"))
        #expect(try await bench.get(bench.url("/loop")).status == 1)
    }

    @Test func `a request skipped after a failed dependency does not affect the status`() async throws {
        bench.server.route("/x", .status(404))
        let manifest =
            #"{"baseURL": "\#(bench.server.url)", "requests": [{"id": "a", "url": "x"}, {"id": "b", "url": "y", "dependsOn": ["a"]}]}"#
        try bench.scratch.write(manifest, to: "m.json")
        let result = try await ToolProcess.run(["run", "--json", "m.json"], in: bench.scratch.url)
        #expect(result.status == 7)
        #expect(try result.objects().map { $0["errorCode"] as? String } == ["status", "dependency"])
    }

    @Test func `failures use every exit status from 1 to 9`() {
        #expect(FailureKind.allCases.map(\.exitStatus).allSatisfy { (1...9).contains($0) })
        #expect(Set(FailureKind.allCases.map(\.exitStatus)) == [1, 2, 3, 4, 5, 6, 7, 8, 9])
        for kind in FailureKind.allCases where kind.exitStatus > 2 {
            #expect(ExitStatus(rawValue: kind.exitStatus) == .failed(kind))
        }
    }
}
