import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// Runs that are interrupted and later resumed.
@Suite(.serialized) struct ContinuingTests {
    let bench: Workbench
    let gate = TestServer.Gate()

    init() throws { bench = try Workbench() }

    /// Serves a file whose first response is paused half-way.
    private func hold(_ path: String, _ data: Data, after count: Int = 60_000) {
        let gate = gate
        bench.server.serve(data, at: path, etag: "\"1\"") { request, response in
            request.headers["Range"] == nil
                ? response.bandwidth(bytesPerSecond: 6_000_000).heldBody(by: gate, afterBytes: count) : response
        }
    }

    @Test func `the command printed after Ctrl-C resumes from the received bytes`() async throws {
        let data = PatternBytes.data(count: 100_000)
        hold("/a%20b;'x", data)
        bench.server.route("/done", .text("done"))
        let url = bench.url("/done").replacing("/done", with: "/a%20b;'x")
        let tool = try ToolProcess(["get", bench.url("/done"), url], in: bench.scratch.url)
        try await bench.waitForBytes(of: "a b;'x", count: 60_000)
        try await waitUntil("done") { (try? bench.scratch.text("done")) == "done" }
        tool.send(signal: SIGINT)
        let result = try await tool.finished()
        #expect(result.status == -SIGINT)
        let line = try #require(result.errorLines.first { $0.hasPrefix("convoy: to resume: convoy ") })
        #expect(result.errorLines.count == 1)
        let command = String(line.dropFirst("convoy: to resume: convoy ".count))
        let next = try await ToolProcess.run(command: "exec $convoy \(command)", in: bench.scratch.url)
        #expect(next.status == 0, "\(next.errors)")
        #expect(next.output.contains("a b;'x: 100.0 kB (60.0 kB from an earlier run) in "), "\(next.output)")
        #expect(try bench.scratch.data("a b;'x") == data)
        #expect(bench.scratch.names == ["a b;'x", "done"])
        #expect(bench.server.requests("/done").count == 1)
        let ranges = bench.server.requests.filter { $0.path.hasPrefix("/a") }.map { $0.headers["Range"] }
        #expect(ranges == [nil, "bytes=60000-"])
    }

    @Test func `the printed command contains no passwords`() throws {
        func line(_ arguments: [String]) throws -> String {
            ContinuingLine.text(try Options(arguments, command: .get))
        }
        for arguments in [
            ["-u", "ada:pa55", "http://h/"], ["--user", "ada:pa55", "http://h/"], ["--user=ada:pa55", "http://h/"],
            ["-uada:pa55", "http://h/"], ["http://ada:pa55@h/"], ["http://h/?token=pa55"],
            ["-x", "http://a:pa55@p:1", "http://h/"],
            ["-H", "Authorization: Bearer pa55", "http://h/"], ["-HCookie: a=pa55", "http://h/"],
            ["--header=X-Api-Key: pa55", "http://h/"], ["-kvuada:pa55", "http://h/"], ["-fHX-Token:pa55", "http://h/"],
        ] {
            let text = try line(arguments)
            #expect(!text.contains("pa55"), "\(text)")
            #expect(text.hasPrefix("convoy get ") && text.contains("http://"))
        }
        #expect(try line(["-u", ":", "http://h/"]) == "convoy get -u : http://h/")
        #expect(try line(["-i", "list"]) == "convoy get --no-clobber -i list")
        #expect(try line(["-f", "-i", "list"]) == "convoy get -f -i list")
        #expect(try line(["--", "-x"]) == "convoy get -- -x")
        #expect(try line(["a b", "c'd", "x\u{1B}"]) == #"convoy get --no-clobber 'a b' 'c'\''d' "$(printf 'x\033')""#)
    }

    @Test(arguments: [SIGTERM, SIGKILL])
    func `running the same command again resumes a killed run`(_ signal: Int32) async throws {
        let data = PatternBytes.data(count: 4_000_000)
        hold("/x", data, after: 3_000_000)
        let tool = try ToolProcess(["get", bench.url("/x")], in: bench.scratch.url)
        // The bytes arrive over half a second, during which the first ones are synchronized. Only synchronized bytes survive
        // a kill.
        try await bench.waitForBytes(of: "x", count: 3_000_000)
        tool.send(signal: signal)
        #expect(try await tool.finished().status == -signal)
        #expect(try await bench.get(bench.url("/x")).status == 0)
        #expect(try bench.scratch.data("x") == data)
        #expect(bench.scratch.names == ["x"])
        #expect(bench.ranges("/x").count == 2)
        #expect(bench.ranges("/x").last??.hasPrefix("bytes=") == true)
    }

    @Test func `repeatedly killed runs complete a directory without downloading a file twice`() async throws {
        let count = PropertyBudget.rounds(500), rounds = 5
        let urls = (0..<count).map { bench.url("/f/\($0)") }
        for index in 0..<count {
            bench.server.route("/f/\(index)", .bytes(Data("file \(index)\n".utf8)).header("ETag", "\"\(index)\""))
        }
        try bench.scratch.write(urls.joined(separator: "\n") + "\n", to: "list")
        let folder = bench.scratch.url.appendingPathComponent("out")
        func whole() -> Set<String> {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
            return Set(names.filter { !$0.contains(".convoy") })
        }
        var before: [(files: Set<String>, requests: Int)] = []
        var kills = 0
        for round in 1...rounds {
            // The files arrive in the order of the list, so that each round is killed in the middle of its part.
            let goal = count * round / (rounds + 1)
            let tool = try ToolProcess(["get", "--no-clobber", "-d", "out", "-i", "list"], in: bench.scratch.url)
            try await waitUntil("\(goal) files") { whole().count >= goal }
            tool.send(signal: SIGKILL)
            if try await tool.finished().status == -SIGKILL { kills += 1 }
            before.append((whole(), bench.server.requests.count))
        }
        #expect(kills == rounds)
        let last = try await bench.get("--no-clobber", "-d", "out", "-i", "list")
        #expect(last.status == 0, "\(last.errors)")
        #expect(last.output.contains(" skipped"))
        #expect(whole().count == count)
        for index in 0..<count { #expect(try bench.scratch.text("out/\(index)") == "file \(index)\n") }
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path).count == count,
            "unexpected files in the directory")
        let requests = bench.server.requests.map { $0.path.replacing("/f/", with: "") }
        for (files, sent) in before {
            #expect(requests[sent...].allSatisfy { !files.contains($0) }, "a complete file was requested again")
        }
        print("\(count) files, killed \(kills) times: \(requests.count) requests")
    }
}
