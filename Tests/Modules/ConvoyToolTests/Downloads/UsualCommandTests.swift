import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Common uses of wget, curl and aria2, with the kinds of servers that they are used with.
struct UsualCommandTests {
    /// A file server.
    struct FileServer {
        let url: (String) -> URL
        let add: (Data, String) throws -> Void
        /// Keeps the server program alive.
        let owner: AnyObject
    }

    enum Kind: String, CaseIterable, Sendable {
        case nginx, apache2, lighttpd

        var isInstalled: Bool {
            switch self {
            case .nginx: Nginx.isInstalled
            case .apache2: ApacheServer.isInstalled
            case .lighttpd: Lighttpd.isInstalled
            }
        }

        func start() throws -> FileServer {
            switch self {
            case .nginx:
                let server = try Nginx()
                return FileServer(url: { server.url($0) }, add: { try server.add($0, as: $1) }, owner: server)
            case .apache2:
                let server = try ApacheServer()
                return FileServer(url: { server.url($0) }, add: { try server.add($0, as: $1) }, owner: server)
            case .lighttpd:
                let server = try Lighttpd()
                return FileServer(url: { server.url($0) }, add: { try server.add($0, as: $1) }, owner: server)
            }
        }
    }

    static let kinds: [Kind] = Kind.allCases.filter { kind in
        if !kind.isInstalled { print("not tested with \(kind.rawValue), which is not installed") }
        return kind.isInstalled
    }

    private func data(_ seed: UInt64, count: Int) -> Data {
        var generator = SplitMix64(seed: seed)
        return generator.data(count: count)
    }

    /// The command is `wget -c -i list`. Some files of the list are complete, one is incomplete, and the others do not
    /// exist.
    @Test(arguments: kinds)
    func `an interrupted list resumes where it stopped`(_ kind: Kind) async throws {
        let server = try kind.start(), scratch = try Scratch()
        let files = (0..<5).map { data(UInt64($0), count: 2_000_000) }
        for (index, file) in files.enumerated() { try server.add(file, "f\(index).bin") }
        try scratch.write((0..<5).map { "\(server.url("f\($0).bin"))\n" }.joined(), to: "list")
        let slow = try ToolProcess(["get", "--no-clobber", "-j", "1", "--limit-rate", "2M", "-i", "list"], in: scratch.url)
        try await waitUntil("the second file has begun") {
            ((try? scratch.data("f1.bin.convoypart"))?.count ?? 0) > 500_000 || scratch.names.contains("f1.bin")
        }
        slow.send(signal: SIGINT)
        #expect(try await slow.finished().status == -SIGINT)
        let begun = scratch.names.first { $0.hasSuffix(".convoypart") }
        let result = try await ToolProcess.run(["get", "--no-clobber", "-v", "-i", "list"], in: scratch.url)
        #expect(result.status == 0, "\(result.errors)")
        for (index, file) in files.enumerated() { #expect(try scratch.data("f\(index).bin") == file) }
        #expect(scratch.names.count == 6)
        #expect(result.output.contains("f0.bin: already exists"))
        #expect(result.errors.contains("HTTP/1.1 206") == (begun != nil))
        _ = server.owner
    }

    /// The command is `curl --remote-name-all --parallel URL…`, which downloads many URLs in parallel, each under its
    /// own name.
    @Test(arguments: kinds)
    func `many URLs download in parallel, each under its own name`(_ kind: Kind) async throws {
        let server = try kind.start(), scratch = try Scratch()
        let files = (0..<40).map { data(UInt64(100 + $0), count: 30_000 + $0) }
        for (index, file) in files.enumerated() { try server.add(file, "n\(index).bin") }
        let urls = files.indices.map { server.url("n\($0).bin").absoluteString }
        let result = try await ToolProcess.run(["get", "--jobs", "20"] + urls, in: scratch.url)
        #expect(result.status == 0, "\(result.errors)")
        #expect(result.output.contains("40 downloaded, "))
        for (index, file) in files.enumerated() { #expect(try scratch.data("n\(index).bin") == file) }
        #expect(scratch.names.count == 40)
        _ = server.owner
    }

    /// The command is `aria2c -x4 -j8 -i list`, whose list has names and checksums, with four connections per file.
    @Test(arguments: kinds)
    func `the files of a list are downloaded in segments, named and verified`(_ kind: Kind) async throws {
        let server = try kind.start(), scratch = try Scratch()
        let files = (0..<3).map { data(UInt64(200 + $0), count: 6_000_000) }
        var list = ""
        for (index, file) in files.enumerated() {
            try server.add(file, "s\(index).bin")
            let digest = try await ProcessRunner.digest(of: file, in: scratch)
            list +=
                "\(server.url("s\(index).bin"))\n  out=part \(index).bin\n  dir=d\(index)\n  checksum=sha-256=\(digest)\n"
        }
        try scratch.write(list, to: "list")
        // The rate is low enough that no file completes before its segments have started, even on a busy machine.
        let arguments = ["get", "--segments", "4", "-j", "8", "-v", "--limit-rate", "12M", "-i", "list"]
        let result = try await ToolProcess.run(arguments, in: scratch.url)
        #expect(result.status == 0, "\(result.errors.suffix(2000))")
        for (index, file) in files.enumerated() { #expect(try scratch.data("d\(index)/part \(index).bin") == file) }
        #expect(result.errors.components(separatedBy: "HTTP/1.1 206").count > 3)
        _ = server.owner
    }
}

/// Familiar command lines of wget, curl and aria2, as listed in the article about the tool.
struct HabitTests {
    struct Habit: Sendable, CustomTestStringConvertible {
        enum Verdict: String { case good, differs, missing = "not supported" }
        let theirs: String
        let ours: String
        let verdict: Verdict
        /// The expected result: `file NAME`, `output` …
        let result: String
        var testDescription: String { theirs }

        init(_ theirs: String, _ ours: String, _ verdict: Verdict, _ result: String) {
            (self.theirs, self.ours, self.verdict, self.result) = (theirs, ours, verdict, result)
        }
    }

    static let habits = [
        Habit("wget URL", "convoy get URL", .good, "file file"),
        Habit("wget -O out URL", "convoy get -o out URL", .good, "file out"),
        Habit("wget -q URL", "convoy get -q URL", .good, "file file"),
        Habit("wget -c URL", "convoy get -c URL", .good, "file file"),
        Habit("wget -P dir URL", "convoy get -d dir URL", .good, "file dir/file"),
        Habit("wget -i list", "convoy get -i list", .good, "file file"),
        Habit("wget -i - <list", "convoy get -i - <list", .good, "file file"),
        Habit("wget -nc URL", "convoy get --no-clobber URL", .good, "file file"),
        Habit("wget -N URL", "convoy get -N URL", .good, "file file"),
        Habit("wget --content-disposition URL", "convoy get -J URL", .good, "file file"),
        Habit("wget --limit-rate=200k URL", "convoy get --limit-rate 200k URL", .good, "file file"),
        Habit("wget -w 2 --random-wait -i list", "convoy get --wait 1-3 -i list", .good, "file file"),
        Habit("wget -t 5 -T 10 URL", "convoy get --retry 5 --timeout 10 URL", .good, "file file"),
        Habit("wget --spider URL", "convoy get --spider URL", .good, "head"),
        Habit("wget --header='X-A: b' URL", "convoy get -H 'X-A: b' URL", .good, "file file"),
        Habit("wget -U agent URL", "convoy get -A agent URL", .good, "file file"),
        Habit("wget --user=ada --password=pw URL", "convoy get -u ada:pw URL", .good, "file file"),
        Habit("wget --no-check-certificate URL", "convoy get -k URL", .good, "file file"),
        Habit("wget --content-on-error MISSING", "convoy get --content-on-error MISSING", .good, "error missing"),
        Habit("wget --retry-on-http-error=409 URL", "convoy get --retry-on 409 URL", .good, "file file"),
        Habit("wget --load-cookies jar --save-cookies jar URL", "convoy get --cookie-jar jar URL", .good, "file file"),
        Habit("wget -O - URL", "convoy get -o - URL", .good, "output"),
        Habit("wget URL, if the file exists", "convoy get --number URL", .differs, "number"),
        Habit("wget -r URL", "", .missing, ""),
        Habit("wget -b URL", "", .missing, ""),
        Habit("curl -O URL", "convoy get URL", .good, "file file"),
        Habit("curl -o out URL", "convoy get -o out URL", .good, "file out"),
        Habit("curl URL", "convoy get -o - URL", .good, "output"),
        Habit("curl -sL URL", "convoy get -q -o - URL", .good, "output"),
        Habit("curl -I URL", "convoy get -I URL", .good, "head"),
        Habit("curl -i URL", "convoy get --include -o - URL", .good, "include"),
        Habit("curl -v URL", "convoy get -v -o - URL", .good, "output"),
        Habit("curl --fail-with-body MISSING", "convoy get --fail-with-body -o - MISSING", .good, "error -"),
        Habit("curl -r 0-99 -o part URL", "convoy get -r 0-99 -o part URL", .good, "part"),
        Habit("curl -n URL", "convoy get -n URL", .good, "file file"),
        Habit("curl --noproxy '*' URL", "convoy get --noproxy '*' URL", .good, "file file"),
        Habit("curl -4 -O URL", "convoy get -4 URL", .good, "file file"),
        Habit("curl --http1.1 -O URL", "convoy get --http1.1 URL", .good, "file file"),
        Habit(
            "curl --resolve a.test:PORT:127.0.0.1 -O http://a.test:PORT/file",
            "convoy get --resolve a.test:PORT:127.0.0.1 http://a.test:PORT/file", .good, "file file"),
        Habit(
            "curl --connect-to a.test:80:127.0.0.1:PORT -O http://a.test/file",
            "convoy get --connect-to a.test:80:127.0.0.1:PORT http://a.test/file", .good, "file file"),
        Habit("curl --retry 3 -m 10 -O URL", "convoy get --retry 3 -m 10 URL", .good, "file file"),
        Habit("curl -Z --remote-name-all URL SECOND", "convoy get URL SECOND", .good, "file second"),
        Habit("curl -JO URL", "convoy get -J URL", .good, "file file"),
        Habit("curl --hsts hsts -O URL", "convoy get --hsts hsts URL", .good, "file file"),
        Habit("curl --create-dirs -o a/b/out URL", "convoy get -o a/b/out URL", .good, "file a/b/out"),
        Habit("curl -f -o - URL", "convoy get -o - URL", .differs, "output"),
        Habit("curl -w '%{http_code}' URL", "convoy get --json URL", .differs, "json"),
        Habit("curl -d a=b URL", "convoy send --form POST URL a=b", .good, ""),
        Habit("curl -X DELETE URL", "convoy send DELETE URL", .good, ""),
        Habit("curl -F file=@a URL", "convoy send --multipart POST URL file@a", .good, ""),
        Habit("curl -T file URL", "convoy put file URL", .good, ""),
        Habit("aria2c URL", "convoy get URL", .good, "file file"),
        Habit("aria2c -x4 -s4 URL", "convoy get -s 4 URL", .good, "file file"),
        Habit("aria2c -i list -j 8", "convoy get -i list -j 8", .good, "file file"),
        Habit("aria2c --checksum=sha-256=HEX URL", "convoy get --checksum sha-256=HEX URL", .good, "file file"),
        Habit("aria2c SECOND URL", "convoy get --mirror URL SECOND", .good, "file second"),
        Habit("aria2c -M release.meta4", "convoy get -i release.meta4", .good, "file file"),
        Habit("aria2c --max-download-limit=200K URL", "convoy get --limit-rate-each 200k URL", .good, "file file"),
        Habit("aria2c -d dir -o out URL", "convoy get -d dir -o out URL", .good, "file dir/out"),
        Habit("aria2c release.torrent", "", .missing, ""),
    ]

    private let bench: Workbench
    private let data = PatternBytes.data(count: 3000)

    init() throws {
        bench = try Workbench()
        bench.server.serve(data, at: "/file", etag: "\"1\"")
        bench.server.serve(data, at: "/second", etag: "\"1\"")
        bench.server.route("HEAD", "/file", .text("x").header("X-Head", "yes"))
        bench.server.route("/missing", .text("no such thing", status: 404))
    }

    @Test func `the article lists the same 60 command lines, and at least 45 have an equivalent`() throws {
        #expect(Self.habits.count == 60)
        #expect(Self.habits.count { $0.verdict == .good } >= 45)
        let article = try String(
            contentsOf: URL(fileURLWithPath: #filePath).appendingPathComponent(
                "../../../../../Sources/Convoy/Convoy.docc/Tool.md"
            ).standardized, encoding: .utf8)
        for habit in Self.habits {
            let ours = habit.ours.isEmpty ? "" : "`\(habit.ours)`"
            let verdict = habit.verdict == .good ? "" : " \(habit.verdict.rawValue): "
            let row = "| `\(habit.theirs)` | \(ours) |\(verdict)"
            #expect(article.contains(row), "\(row)")
        }
    }

    @Test(arguments: habits.filter { !$0.result.isEmpty })
    func `a familiar command line has the same result`(_ habit: Habit) async throws {
        let scratch = bench.scratch
        let digest = try await ProcessRunner.digest(of: data, in: scratch)
        try scratch.write("\(bench.url("/file"))\n", to: "list")
        try scratch.write("", to: "netrc")
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o600], ofItemAtPath: scratch.url.appendingPathComponent("netrc").path)
        try scratch.write(
            "<metalink xmlns='urn:ietf:params:xml:ns:metalink'><file name='file'><url>\(bench.url("/file"))</url></file></metalink>",
            to: "release.meta4")
        if habit.result == "number" { try scratch.write("before", to: "file") }
        var command = habit.ours.replacing("convoy ", with: "NETRC=$PWD/netrc $convoy ", maxReplacements: 1)
        for (word, text) in [
            ("URL", bench.url("/file")), ("SECOND", bench.url("/second")), ("MISSING", bench.url("/missing")),
            ("PORT", "\(bench.server.port)"), ("HEX", digest),
        ] { command = command.replacing(word, with: text) }
        let result = try await ToolProcess.run(command: command, in: scratch.url)
        let words = habit.result.split(separator: " ").map(String.init)
        #expect(result.status == (words[0] == "error" ? 7 : 0), "\(command): \(result.errors)")
        switch words[0] {
        case "file": #expect(try scratch.data(words[1]) == data)
        case "number": #expect(try scratch.data("file.1") == data && scratch.text("file") == "before")
        case "part": #expect(try scratch.data("part") == data.prefix(100))
        case "output": #expect(result.output == String(decoding: data, as: UTF8.self))
        case "head": #expect(result.output.hasPrefix("HTTP/1.1 200 OK\n") && result.output.contains("\nX-Head: yes\n"))
        case "include":
            #expect(result.output.hasPrefix("HTTP/1.1 200 OK\n"))
            #expect(result.output.hasSuffix("\n\n" + String(decoding: data, as: UTF8.self)))
        case "error" where words[1] == "-": #expect(result.output == "no such thing")
        case "error": #expect(try scratch.text(words[1]) == "no such thing")
        case "json": #expect(try result.objects().first?["status"] as? Double == 200)
        default: Issue.record("\(habit.result)")
        }
    }

    @Test(arguments: [
        (["-d", "a=b", "URL"], "-d sets the output directory"), (["-d", "{}", "URL"], "convoy send POST"),
        (["-L", "URL"], "redirects are followed by default"), (["-i", "URL"], "-i takes a list"),
        (["-X", "POST", "URL"], "convoy send POST URL NAME=VALUE"),
        (["--data", "a=b", "URL"], "convoy send POST URL NAME=VALUE"), (["-O", "URL"], "are named after the URL"),
        (["-s", "URL"], "-q prints only errors"), (["-P", "dir", "URL"], "-d DIR"), (["-r", "URL"], "0-499, 500- or -500"),
        (["--include", "URL"], "requires --output -"), (["-I", "-o", "x", "URL"], "cannot be combined with --output"),
        (["-r", "5-2", "URL"], "0-499"), (["-4", "-6", "URL"], "cannot be combined"),
        (["--connect-to", "a:b", "URL"], "HOST:PORT:HOST2:PORT2"), (["--retry-on", "200", "URL"], "from 400 to 599"),
        (["--wait", "5-2", "URL"], "or a range such as 2-5"),
    ])
    func `an option with a different meaning elsewhere is an error that suggests the right one`(
        _ arguments: [String], _ words: String
    ) async throws {
        let result = try await ToolProcess.run(
            ["get"] + arguments.map { $0.replacing("URL", with: bench.url("/file")) }, in: bench.scratch.url)
        #expect(result.status == 2 && result.errors.contains(words), "\(result.errors)")
        #expect(result.errorLines.count == 1 && bench.server.requests.isEmpty && bench.scratch.names.isEmpty)
    }

    @Test func `a version 3 Metalink is read as a list with mirrors and checksums`() async throws {
        let digest = try await ProcessRunner.digest(of: data, in: bench.scratch)
        for (name, hash, status) in [("good", digest, Int32(0)), ("bad", String(repeating: "0", count: 64), 9)] {
            try bench.scratch.write(
                """
                <metalink version="3.0" xmlns="http://www.metalinker.org/"><files><file name="\(name)">
                <verification><hash type="sha256">\(hash)</hash></verification><resources>
                <url type="bittorrent" preference="100">\(bench.url("/torrent"))</url>
                <url type="http" preference="90">\(bench.url("/file"))</url></resources></file></files></metalink>
                """, to: "old.metalink")
            let result = try await bench.get("--retry", "0", "-i", "old.metalink")
            #expect(result.status == status, "\(result.errors)")
        }
        #expect(try bench.scratch.data("good") == data && bench.server.requests("/torrent").isEmpty)
        #expect(!bench.scratch.names.contains("bad"))
    }

    @Test func `an HSTS file written by curl is honoured`() async throws {
        let file = "# Your HSTS cache. https://curl.se/docs/hsts.html\n.a.test \"29991231 23:59:59\"\n"
        try bench.scratch.write(file, to: "hsts")
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o600], ofItemAtPath: bench.scratch.url.appendingPathComponent("hsts").path)
        for (host, isUpgraded) in [("b.test", false), ("a.test", true), ("x.a.test", true)] {
            let result = try await bench.get(
                "-f", "--retry", "0", "--hsts", "hsts", "--connect-to", "::127.0.0.1:\(bench.server.port)",
                "http://\(host):\(bench.server.port)/file")
            #expect((result.status == 0) == !isUpgraded, "\(host): \(result.errors)")
        }
        #expect(bench.server.requests("/file").count == 1)
        #expect(try bench.scratch.text("hsts") == file)
    }

    @Test func `-4, -6, --noproxy and --limit-rate-each take effect`() async throws {
        let number = bench.url("/file"), port = bench.server.port
        #expect(try await bench.get("-f", "-4", "--retry", "0", number).status == 0)
        let other = try await bench.get("-f", "-6", "--retry", "0", number)
        #expect(
            other.status == 4 && other.errors.contains("has no IPv6 address") && bench.server.requests("/file").count == 1,
            "\(other.errors)")
        for (hosts, isDirect) in [("127.0.0.1", true), ("*", true), ("other.test", false)] {
            let result = try await ToolProcess.run(
                ["get", "-f", "--retry", "0", "--noproxy", hosts, number], in: bench.scratch.url,
                environment: ["http_proxy": "http://127.0.0.1:1", "no_proxy": "127.0.0.1"])
            #expect((result.status == 0) == isDirect, "\(hosts): \(result.errors)")
        }
        let begun = ContinuousClock.now
        let urls = [bench.url("/file"), bench.url("/second")]
        #expect(
            try await ToolProcess.run(["get", "-f", "--limit-rate-each", "3k"] + urls, in: bench.scratch.url).status == 0)
        // A short burst is not limited. Without any limit, the transfer would take no time.
        #expect(ContinuousClock.now - begun > .milliseconds(300), "\(port)")
    }

    @Test func `-r saves exactly the requested range, or fails`() async throws {
        let answers: [(String, String, Bool)] = [
            ("bytes 0-99/3000", "0-99", true), ("bytes 1-100/3000", "0-99", false), ("bytes 0-50/3000", "0-99", false),
            ("bytes 0-99/100", "0-500", true), ("bytes 2900-2999/3000", "-100", true), ("bytes 0-99/3000", "-100", false),
            ("x", "0-99", false), ("bytes 2900-2999/3000", "2900-", true), ("bytes 2900-2998/3000", "2900-", false),
        ]
        for (field, range, isGood) in answers {
            bench.server.route("/part", .bytes(Data(repeating: 1, count: 100), status: 206).header("Content-Range", field))
            let result = try await bench.get("-f", "--retry", "0", "-r", range, bench.url("/part"))
            #expect((result.status == 0) == isGood, "\(field) \(range): \(result.errors)")
            #expect(bench.scratch.names == (isGood ? ["part"] : []))
            try? FileManager.default.removeItem(at: bench.scratch.url.appendingPathComponent("part"))
        }
        bench.server.route("/part", .text("the whole"))
        let whole = try await bench.get("-r", "0-3", bench.url("/part"))
        #expect(whole.status == 7 && whole.errors.contains("it sent the whole file") && bench.scratch.names.isEmpty)
    }
}

extension ProcessRunner {
    /// Returns the SHA-256 digest of bytes, computed by the program `sha256sum`.
    fileprivate static func digest(of data: Data, in scratch: Scratch) async throws -> String {
        let file = scratch.url.appendingPathComponent(".run-digest")
        try data.write(to: file)
        let output = try ProcessRunner.run("sha256sum", [file.path]).text
        return String(output.prefix(64))
    }
}
