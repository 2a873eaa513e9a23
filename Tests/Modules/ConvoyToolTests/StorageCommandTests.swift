import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// The moto server shared by all tests of this run.
private enum SharedMoto {
    private static let server = Result {
        let server = try Moto()
        // A shared object is never released, so its process would keep running.
        atexit { try? SharedMoto.moto().stop() }
        return server
    }

    static func moto() throws -> Moto { try server.get() }
}

/// `convoy s3`, with moto.
@Suite(.serialized, .enabled(if: Moto.isInstalled, "needs \(Moto.installHint)")) struct StorageCommandTests {
    private let scratch: Scratch
    private let endpoint: String
    private let bucket = "test-\(UUID().uuidString.lowercased())"

    init() throws {
        scratch = try Scratch()
        let moto = try SharedMoto.moto()
        endpoint = moto.url.absoluteString
        try moto.makeBucket(bucket)
    }

    private func s3(_ arguments: String..., environment: [String: String] = [:]) async throws -> ToolProcess.Result {
        try await run(arguments, environment)
    }

    private func run(_ arguments: [String], _ environment: [String: String]) async throws -> ToolProcess.Result {
        let standard = [
            "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": endpoint,
            "HOME": scratch.url.path,
        ]
        return try await ToolProcess.run(
            ["s3"] + arguments, in: scratch.url, environment: standard.merging(environment) { $1 })
    }

    private func object(_ key: String) -> String { "s3://\(bucket)/\(key)" }

    private func keys() async throws -> [String] {
        try await s3("list", "-r", "--json", object("")).objects().compactMap {
            ($0["url"] as? String).map { String($0.dropFirst("s3://\(bucket)/".count)) }
        }
    }

    // MARK: get and put

    @Test func `files are uploaded and downloaded unchanged`() async throws {
        let big = PatternBytes.data(count: (11 << 20) + 5)
        try big.write(to: scratch.url.appendingPathComponent("big.bin"))
        try scratch.write("short", to: "a b.txt")
        let put = try await s3("put", "--part-size", "5Mi", "big.bin", "a b.txt", object("dir/"))
        #expect(put.status == 0, "\(put.errors)")
        #expect(put.output.contains("2 uploaded"))
        #expect(try await keys() == ["dir/a b.txt", "dir/big.bin"])
        let get = try await s3("get", "-d", "out", object("dir/a b.txt"), object("dir/big.bin"))
        #expect(get.status == 0, "\(get.errors)")
        #expect(try scratch.data("out/big.bin") == big)
        #expect(try scratch.text("out/a b.txt") == "short")
        let stream = try await s3("get", "-q", "-o", "-", object("dir/a b.txt"))
        #expect(stream.output == "short")
        #expect(scratch.names == ["a b.txt", "big.bin", "out"])
    }

    @Test func `an existing file is not replaced unless requested`() async throws {
        try scratch.write("new", to: "a")
        #expect(try await s3("put", "a", object("a")).status == 0)
        try scratch.write("old text", to: "a")
        let failed = try await s3("get", object("a"))
        #expect(failed.status == 8 && failed.errors.contains("file exists"))
        #expect(try await s3("get", "--no-clobber", object("a")).status == 0)
        #expect(try scratch.text("a") == "old text")
        #expect(try await s3("get", "-f", object("a")).status == 0)
        #expect(try scratch.text("a") == "new")
    }

    @Test func `conditions are respected`() async throws {
        try scratch.write("1", to: "a")
        #expect(try await s3("put", "--if-none-match", "*", "a", object("a")).status == 0)
        let again = try await s3("put", "--if-none-match", "*", "a", object("a"))
        #expect(again.status == 7 && again.errors.contains("PreconditionFailed"), "\(again.errors)")
        let tag = try #require(try await s3("list", "--json", object("a")).objects().first?["entityTag"] as? String)
        let same = try await s3("get", "-d", "o", "--if-none-match", tag, object("a"))
        #expect(same.status == 0 && same.output.contains("has not changed"))
        #expect(try await s3("get", "-d", "o", "--if-match", "\"0\"", object("a")).status == 7)
        #expect(try await s3("get", "-d", "o", "--if-match", tag, object("a")).status == 0)
        #expect(try scratch.text("o/a") == "1")
    }

    @Test func `a failure has a clear message and the exit status for its cause`() async throws {
        try scratch.write("1", to: "a")
        let none = try await s3("get", object("none"))
        #expect(none.status == 7 && none.errors.contains(object("none")), "\(none.errors)")
        let bucketless = try await s3("put", "a", "s3://no-such-bucket/a")
        #expect(bucketless.status == 7 && bucketless.errors.contains("NoSuchBucket"), "\(bucketless.errors)")
        #expect(try await s3("put", "missing", object("a")).status == 8)
        let port = try LoopbackPort.free()
        let gone = try await s3("get", "-o", "b", "--endpoint", "http://127.0.0.1:\(port)", object("a"))
        #expect(gone.status == 4, "\(gone.errors)")
        let keyless = try await s3("list", object(""), environment: ["AWS_ACCESS_KEY_ID": ""])
        #expect(keyless.status == 2 && keyless.errors.contains("AWS_ACCESS_KEY_ID"), "\(keyless.errors)")
        for (arguments, words) in [
            ([], "no action"), (["fly"], "must be get, put, list, remove or sync"), (["get"], "no object"),
            (["get", "a"], "s3://BUCKET/KEY"), (["get", "s3://"], "no bucket"), (["get", object("")], "s3 sync"),
            (["put", "a"], "are required"), (["put", "a", "b"], "s3://BUCKET/KEY"),
            (["put", "a", "a", object("x")], "ending in /"), (["put", "a", "./a", object("x/")], "two files"),
            (["remove", object("x/")], "--recursive"), (["sync", ".", "other"], "must be a directory"),
            (["list", "--delete", object("")], "s3 list has no --delete"),
            (["put", "--part-size", "1", "a", object("a")], "5Mi"),
            (["list", "--endpoint", "file:///x", object("")], "endpoint"),
            (["list", "--region", "a b", object("")], "region"),
            (["list", "--profile", "none", object("")], "\"none\" does not exist"),
            (["get", "a/b", "--user", "x", object("a")], "--user"),
        ] as [([String], String)] {
            let result = try await run(arguments, [:])
            #expect(result.status == 2 && result.errors.contains(words), "\(arguments): \(result.errors)")
        }
    }

    @Test func `credentials can come from a profile or a command`() async throws {
        try scratch.makeDirectory(".aws")
        try scratch.write("[ada]\naws_access_key_id = K\naws_secret_access_key = S\n", to: ".aws/credentials")
        try scratch.write("[profile ada]\nregion = us-west-2\nendpoint_url = \(endpoint)\n", to: ".aws/config")
        let without = ["AWS_ACCESS_KEY_ID": "", "AWS_ENDPOINT_URL": ""]
        let profile = try await s3("list", "--profile", "ada", object(""), environment: without)
        #expect(profile.status == 0, "\(profile.errors)")
        let json = #"{\"Version\": 1, \"AccessKeyId\": \"K\", \"SecretAccessKey\": \"S\"}"#
        let command = try await s3(
            "list", "--endpoint", endpoint, "--credential-command", "echo \"\(json)\"", object(""), environment: without)
        #expect(command.status == 0, "\(command.errors)")
        let broken = try await s3("list", "--credential-command", "exit 4", object(""), environment: without)
        #expect(broken.status == 2 && broken.errors.contains("exit status was 4"), "\(broken.errors)")
    }

    // MARK: list and remove

    @Test func `objects are listed and removed`() async throws {
        try scratch.write("12345", to: "a")
        for key in ["top", "p/1", "p/2", "q/r/3"] { #expect(try await s3("put", "-q", "a", object(key)).status == 0) }
        let list = try await s3("list", object(""))
        let lines = list.output.split(separator: "\n").map(String.init)
        #expect(lines.count == 3 && lines[0].hasSuffix(" p/") && lines[2].hasSuffix(" 5 B  top"), "\(list.output)")
        #expect(lines.allSatisfy { $0.count < 80 })
        let preview = try await s3("remove", "-r", "--dry-run", object("p/"))
        #expect(preview.status == 0 && preview.output.contains("would remove \(object("p/1"))"))
        #expect(try await keys() == ["p/1", "p/2", "q/r/3", "top"])
        #expect(try await s3("remove", "-r", object("p"), object("to")).status == 0)
        #expect(try await keys() == ["q/r/3", "top"])
        #expect(try await s3("remove", object("top"), object("none")).status == 0)
        #expect(try await keys() == ["q/r/3"])
    }

    // MARK: sync

    @Test func `a directory is synchronized in both directions`() async throws {
        for directory in ["in", "in/sub"] { try scratch.makeDirectory(directory) }
        try scratch.write("one", to: "in/1")
        try scratch.write("two", to: "in/sub/2 ü.txt")
        try scratch.write("no", to: "in/skip.tmp")
        let arguments = ["sync", "--exclude", "*.tmp", "in", object("p")]
        let first = try await run(arguments, [:])
        #expect(first.status == 0 && first.output.contains("2 uploaded, 0 up to date"), "\(first.output)\(first.errors)")
        #expect(try await keys() == ["p/1", "p/sub/2 ü.txt"])
        #expect(try await run(arguments, [:]).output.contains("2 up to date"))
        try scratch.write("three!", to: "in/1")
        #expect(try await run(arguments, [:]).output.hasPrefix("in/1: 6 B"))
        #expect(try await run(arguments, [:]).output.contains("2 up to date"))

        let down = ["sync", object("p"), "out"]
        let second = try await run(down, [:])
        let counts = "2 downloaded, 0 up to date"
        #expect(second.status == 0 && second.output.contains(counts), "\(second.output)\(second.errors)")
        #expect(try scratch.text("out/1") == "three!" && scratch.text("out/sub/2 ü.txt") == "two")
        #expect(try await run(down, [:]).output.contains("2 up to date"))

        // Files that the source does not have are removed only if requested.
        try scratch.write("x", to: "out/extra")
        #expect(try await run(down, [:]).status == 0)
        #expect(try scratch.text("out/extra") == "x")
        let preview = try await run(down + ["--delete", "--dry-run"], [:])
        #expect(preview.output.contains("would remove out/extra"))
        #expect(try await run(down + ["--delete"], [:]).status == 0)
        #expect(throws: (any Error).self) { try scratch.text("out/extra") }
        try FileManager.default.removeItem(at: scratch.url.appendingPathComponent("in/1"))
        #expect(try await run(arguments + ["--delete"], [:]).status == 0)
        #expect(try await keys() == ["p/sub/2 ü.txt"])
    }

    @Test func `objects below a skipped link are kept`() async throws {
        for directory in ["in", "other"] { try scratch.makeDirectory(directory) }
        try scratch.write("1", to: "in/1")
        let link = scratch.url.appendingPathComponent("in/link")
        try FileManager.default.createSymbolicLink(atPath: link.path, withDestinationPath: "../other")
        for key in ["p/link/x", "p/linked"] { #expect(try await s3("put", "-q", "in/1", object(key)).status == 0) }
        let result = try await s3("sync", "--delete", "in", object("p"))
        #expect(result.status == 0 && result.errors.contains("in/link: not a regular file; skipped"), "\(result.errors)")
        #expect(try await keys() == ["p/1", "p/link/x"])
    }

    @Test func `an object does not replace a link`() async throws {
        for directory in ["in", "out"] { try scratch.makeDirectory(directory) }
        try scratch.write("target", to: "target")
        try scratch.write("object", to: "in/link")
        try scratch.write("other", to: "in/other")
        #expect(try await s3("sync", "in", object("p")).status == 0)
        let link = scratch.url.appendingPathComponent("out/link").path
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "../target")
        let result = try await s3("sync", "--delete", object("p"), "out")
        #expect(result.status == 0 && result.errors.contains("out/link: not a regular file; skipped"), "\(result.errors)")
        #expect(try scratch.text("target") == "target" && scratch.text("out/other") == "other")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "../target")
    }

    @Test func `names that differ only in their Unicode normal form are an error`() async throws {
        let (composed, decomposed) = ("\u{FC}", "u\u{308}")
        for directory in ["one", "other", "both"] { try scratch.makeDirectory(directory) }
        for path in ["one/\(composed)", "other/\(decomposed)", "both/\(composed)", "both/\(decomposed)"] {
            try scratch.write("1", to: path)
        }
        func sync(_ source: String, _ target: String) async throws -> ToolProcess.Result {
            try await s3("sync", "--delete", source, target)
        }
        func expectClash(_ result: ToolProcess.Result, _ reason: String, line: Int = #line) {
            #expect(
                result.status == 8 && result.errors.contains("\(reason) the name"), "line \(line): \(result.errors)")
        }
        expectClash(try await sync("both", object("p")), "two files have")
        #expect(try await sync("one", object("p")).status == 0)
        expectClash(try await sync("other", object("p")), "a file and an object have")
        expectClash(try await sync(object("p"), "other"), "a file and an object have")
        #expect(try await sync(object("p"), "one").status == 0)
        #expect(try await s3("put", "other/\(decomposed)", object("p/\(decomposed)")).status == 0)
        expectClash(try await sync(object("p"), "new"), "two objects have")
        expectClash(try await sync("one", object("p")), "two objects have")
    }

    @Test func `a key may continue the last character of its prefix`() async throws {
        try scratch.makeDirectory("out")
        try scratch.write("1", to: "a")
        let name = "\u{301}a"
        #expect(try await s3("put", "a", object("p/\(name)")).status == 0)
        #expect(try await s3("sync", object("p"), "out").status == 0)
        let names = try FileManager.default.contentsOfDirectory(atPath: scratch.url.appendingPathComponent("out").path)
        #expect(names.map { Array($0.utf8) } == [Array(name.utf8)])
    }

    @Test func `a complete file is not downloaded again`() async throws {
        try scratch.write("complete", to: "a")
        #expect(try await s3("put", "a", object("a")).status == 0)
        let same = try await s3("get", "--continue", object("a"))
        #expect(same.status == 0 && !same.output.contains("downloaded 1"), "\(same.output)\(same.errors)")
        let before = try FileManager.default.attributesOfItem(atPath: scratch.url.appendingPathComponent("a").path)
        #expect(try await s3("get", "--continue", object("a")).status == 0)
        let after = try FileManager.default.attributesOfItem(atPath: scratch.url.appendingPathComponent("a").path)
        #expect(before[.systemFileNumber] as? Int == after[.systemFileNumber] as? Int)
        for other in ["comp", "longer than the object"] {
            try scratch.write(other, to: "a")
            let result = try await s3("get", "--continue", object("a"))
            #expect(result.status == 0, "\(result.errors)")
            #expect(try scratch.text("a") == "complete")
        }
    }

    @Test func `a key cannot name a file outside the directory`() async throws {
        try scratch.write("evil", to: "a")
        try scratch.makeDirectory("in")
        for key in ["p//etc", "p/a//b"] { #expect(try await s3("put", "-q", "a", object(key)).status == 0) }
        let result = try await s3("sync", "--delete", object("p"), "out")
        #expect(result.status == 8 && result.errors.contains("cannot be the name of a file"), "\(result.errors)")
        #expect(result.errors.contains("nothing was removed"))
        #expect(scratch.names == ["a", "in", "out"])
    }
}

/// `convoy s3`, with a server that fails.
@Suite struct StorageFaultCommandTests {
    private func s3(_ bench: Workbench, _ arguments: String...) async throws -> ToolProcess.Result {
        try await ToolProcess.run(
            ["s3"] + arguments, in: bench.scratch.url,
            environment: [
                "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": bench.url(""),
                "HOME": bench.scratch.url.path,
            ])
    }

    @Test(arguments: [("x-amz-checksum-crc32", "AAAAAA=="), ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=")])
    func `a damaged download is an error and leaves no file`(_ field: String, _ value: String) async throws {
        let bench = try Workbench()
        let answer = TestServer.Response.bytes(Data("damaged".utf8)).header("ETag", "\"1\"").header(field, value)
        bench.server.route("/bucket/a", answer)
        let result = try await s3(bench, "get", "s3://bucket/a")
        #expect(result.status == 9 && result.errors.contains("checksum"), "\(result.errors)")
        #expect(bench.scratch.names.filter { $0 == "a" }.isEmpty)
    }

    @Test func `an object with a content coding is saved as it is stored`() async throws {
        let bench = try Workbench()
        let stored = try #require(Data(base64Encoded: "H4sIAAAAAAAC/8tIzcnJBwCGphA2BQAAAA=="))
        let answer = TestServer.Response.bytes(stored).header("ETag", "\"1\"").header("Content-Encoding", "gzip")
        bench.server.route("/bucket/a", answer.header("x-amz-checksum-crc32", "YQ3igg=="))
        let file = try await s3(bench, "get", "s3://bucket/a")
        #expect(file.status == 0, "\(file.errors)")
        #expect(try bench.scratch.data("a") == stored)
        #expect(try await s3(bench, "get", "-o", "b", "--segments", "2", "s3://bucket/a").status == 0)
        #expect(try bench.scratch.data("b") == stored)
        #expect(bench.server.requests("GET", "/bucket/a").allSatisfy { $0.headers["Accept-Encoding"] == "identity" })
        // A file is complete only if it also matches the checksum.
        let count = bench.server.requests("GET", "/bucket/a").count
        #expect(try await s3(bench, "get", "--continue", "s3://bucket/a").status == 0)
        #expect(bench.server.requests("GET", "/bucket/a").count == count)
        try bench.scratch.write(String(repeating: "x", count: stored.count), to: "a")
        #expect(try await s3(bench, "get", "--continue", "s3://bucket/a").status == 0)
        #expect(try bench.scratch.data("a") == stored)
    }

    @Test func `a rejected key is reported with the server's reason, and the secret is not printed`() async throws {
        let bench = try Workbench()
        let body = "<Error><Code>InvalidAccessKeyId</Code><Message>No such key.</Message></Error>"
        bench.server.route("/bucket", .bytes(Data(body.utf8), type: "application/xml", status: 403))
        let result = try await s3(bench, "list", "-v", "s3://bucket/")
        #expect(result.status == 7 && result.errors.contains("No such key (InvalidAccessKeyId)"), "\(result.errors)")
        #expect(!result.errors.contains("secret") && !result.output.contains("Signature="))
    }

    @Test func `an interrupted download resumes`() async throws {
        let bench = try Workbench()
        bench.server.route(
            "/bucket/big", .pattern(count: 3_000_000).header("ETag", "\"1\"").resets(afterBytes: 1_500_000))
        let first = try await s3(bench, "get", "--retry", "0", "s3://bucket/big")
        #expect(first.status == 4, "\(first.errors)")
        let data = bench.serve(3_000_000, at: "/bucket/big")
        let second = try await s3(bench, "get", "s3://bucket/big")
        #expect(second.status == 0, "\(second.errors)")
        #expect(try bench.scratch.data("big") == data)
        #expect(bench.server.requests("GET", "/bucket/big").last?.headers["Range"]?.hasPrefix("bytes=") == true)
    }
}
