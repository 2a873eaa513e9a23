import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// Signals and pipes at inconvenient moments.
@Suite(.serialized) struct BadMomentTests {
    let bench: Workbench
    let gate = TestServer.Gate()

    init() throws {
        bench = try Workbench()
        let gate = gate
        bench.server.route("/x", .text("x"))
        bench.server.serve(PatternBytes.data(count: 100_000), at: "/held", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: 60_000) : response
        }
    }

    private func makePipe(_ name: String) throws -> String {
        let path = bench.scratch.url.appendingPathComponent(name).path
        try #require(mkfifo(path, 0o600) == 0)
        return path
    }

    @Test func `Ctrl-C ends a run that is waiting for a pipe to be opened for reading`() async throws {
        let pipe = try makePipe("pipe")
        let tool = try ToolProcess(["get", "-o", pipe, bench.url("/x")], in: bench.scratch.url)
        try await waitUntil("the thread that opens the pipe") { threads(of: tool).contains("Convoy.Worker") }
        tool.send(signal: SIGINT)
        let result = try await tool.finished()
        #expect(result.status == -SIGINT)
        #expect(!result.errors.contains("cancelled"), "\(result.errors)")
    }

    private func threads(of tool: ToolProcess) -> [String] {
        let directory = "/proc/\(tool.id)/task"
        let numbers = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        return numbers.compactMap { number in
            let name = FileManager.default.contents(atPath: "\(directory)/\(number)/comm")
            return name.map { String(decoding: $0, as: UTF8.self).trimmingCharacters(in: .newlines) }
        }
    }

    @Test func `writing to a pipe without a reader fails after --max-time`() async throws {
        let pipe = try makePipe("pipe")
        // Repeat this, because the program ends while a thread may still be writing to the pipe.
        for _ in 1...20 {
            let result = try await bench.get("-o", pipe, "--max-time", "0.1", bench.url("/x"))
            #expect(result.status == 6, "\(result.errors)")
            #expect(result.errors.contains("(--max-time)"), "\(result.errors)")
        }
    }

    @Test(arguments: ["-o pipe", "-o - >pipe"])
    func `writing to a pipe that is not read fails after --max-time`(_ output: String) async throws {
        _ = try makePipe("pipe")
        bench.server.serve(PatternBytes.data(count: 1_000_000), at: "/large")
        let command = "exec 3<>pipe; exec $convoy get --max-time 0.3 \(bench.url("/large")) \(output)"
        let result = try await ToolProcess.run(command: command, in: bench.scratch.url)
        #expect(result.status == 6, "\(result.errors)")
        #expect(result.errors.contains("(--max-time)"), "\(result.errors)")
    }

    @Test(arguments: [["--json"], []])
    func `Ctrl-C ends a run whose standard output is not read`(_ options: [String]) async throws {
        _ = try makePipe("pipe")
        // The pipe is held open for reading, and full.
        let words = (options + [bench.url("/x"), bench.url("/held")]).joined(separator: " ")
        let command = """
            exec 3<>pipe; dd if=/dev/zero of=pipe bs=65536 count=1 2>/dev/null; exec $convoy get \(words) >pipe
            """
        let tool = try ToolProcess(command: command, in: bench.scratch.url)
        try await bench.waitForBytes(of: "held", count: 60_000)
        try await waitUntil("x") { (try? bench.scratch.text("x")) == "x" }
        tool.send(signal: SIGINT)
        let result = try await tool.finished()
        #expect(result.status == -SIGINT, "\(result.errors)")
        #expect(result.errors.contains("convoy: to resume: convoy get"), "\(result.errors)")
        #expect(bench.scratch.names == ["held.convoyjournal", "held.convoypart", "pipe", "x"])
    }

    @Test func `repeated signals do not suppress the command for resuming`() async throws {
        for round in 1...10 {
            let tool = try ToolProcess(["get", "-o", "held\(round)", bench.url("/held")], in: bench.scratch.url)
            try await bench.waitForBytes(of: "held\(round)", count: 60_000)
            for _ in 1...20 { tool.send(signal: SIGTERM) }
            let result = try await tool.finished()
            #expect(result.status == -SIGTERM)
            #expect(result.errors.contains("to resume: convoy get -o held\(round) "), "round \(round): \(result.errors)")
        }
    }

    @Test(arguments: ["a\nb", "\u{1B}[31m", "\u{202E}gpj", "~x", "-x", "!x $HOME `id` \"'\\*", "#é"])
    func `the printed command resumes a download with any file name`(_ name: String) async throws {
        let tool = try ToolProcess(["get", "-o", name, bench.url("/held")], in: bench.scratch.url)
        try await bench.waitForBytes(of: name, count: 60_000)
        tool.send(signal: SIGINT)
        let line = try #require(try await tool.finished().errorLines.last)
        let command = try #require(line.components(separatedBy: "to resume: convoy ").last)
        #expect(!line.unicodeScalars.contains(where: Printable.isObeyed))
        let next = try await ToolProcess.run(command: "exec $convoy \(command)", in: bench.scratch.url)
        #expect(next.status == 0, "\(next.errors)")
        #expect(bench.scratch.names == [name])
        #expect(bench.ranges("/held") == [nil, "bytes=60000-"])
    }

    @Test func `the printed command masks headers that may be secret`() throws {
        func sentence(_ arguments: String...) throws -> String {
            ContinuingLine.sentence(try Options(arguments, command: .get))
        }
        #expect(
            try sentence("-H", "X-Api-Key: pa55word", "http://h/")
                == "to resume, with the secrets instead of ***: convoy get -H 'X-Api-Key: ***' http://h/")
        #expect(try sentence("-H", "X-Custom: plain", "http://h/") == "to resume: convoy get -H 'X-Custom: plain' http://h/")
        #expect(try sentence("-j", "2", "-i", "-") == "to resume, with the same input: convoy get --no-clobber -j 2 -i -")
        #expect(
            try sentence(
                "-H", "Accept: text/plain",
                "http://h/") == "to resume: convoy get -H 'Accept: text/plain' http://h/"
        )
    }
}
