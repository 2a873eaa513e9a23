import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// The behaviour of `convoy get` if a file with the name exists.
@Suite(.serialized) struct ExistingFileTests {
    let bench: Workbench

    init() throws {
        bench = try Workbench()
        try bench.scratch.write("old", to: "file")
    }

    @Test func `an existing file fails without a request; the other files are downloaded`() async throws {
        bench.server.route("/other", .text("other"))
        let result = try await bench.get(bench.url("/file"), bench.url("/other"))
        #expect(result.status == 8)
        #expect(
            result.errors
                == "convoy: \(bench.url("/file")): file exists: file; see -c, --no-clobber, -N, --number and --force\n"
        )
        #expect(bench.server.requests.map(\.path) == ["/other"])
        #expect(try bench.scratch.text("file") == "old")
        #expect(try bench.scratch.text("other") == "other")
    }

    @Test func `--no-clobber skips an existing file and succeeds`() async throws {
        let result = try await bench.get("--no-clobber", "--json", bench.url("/file"))
        #expect(result.status == 0)
        let object = try #require(try result.objects().first)
        #expect(object["outcome"] as? String == "skipped" && object["bytes"] as? Double == 0)
        #expect(object["file"] as? String == "file")
        #expect(bench.server.requests.isEmpty)
        #expect(try bench.scratch.text("file") == "old")
    }

    private func sha256(_ data: Data) throws -> String {
        let result = try ProcessRunner.run("sha256sum", [], input: data)
        return "sha-256=\(result.text.prefix(64))"
    }

    @Test(arguments: ["-c", "--no-clobber", "-N"])
    func `a given checksum is compared with the existing file`(_ option: String) async throws {
        let whole = PatternBytes.data(count: 5000)
        bench.server.serve(whole, at: "/file", etag: "\"1\"", lastModified: Date(timeIntervalSince1970: 1_000_000_000))
        try whole.write(to: bench.scratch.url.appendingPathComponent("file"))
        let right = try await bench.get(option, "--checksum", try sha256(whole), bench.url("/file"))
        #expect(right.status == 0, "\(right.errors)")
        // The file has the same length as the server's, and is newer.
        try Data(repeating: 7, count: 5000).write(to: bench.scratch.url.appendingPathComponent("file"))
        let wrong = try await bench.get(option, "--checksum", try sha256(whole), bench.url("/file"))
        if option == "-c" {
            #expect(wrong.status == 0, "\(wrong.errors)")
            #expect(try bench.scratch.data("file") == whole)
        } else {
            #expect(wrong.status == 9, "\(wrong.output)")
            #expect(try bench.scratch.data("file") == Data(repeating: 7, count: 5000))
        }
        if option == "--no-clobber" { #expect(bench.server.requests.isEmpty) }
    }

    @Test func `-c resumes an incomplete file of another program if a checksum confirms it`() async throws {
        let whole = bench.serve(5000, at: "/file")
        try whole.prefix(3000).write(to: bench.scratch.url.appendingPathComponent("file"))
        let result = try await bench.get("-c", "--checksum", try sha256(whole), bench.url("/file"))
        #expect(result.status == 0, "\(result.errors)")
        #expect(try bench.scratch.data("file") == whole)
        #expect(bench.server.requests.last?.headers["Range"] == "bytes=3000-")
        #expect(bench.scratch.names == ["file"])
        let again = try await bench.get("-c", bench.url("/file"))
        #expect(again.status == 0 && again.output.contains("file: already exists"))
        #expect(bench.server.requests.last?.method == "HEAD")
    }

    @Test func `-c reports and restarts a download that it cannot validate`() async throws {
        let whole = bench.serve(5000, at: "/file")
        for contents in [whole.prefix(3000), Data(repeating: 7, count: 3000)] {
            try contents.write(to: bench.scratch.url.appendingPathComponent("file"))
            let result = try await bench.get("-c", bench.url("/file"))
            #expect(result.status == 0, "\(result.errors)")
            #expect(result.output.contains("downloaded again"), "\(result.output)")
            #expect(try bench.scratch.data("file") == whole)
            #expect(bench.scratch.names == ["file"])
        }
        let longer = Data(repeating: 7, count: 6000)
        try longer.write(to: bench.scratch.url.appendingPathComponent("file"))
        let refused = try await bench.get("-c", bench.url("/file"))
        #expect(refused.status == 4)
        let message = "fewer than the 6000 stored bytes. The stored bytes were kept. To replace them, use --force."
        #expect(refused.errors.contains(message))
        #expect(try bench.scratch.data("file") == longer)
        #expect(try await bench.get("-f", bench.url("/file")).status == 0)
        #expect(try bench.scratch.data("file") == whole)
        try whole.prefix(10).write(to: bench.scratch.url.appendingPathComponent("file"))
        let missing = try await bench.get("-c", "-o", "file", bench.url("/missing"))
        #expect(missing.status == 7)
        #expect(try bench.scratch.data("file") == whole.prefix(10))
    }

    @Test func `--wait applies to downloaded files, not to skipped ones`() async throws {
        for path in ["/a", "/b"] { bench.server.route(path, .text("x")) }
        for index in 0..<20 { try bench.scratch.write("old", to: "\(index)") }
        let there = (0..<20).map { bench.url("/\($0)") }
        // If a skipped file counted, the next one would wait longer than any test.
        let one = try await ToolProcess.run(
            ["get", "--no-clobber", "--wait", "1000"] + there + [bench.url("/a")], in: bench.scratch.url)
        #expect(one.status == 0)
        #expect(one.outputLines.last?.hasPrefix("1 downloaded, 20 skipped, ") == true)
        let begun = ContinuousClock.now
        #expect(try await bench.get("-f", "--wait", "0.5", bench.url("/a"), bench.url("/b")).status == 0)
        #expect(ContinuousClock.now - begun >= .milliseconds(450))
    }

    @Test(arguments: ["-N", "--timestamping"])
    func `-N downloads an existing file only if it has changed`(_ option: String) async throws {
        let first = bench.serve(5000, at: "/fresh")
        #expect(try await bench.get(option, bench.url("/fresh")).status == 0)
        #expect(try bench.scratch.data("fresh") == first)
        let same = try await bench.get(option, "--json", bench.url("/fresh"))
        #expect(same.status == 0)
        #expect(try same.objects().first?["outcome"] as? String == "notModified")
        #expect(bench.server.requests("/fresh").last?.headers["If-None-Match"] == "\"1\"")
        bench.server.serve(Data("changed".utf8), at: "/fresh", etag: "\"2\"")
        #expect(try await bench.get(option, bench.url("/fresh")).status == 0)
        #expect(try bench.scratch.text("fresh") == "changed")
        #expect(bench.scratch.names == ["file", "fresh"])
    }

    @Test(arguments: ["-f", "--force"])
    func `--force replaces an existing file once the new one is complete`(_ option: String) async throws {
        let gate = TestServer.Gate()
        bench.server.route("/file", .text("new contents").heldBody(by: gate, afterBytes: 3))
        let tool = try ToolProcess(["get", option, bench.url("/file")], in: bench.scratch.url)
        try await bench.waitForBytes(of: "file")
        #expect(try bench.scratch.text("file") == "old")
        gate.open()
        #expect(try await tool.finished().status == 0)
        #expect(try bench.scratch.text("file") == "new contents")
        #expect(bench.scratch.names == ["file"])
    }

    @Test(arguments: ["-c -N", "-c --no-clobber", "-N -f", "-f --no-clobber"])
    func `the options for existing files are mutually exclusive`(_ options: String) async throws {
        let result = try await ToolProcess.run(
            ["get"] + options.split(separator: " ").map(String.init) + [bench.url("/file")], in: bench.scratch.url)
        #expect(result.status == 2)
        #expect(result.errors.contains("cannot be combined"))
        #expect(bench.server.requests.isEmpty)
    }
}
