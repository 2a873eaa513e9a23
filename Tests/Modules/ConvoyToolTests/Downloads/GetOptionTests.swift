import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// The options of `convoy get` that control what is downloaded and how.
@Suite(.serialized) struct GetOptionTests {
    let bench: Workbench

    init() throws { bench = try Workbench() }

    // MARK: Names

    @Test func `-o and -d determine the path of the file`() async throws {
        let data = bench.serve(5000, at: "/a/name")
        #expect(try await bench.get("-o", "x", bench.url("/a/name")).status == 0)
        #expect(try await bench.get("-o", "new/dir/y", bench.url("/a/name")).status == 0)
        #expect(try await bench.get("-d", "there", "-o", "z", bench.url("/a/name")).status == 0)
        let absolute = bench.scratch.url.appendingPathComponent("absolute").path
        #expect(try await bench.get("-d", "there", "-o", absolute, bench.url("/a/name")).status == 0)
        for path in ["x", "new/dir/y", "there/z", "absolute"] { #expect(try bench.scratch.data(path) == data) }
    }

    @Test func `-o - writes only the body to standard output`() async throws {
        bench.server.route("/text", .text("the body\n"))
        let result = try await bench.get("-o", "-", bench.url("/text"))
        #expect(result.status == 0)
        #expect(result.output == "the body\n")
        #expect(result.errors.contains("text: 9 B in "))
        #expect(bench.scratch.names.isEmpty)
        let failed = try await bench.get("-o", "-", "--retry", "0", bench.url("/none"))
        #expect(failed.status == 7 && failed.output.isEmpty)
    }

    @Test func `devices and pipes are written directly`() async throws {
        let data = bench.serve(300_000, at: "/x")
        #expect(try await bench.get("-o", "/dev/null", bench.url("/x")).status == 0)
        #expect(try await bench.get("-f", "-o", "/dev/null", bench.url("/x")).status == 0)
        let command = "mkfifo pipe; cat pipe >copy & $convoy get -o pipe \(bench.url("/x")); status=$?; wait; exit $status"
        let result = try await ToolProcess.run(command: command, in: bench.scratch.url)
        #expect(result.status == 0, "\(result.errors)")
        #expect(try bench.scratch.data("copy") == data)
        let printed = try await ToolProcess.run(
            command: "$convoy get -o /dev/stdout \(bench.url("/x")) >printed", in: bench.scratch.url)
        #expect(printed.status == 0)
        #expect(try bench.scratch.data("printed") == data)
        let named = try await ToolProcess.run(
            command: "$convoy get -o /dev/fd/7 \(bench.url("/x")) 7>seventh", in: bench.scratch.url)
        #expect(named.status == 0)
        #expect(try bench.scratch.data("seventh") == data)
        let refused = try await bench.get("-o", "/dev/fd/9", bench.url("/x"))
        #expect(refused.status == 8)
        #expect(try await bench.get("-o", "/dev/null", "--mirror", bench.url("/y"), bench.url("/x")).status == 2)
    }

    @Test func `a retry does not print the same bytes again`() async throws {
        bench.server.serve(PatternBytes.data(count: 100_000), at: "/cut", ranges: .ignored) { _, response in
            response.truncated(afterBytes: 60_000)
        }
        let result = try await ToolProcess.run(
            command: "exec $convoy get -o - --retry 2 \(bench.url("/cut")) >printed", in: bench.scratch.url)
        #expect(result.status != 0)
        let printed = try bench.scratch.data("printed")
        #expect(PatternBytes.data(count: 100_000).starts(with: printed) && printed.count <= 60_000)
        let whole = bench.serve(100_000, at: "/whole")
        bench.server.serve(whole, at: "/half", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.truncated(afterBytes: 60_000) : response
        }
        let resumed = try await ToolProcess.run(
            command: "$convoy get -o - --retry 2 \(bench.url("/half")) | cmp - <($convoy get -o - \(bench.url("/whole")))",
            in: bench.scratch.url)
        #expect(resumed.status == 0, "\(resumed.output)\(resumed.errors)")
    }

    @Test func `single-URL options with several URLs and contradictory options are rejected`() async throws {
        let url = bench.url("/x")
        for arguments in [
            ["-o", "x", url, url], ["--checksum", "md5=\(String(repeating: "0", count: 32))", url, url],
            ["--mirror", url, url, url], ["-o", "x", "-J", url], ["-o", "x/", url], ["-o", "", url], ["-d", "", url],
            ["-o", "-", "--json", url], ["-o", "-", "--mirror", url, url], ["--segments", "0", url],
            ["--segments", "65", url],
            ["--limit-rate", "0", url], ["--limit-rate", "fast", url], ["--limit-rate", "-1k", url], ["--retry", "-1", url],
            ["--retry", "1001", url], ["--max-time", "x", url], ["--jobs-per-host", "0", url], ["--color", "blue", url],
            ["--progress", "x", url], ["--checksum", "sha-256=zz", url], ["-q", "-v", url],
        ] {
            let result = try await ToolProcess.run(["get"] + arguments, in: bench.scratch.url)
            #expect(result.status == 2, "\(arguments)")
            #expect(result.errorLines.count == 1, "\(result.errors)")
        }
        #expect(bench.server.requests.isEmpty && bench.scratch.names.isEmpty)
    }

    @Test func `-J uses a sanitized version of the server's file name`() async throws {
        let header = "attachment; filename=\"../../.bash\u{1B}rc\"; filename*=UTF-8''%E6%97%A5%E6%9C%AC.txt"
        bench.server.route("/a", .text("a").header("Content-Disposition", header))
        bench.server.route("/b", .text("b").header("Content-Disposition", "attachment; filename=\"../../.bashrc\""))
        #expect(try await bench.get(bench.url("/a")).status == 0)
        #expect(try await bench.get("-J", bench.url("/a"), bench.url("/b")).status == 0)
        #expect(bench.scratch.names == ["_bashrc", "a", "日本.txt"])
        let again = try await bench.get("-J", bench.url("/a"))
        #expect(again.status == 8)
        #expect(try await bench.get("--no-clobber", "-J", bench.url("/a")).status == 0)
    }

    @Test func `a URL without a scheme uses https, or http for the local machine`() throws {
        for (text, url) in [
            ("example.com", "https://example.com"), ("example.com/a?b=http://c", "https://example.com/a?b=http://c"),
            ("127.example/x", "https://127.example/x"), ("127.1.2.3/x", "http://127.1.2.3/x"),
            ("api.localhost/x", "http://api.localhost/x"),
            ("localhost.example/x", "https://localhost.example/x"),
            ("localhost:8080/x", "http://localhost:8080/x"), ("//h/x", "https://h/x"), ("HTTP://h/", "HTTP://h/"),
            ("[::1]:80/", "http://[::1]:80/"), ("127.0.0.1", "http://127.0.0.1"), ("[::2]/", "https://[::2]/"),
            ("ada@h/x", "https://ada@h/x"), ("http:/h/x", "http://h/x"), ("httpbin.org/x", "https://httpbin.org/x"),
        ] {
            #expect(try DownloadURL.parse(text).absoluteString == url)
        }
        for text in [
            "ftp://h/", "file:///etc/passwd", "javascript://h/", "", "/", "http://", "://h", "h:99999/", "https//h/",
            "mailto:a@b.c",
        ] {
            #expect(throws: ToolError.self, "\(text)") { try DownloadURL.parse(text) }
        }
    }

    // MARK: Checksums and mirrors

    @Test func `a file is kept if it matches --checksum or --checksum-file`() async throws {
        bench.server.route("/b", .text("b"))
        bench.server.route("/c", .text("c"))
        let digest = "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"
        #expect(try await bench.get("--checksum", "sha-256=\(digest)", bench.url("/b")).status == 0)
        try bench.scratch.write("\(digest)  b\n\(digest)  c\n", to: "SUMS")
        let result = try await bench.get("-f", "--checksum-file", "SUMS", "--json", bench.url("/b"), bench.url("/c"))
        #expect(result.status == 9)
        #expect(try result.objects().first { $0["file"] as? String == "b" }?["sha256"] as? String == digest)
        #expect(bench.scratch.names == ["SUMS", "b"])
        let unknown = try await bench.get("--checksum-file", "SUMS", bench.url("/d"))
        #expect(unknown.status == 2)
        #expect(unknown.errors.contains("SUMS has no checksum for d"))
    }

    @Test func `a mirror is used if the first URL fails`() async throws {
        bench.server.route("/gone", .status(404))
        bench.server.route("/mirror", .text("here"))
        let result = try await bench.get("--mirror", bench.url("/mirror"), bench.url("/gone"))
        #expect(result.status == 0, "\(result.errors)")
        #expect(try bench.scratch.text("gone") == "here")
    }

    @Test func `a large file is downloaded in segments`() async throws {
        let data = bench.serve(8 << 20, at: "/large")
        let result = try await bench.get("--segments", "4", bench.url("/large"))
        #expect(result.status == 0)
        #expect(try bench.scratch.data("large") == data)
        #expect(bench.ranges("/large").compactMap(\.self).count >= 3)
    }

    // MARK: Speed

    @Test func `rates accept units`() {
        let rates: [(String, Int64?)] = [
            ("1", 1), ("500k", 500_000), ("2M", 2_000_000), ("1.5m", 1_500_000), ("1G", 1_000_000_000), ("0.5k", 500),
            ("500Ki", 512_000), ("2Mi", 2 << 20), ("1.5mi", 3 << 19), ("1Gi", 1 << 30), ("1i", nil), ("0", nil),
            ("", nil),
            ("k", nil), ("-1", nil), ("1e3", nil), ("1T", nil), ("1kk", nil), ("١", nil), ("0.0001", nil),
            ("9999999999999999G", nil),
            ("inf", nil), ("0x10", nil),
        ]
        for (text, rate) in rates { #expect(SpeedOptions.rate(text) == rate, "\(text)") }
    }

    @Test func `--limit-rate limits the total rate of all downloads`() async throws {
        for path in ["/a", "/b"] { _ = bench.serve(150_000, at: path) }
        let begun = ContinuousClock.now
        let result = try await bench.get("--limit-rate", "200k", bench.url("/a"), bench.url("/b"))
        let seconds = (ContinuousClock.now - begun).seconds
        #expect(result.status == 0)
        // The limit is 205 kB per second for 300 kB, with a burst allowance of an eighth of a second.
        #expect(seconds > 1.0)
    }

    @Test func `--retry limits the retries, and the output gives the reason for each`() async throws {
        bench.server.route("/x", inTurn: [.status(503).header("Retry-After", "0"), .status(500), .text("at last")])
        let given = try await bench.get("--retry", "1", bench.url("/x"))
        #expect(given.status == 7)
        bench.server.route("/y", inTurn: [.status(503).header("Retry-After", "0"), .status(500), .text("at last")])
        let result = try await bench.get("--retry", "5", bench.url("/y"))
        #expect(result.status == 0, "\(result.errors)")
        #expect(result.output.contains("y: the server returned 500; retrying in "))
        #expect(try bench.scratch.text("y") == "at last")
        bench.server.route("/z", .status(503).header("Retry-After", "30"))
        let late = try await bench.get("--retry", "5", "--retry-max-time", "2", bench.url("/z"))
        #expect(late.status == 7)
        #expect(bench.server.requests("/z").count == 1)
    }

    @Test func `a lost transfer resumes automatically`() async throws {
        let data = PatternBytes.data(count: 300_000)
        bench.server.serve(data, at: "/x", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.truncated(afterBytes: 200_000) : response
        }
        #expect(try await bench.get(bench.url("/x")).status == 0)
        #expect(try bench.scratch.data("x") == data)
        #expect(bench.ranges("/x").count == 2)
    }

    @Test func `--jobs-per-host limits concurrent downloads per host`() async throws {
        let paths = (0..<8).map { "/n/\($0)" }
        for path in paths { bench.server.route(path, .text("x").delayed(0.05)) }
        let result = try await ToolProcess.run(
            ["get", "-j", "8", "--jobs-per-host", "2"] + paths.map(bench.url), in: bench.scratch.url)
        #expect(result.status == 0)
        #expect(bench.server.peakActiveRequestCount == 2)
    }

    // MARK: Output

    @Test func `--quiet prints only errors`() async throws {
        bench.server.route("/x", .text("x"))
        let good = try await bench.get("-q", bench.url("/x"))
        #expect(good.status == 0 && good.output.isEmpty && good.errors.isEmpty)
        let bad = try await bench.get("-q", bench.url("/none"))
        #expect(bad.status == 7 && bad.output.isEmpty && bad.errorLines.count == 1)
    }

    @Test func `--timing prints the times of each request`() async throws {
        bench.server.redirect("/first", to: "/second")
        bench.server.route("/second", .text("x").delayed(0.1))
        let result = try await bench.get("--timing", bench.url("/first"))
        #expect(result.outputLines.count == 3, "\(result.output)")
        for line in result.outputLines.dropFirst() {
            #expect(
                line.wholeMatch(of: /\ \ name [\d.]+ s, connect [\d.]+ s, first byte [\d.]+ s, total [\d.]+ s/) != nil,
                "\(line)")
        }
        let json = try await bench.get("-f", "--timing", "--json", bench.url("/second"))
        let line = try #require(json.outputLines.first)
        let times = try #require(
            line.firstMatch(
                of: /"timing":\[{"name":([\d.]+),"connect":([\d.]+),"tls":null,"firstByte":([\d.]+),"total":([\d.]+),/))
        let numbers = [times.1, times.2, times.3, times.4].compactMap { Double($0) }
        #expect(numbers == numbers.sorted())
        // The server delays the first byte after the connection. Each time is rounded.
        #expect(numbers.count == 4 && numbers[2] - numbers[1] > 0.05, "\(numbers)")
        #expect(line.contains(#""protocol":"http/1.1","reused":false,"address":"127.0.0.1"}]"#), "\(line)")
    }

    @Test func `a dry run prints the requests without their secrets and sends nothing`() async throws {
        bench.server.echo(at: "/echo")
        let options = [
            "-H", "X-Api-Key: hunter2", "-H", "Accept-Language: de", "-H", "Authorization: Bearer hunter2", "--user-agent",
            "me/1",
        ]
        let url = bench.url("/echo?token=hunter2&a=1")
        let dry = try await ToolProcess.run(["get", "--dry-run"] + options + [url], in: bench.scratch.url)
        #expect(dry.status == 0, "\(dry.errors)")
        #expect(!dry.output.contains("hunter2"))
        #expect(bench.server.requests.isEmpty && bench.scratch.names.isEmpty)
        #expect(try await ToolProcess.run(["get"] + options + [url], in: bench.scratch.url).status == 0)
        let sent = try #require(bench.server.requests.first)
        let fields = Set(dry.outputLines.dropFirst(2).compactMap { $0.split(separator: ":").first?.lowercased() })
        #expect(fields == Set(sent.headers.fields.map { $0.name.lowercased() }))
        #expect(dry.outputLines[0].hasSuffix(" for echo"))
        #expect(dry.outputLines[1].hasPrefix("GET /echo?token=") && dry.outputLines[1].hasSuffix("&a=1 HTTP/1.1"))
        for name in ["Accept-Language", "User-Agent", "Accept", "Host", "Accept-Encoding"] {
            #expect(dry.outputLines.contains("\(name): \(sent.headers[name] ?? "")"), "\(name): \(dry.output)")
        }
    }

    @Test func `a dry run reports existing, resumable and failing downloads`() async throws {
        _ = bench.serve(100_000, at: "/x")
        let gate = TestServer.Gate()
        bench.server.route("/held", .pattern(count: 100_000).header("ETag", "\"1\"").heldBody(by: gate, afterBytes: 50_000))
        let tool = try ToolProcess(["get", bench.url("/held")], in: bench.scratch.url)
        try await bench.waitForBytes(of: "held", count: 50_000)
        tool.send(signal: SIGINT)
        _ = try await tool.finished()
        let before = bench.server.requests.count
        try bench.scratch.write("old", to: "old")
        let result = try await bench.get("--dry-run", "--no-clobber", bench.url("/held"), bench.url("/old"))
        #expect(
            result.output.contains("Range: bytes=50000-") && result.output.contains("If-Range: \"1\""), "\(result.output)")
        #expect(result.output.contains("for old: exists, nothing is sent"))
        let failing = try await bench.get("--dry-run", bench.url("/old"))
        #expect(try await bench.get("--dry-run", "-d", "new", bench.url("/x")).status == 0)
        #expect(failing.status == 8)
        #expect(bench.server.requests.count == before)
        #expect(bench.scratch.names == ["held.convoyjournal", "held.convoypart", "old"])
    }
}
