import ConvoyTestServer
import ConvoyTestSupport
import ConvoySupport
import Foundation
import Testing

@testable import ConvoyTool

/// Lists of downloads: `--input-file`.
@Suite(.serialized) struct DownloadListTests {
    let bench: Workbench

    init() throws { bench = try Workbench() }

    // MARK: The format

    private func list(_ text: String) throws -> [DownloadItem] { try bench.scratch.items(ofList: Data(text.utf8)) }

    @Test func `a line contains the URLs of a file, and the indented lines below it the options`() throws {
        let items = try list(
            "\u{FEFF}# a comment\r\n\r\nhttp://a.test/x\thttps://b.test/x \t\n  out=sub/./y\n\tdir=/tmp/d\n"
                + " checksum=sha-256=\(String(repeating: "ab", count: 32))\n  header=X-A: 1\n  header=X-B: = 2\n  split=4\n"
                + "   \n  # another comment\nc.test/z\n")
        #expect(
            items.map { $0.urls.map(\.absoluteString) } == [["http://a.test/x", "https://b.test/x"], ["https://c.test/z"]])
        #expect(items[0].name == "sub/y" && items[0].directory == "/tmp/d" && items[0].segments == 4)
        #expect(items[0].checksum?.hexadecimal == String(repeating: "ab", count: 32))
        #expect(items[0].headers == ["X-A: 1", "X-B: = 2"])
        #expect(items[1].name == nil && items[1].headers.isEmpty && items[1].checksum == nil)
    }

    @Test(arguments: [
        ("  out=x\nhttp://a.test/", 1, "without a URL before it"), ("http://a.test/\n  out", 2, "has no value"),
        ("http://a.test/\n  out=../x", 2, "below the directory"), ("http://a.test/\n  out=/x", 2, "below the directory"),
        ("http://a.test/\n  out=a/../../x", 2, "below the directory"), ("http://a.test/\n  out=", 2, "below the directory"),
        ("http://a.test/\n\n  checksum=crc=1", 3, "invalid checksum"),
        ("http://a.test/\n  checksum=sha-256=ab", 2, "invalid checksum"),
        ("http://a.test/\n  split=0", 2, "1 to 64"), ("http://a.test/\n  header=none", 2, "Name: value"),
        ("http://a.test/\n  max-tries=3", 2, "unknown option 'max-tries'"), ("ftp://a.test/", 1, "http:// or https://"),
        ("http://a.test/\thttp://b.test:99999/", 1, "invalid URL"), ("http://a.test/\u{1B}", 1, "control character"),
    ])
    func `an invalid list is reported with the line number`(_ text: String, _ line: Int, _ words: String) throws {
        do {
            _ = try list(text)
            Issue.record("the list was accepted")
        } catch let error as ToolError {
            #expect(error.text.hasPrefix("list:\(line): "), "\(error.text)")
            #expect(error.text.contains(words), "\(error.text)")
            #expect(error.status == .wrongUsage)
        }
    }

    @Test func `a long invalid line is not printed completely`() throws {
        do {
            _ = try list(String(repeating: "x", count: 100_000) + ":y")
            Issue.record("the list was accepted")
        } catch let error as ToolError {
            #expect(error.text.count < 500)
        }
    }

    @Test func `a list that is not valid UTF-8 is rejected`() throws {
        #expect(throws: ToolError.self) { try bench.scratch.items(ofList: Data([0x68, 0xFF, 0xFE])) }
    }

    @Test func `the fast URL check accepts only valid URLs and agrees with full parsing`() throws {
        let hosts = [
            "a.test", "127.0.0.1", "127.1", "127.0.0.256", "1a.test", "a..test", ".a", "a.", "-a", "a-b.test",
            "xn--bcher-kva.test", "A.test", "a_b", "a.1", "",
        ]
        let ports = ["", ":80", ":0", ":99999", ":", ":8080", ":54321"],
            paths = [
                "", "/", "/a b", "/a%20b", "/~x/?q=1&r", "/é", "?a", "/a#b", "/a\\b", "/../a", "/a/.", "/./a", "/.a",
                "/a.b;c,d",
                "/a/?b=/../c",
            ]
        var plain = 0
        for scheme in ["http://", "https://", "HTTP://", "ftp://", "//", ""] {
            for host in hosts {
                for port in ports {
                    for path in paths {
                        let text = scheme + host + port + path
                        guard DownloadURL.isPlain(text) else { continue }
                        plain += 1
                        #expect(try DownloadURL.parse(text).absoluteString == text)
                        // The parser takes the same short cut, so it is compared with what the parser does otherwise.
                        #expect(URLReference.url(text)?.absoluteString == text && HTTPAddress(text)?.text.isEmpty == false)
                    }
                }
            }
        }
        #expect(plain > 10)
    }

    @Test func `any input is parsed as a list or rejected`() {
        var generator = SplitMix64.printingSeed()
        let pieces = [
            "http://a.test/", "\n", "\t", " ", "out=", "=", "#", "x", "..", "/", "\u{301}", "\0", "split=2", "dir=", "\r",
        ]
        var taken = 0
        let rounds = PropertyBudget.rounds(1_000)
        for _ in 0..<rounds {
            let text = (0..<Int.random(in: 0...8, using: &generator)).map { _ in
                pieces.randomElement(using: &generator) ?? ""
            }
            if (try? list(text.joined())) != nil { taken += 1 }
        }
        #expect(taken > rounds / 50 && taken < rounds)
    }

    // MARK: Downloads

    @Test(arguments: ["-", "list.txt"])
    func `the files of a list are downloaded with their individual options`(_ place: String) async throws {
        bench.server.route("/a", .text("a"))
        bench.server.route("/b", .text("b"))
        bench.server.route("/gone", .status(503))
        let digest = "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"  // of "b"
        let text = """
            \(bench.url("/a"))
              out=one/first.txt
              header=X-Key: secret
            \(bench.url("/gone"))\t\(bench.url("/b"))
              dir=two
              checksum=sha-256=\(digest)
            \(bench.url("/a"))
            """
        try bench.scratch.write(text, to: "list.txt")
        let result = try await bench.get("-d", "out", "--retry", "0", "-i", place, input: text)
        #expect(result.status == 0, "\(result.errors)")
        #expect(try bench.scratch.text("out/one/first.txt") == "a")
        #expect(try bench.scratch.text("two/gone") == "b")
        #expect(try bench.scratch.text("out/a") == "a")
        #expect(bench.server.requests("/a").filter { $0.headers["X-Key"] == "secret" }.count == 1)
        #expect(bench.server.requests("/b").allSatisfy { $0.headers["X-Key"] == nil })
        #expect(result.output.contains("3 downloaded"))
    }

    @Test func `a file in a list is downloaded in the given number of segments`() async throws {
        let data = bench.serve(4 << 20, at: "/large")
        let result = try await bench.get("-i", "-", input: "\(bench.url("/large"))\n  split=3\n")
        #expect(result.status == 0)
        #expect(try bench.scratch.data("large") == data)
        #expect(bench.ranges("/large").count == 3)
    }

    @Test func `a piped list is downloaded as it arrives, and an invalid line does not end the run`() async throws {
        for path in ["/a", "/b", "/c"] { bench.server.route(path, .text(path)) }
        let lines = [bench.url("/a"), "ftp://a.test/", "  out=x", bench.url("/b"), "  out=sub/b", bench.url("/c")]
        // The next line is written only after the first file exists.
        let parts = [[0], [1, 2], [3, 4], [5]].map { $0.map { "printf '%s\\n' '\(lines[$0])'" }.joined(separator: "; ") }
        let command =
            "(\(parts[0]); \(ToolProcess.shellWait(for: "[ -s a ]")); [ -s a ] && touch early; "
            + "\(parts[1]); \(parts[2]); \(ToolProcess.shellWait(for: "[ -s sub/b ]")); \(parts[3])) | $convoy get --json -i -"
        let result = try await ToolProcess.run(command: command, in: bench.scratch.url)
        #expect(result.status == 2, "\(result.errors)")
        #expect(bench.scratch.names == ["a", "c", "early", "sub"])
        let objects = try result.objects()
        #expect(objects.map { $0["line"] as? Double } == [1, 2, 4, 6])
        #expect(objects.map { $0["errorCode"] as? String } == [nil, "usage", nil, nil])
        #expect(result.errors.contains("3 downloaded, 1 failed"))
    }

    @Test func `each JSON line contains the position in the list and the URL as given`() async throws {
        bench.server.route("/a", .text("a"))
        let url = bench.url("/a")
        try bench.scratch.write(
            "# one\n\(url)?code=500\n\(url)?code=404\n  out=b\n\(url)?token=abcdefgh\n  out=c\n", to: "l")
        for (option, last) in [("--quiet", "***"), ("--show-secrets", "abcdefgh")] {
            let result = try await bench.get(
                "-f", "--json", option, "-j", "1", "-i", "l", "\(url.dropFirst("http://".count))")
            #expect(result.status == 0, "\(result.errors)")
            let objects = try result.objects().filter { $0["line"] != nil }.sorted { "\($0["line"]!)" < "\($1["line"]!)" }
            #expect(objects.map { $0["url"] as? String } == ["\(url)?code=500", "\(url)?code=404", "\(url)?token=\(last)"])
            #expect(objects.map { $0["line"] as? Double } == [2, 3, 5])
            #expect(objects.allSatisfy { $0["list"] as? String == "l" })
            #expect(try result.objects().contains { $0["url"] as? String == String(url.dropFirst("http://".count)) })
        }
    }

    @Test func `an invalid list ends the run before anything is sent`() async throws {
        let result = try await bench.get("-i", "-", input: "\(bench.url("/a"))\n  oops=1\n")
        #expect(result.status == 2)
        #expect(result.errors.hasPrefix("convoy: standard input:2: unknown option 'oops'"))
        #expect(bench.server.requests.isEmpty && bench.scratch.names.isEmpty)
    }

    @Test func `listed names must be distinct, and names derived from URLs avoid them`() async throws {
        bench.server.route("/a", .text("url"))
        bench.server.route("/x", .text("list"))
        let clash = try await bench.get("-i", "-", input: "\(bench.url("/a"))\n  out=n\n\(bench.url("/x"))\n  out=n\n")
        #expect(clash.status == 2)
        #expect(clash.errors.contains("two files in the list have the name n"))
        let result = try await bench.get("-i", "-", input: "\(bench.url("/a"))\n\(bench.url("/x"))\n  out=a\n")
        #expect(result.status == 0)
        #expect(try bench.scratch.text("a") == "list")
        #expect(try bench.scratch.text("a.1") == "url")
    }

    @Test func `an empty list succeeds; a missing one is a usage error`() async throws {
        #expect(try await bench.get("-i", "-", input: "# nothing\n").status == 0)
        let missing = try await bench.get("-i", "nowhere")
        #expect(missing.status == 2)
        #expect(missing.errors.contains("cannot read --input-file nowhere: "))
        #expect(try await bench.get("-i", "-", "-i", "-", input: "").status == 2)
    }

    @Test func `symbolic links in the directories of a list are not followed`() async throws {
        bench.server.route("/a", .text("a"))
        try bench.scratch.makeDirectory("elsewhere")
        try FileManager.default.createSymbolicLink(
            atPath: bench.scratch.url.appendingPathComponent("link").path, withDestinationPath: "elsewhere")
        let result = try await bench.get("-i", "-", input: "\(bench.url("/a"))\n  out=link/x\n")
        #expect(result.status == 8)
        #expect(result.errors.contains("symbolic link"))
        #expect(bench.server.requests.isEmpty)
    }

    // MARK: Metalinks

    private func metalink(_ urls: [String], name: String, digest: String) -> String {
        let places = urls.enumerated().map { "<url priority=\"\($0.offset + 1)\">\($0.element)</url>" }
        return """
            <?xml version="1.0" encoding="UTF-8"?>
            <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="\(name)">
            <hash type="sha-256">\(digest)</hash>\(places.joined())
            </file></metalink>
            """
    }

    @Test func `a Metalink file is downloaded from a working mirror and verified`() async throws {
        bench.server.route("/one", .status(503))
        bench.server.route("/two", .text("b"))
        let good = "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"
        let urls = [bench.url("/one"), bench.url("/two")]
        try bench.scratch.write(metalink(urls, name: "deep/name.txt", digest: good), to: "m.meta4")
        let result = try await bench.get("--retry", "0", "-i", "m.meta4")
        #expect(result.status == 0, "\(result.errors)")
        #expect(try bench.scratch.text("deep/name.txt") == "b")
        try bench.scratch.write(
            metalink(urls, name: "bad.txt", digest: String(repeating: "0", count: 64)), to: "bad.meta4")
        let wrong = try await bench.get("--retry", "0", "-i", "bad.meta4")
        #expect(wrong.status == 9)
        #expect(!bench.scratch.names.contains { $0.hasPrefix("bad.txt") })
    }

    @Test func `a Metalink that is damaged or has no HTTP URL is a usage error`() async throws {
        try bench.scratch.write("<metalink><file", to: "cut.meta4")
        try bench.scratch.write(
            metalink(["ftp://a.test/x"], name: "x", digest: String(repeating: "0", count: 64)), to: "ftp.meta4")
        for name in ["cut.meta4", "ftp.meta4"] {
            let result = try await bench.get("-i", name)
            #expect(result.status == 2, "\(name): \(result.errors)")
            #expect(result.errorLines.count == 1)
        }
    }
}
