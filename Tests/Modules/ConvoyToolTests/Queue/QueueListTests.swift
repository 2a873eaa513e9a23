import ConvoySharedQueue
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// Lists of `convoy queue add`.
@Suite struct QueueListTests {
    @Test(arguments: QueueGround.Store.available)
    func `each line is a request with its own options`(_ store: QueueGround.Store) async throws {
        let ground = try QueueGround(store), bench = ground.bench
        let first = try await ground.add(bench.url("/first"))
        try bench.scratch.write(
            """
            # A comment
            \(bench.url("/plain"))

            \(bench.url("/all"))
              tag=own
              group = g
              priority=high
              attempts=3
              timeout=7
              deadline=2h
              not-before=1h
              after=\(first.text)
              failed-dependency=run
              unique=k
              unique-for=1h
              method=PUT
              data=a=b
              header=X-One: 1
              header=X-Two: 2
            \(bench.url("/file"))
              out=sub/file
            """, to: "list")
        let added = try await ground.queue("add", "-i", "list", "--tag", "all", "-H", "X-All: 0", bench.url("/argument"))
        #expect(added.status == 0 && added.outputLines.count == 4, "\(added.errors)")
        let entries = try await ground.queue.entries()
        #expect(entries.map(\.id.text).dropFirst() == added.outputLines[...])
        #expect(entries.map { URL(string: $0.url)?.path } == ["/first", "/argument", "/plain", "/all", "/file"])
        #expect(entries.map(\.tag) == [nil, "all", "all", "own", "all"])
        let all = entries[3]
        #expect((all.method, all.group, all.priority, all.maximumAttempts, all.uniqueKey) == ("PUT", "g", 4, 3, "k"))
        #expect(all.state == .held && all.deadline.map { abs($0.timeIntervalSinceNow - 7200) < 600 } == true)
        #expect(try await ground.queue.dependencies(of: all.id).dependencies == [first])
        #expect(entries[4].kind == .download)
        bench.server.route("/", .text("fine"))
        for path in ["/first", "/argument", "/plain", "/file"] { bench.server.route("GET", path, .text(path)) }
        bench.server.route("PUT", "/all", .text("ok"))
        try bench.scratch.makeDirectory("sub")
        _ = try await ground.queue("reschedule", "--all", "--not-before", "0")
        #expect(try await ground.work("--until-empty").status == 0)
        #expect(try bench.scratch.text("sub/file") == "/file")
        let put = try #require(bench.server.requests("PUT", "/all").first)
        #expect(put.body == Data("a=b".utf8))
        #expect(["X-All", "X-One", "X-Two"].map { put.headers[$0] } == ["0", "1", "2"])
    }

    @Test func `requests of a pipe are added as they arrive`() async throws {
        let ground = try QueueGround(), bench = ground.bench
        let lines =
            "echo \(bench.url("/1")); \(ToolProcess.shellWait(for: "[ -s out ]")); echo \(bench.url("/2")); echo http://["
        let result = try await ToolProcess.run(
            command: "(\(lines)) | $convoy queue add --store queue.sqlite -i - >out", in: bench.scratch.url)
        #expect(result.status == 2 && result.errors.contains("standard input:3: "), "\(result.errors)")
        #expect(result.errors.contains("2 entries added before the failure"))
        let ids = try await ground.queue.entries().map { "\($0.id.text)\n" }
        #expect(try ids.count == 2 && bench.scratch.text("out") == ids.joined())
    }

    @Test func `a mistake in a list is reported with its line, and nothing is added`() async throws {
        let ground = try QueueGround(), url = ground.bench.url("/x")
        for (lines, message) in [
            ("\(url)\nhttp://[", "list:2: "),
            ("\(url)\n colour=red", "list:2: unknown option 'colour'; the options are out, dir, "),
            ("\(url)\n tag", "list:2: the option 'tag' has no value"), ("\(url)\n priority=top", "list:1: --priority takes"),
            ("\(url)\n out=../x", "list:2: invalid out '../x'"), ("\(url)\n attempts=0", "list:1: --attempts takes"),
            ("\(url)\n timeout=0", "list:1: --timeout takes more than 0 seconds"),
            (" tag=x\n\(url)", "list:1: an option without"),
            ("\(url)\n unique-for=1h", "list:1: --unique-for requires --unique"),
            ("\(url)\n failed-dependency=no", "list:1: --failed-dependency takes hold, run or fail"),
            ("http://ada:x@a.example/", "list:1: "), ("\(url)\n\(url)?token=abcdefgh", "list:2: The URL"),
        ] {
            try ground.bench.scratch.write(lines, to: "list")
            let result = try await ground.queue("add", "-i", "list")
            #expect(result.status == 2 && result.errors.contains(message), "\(lines): \(result.errors)")
        }
        #expect(!ground.bench.scratch.names.contains("queue.sqlite"))
        let missing = try await ground.queue("add", "-i", "none")
        #expect(missing.status == 2 && missing.errors.contains("cannot read --input-file none"))
        let twice = try await ground.queue("add", "-i", "-", "--body", "-")
        #expect(twice.status == 2 && twice.errors.contains("standard input can be read only once"))
        let unique = try await ground.queue("add", "-i", "list", "--unique", "k")
        #expect(unique.status == 2 && unique.errors.contains("--unique can be used with one URL only, or in a list"))
    }

    @Test func `a long list is added completely and in order`() async throws {
        let ground = try QueueGround(), count = 3500
        let list = (0..<count).map { "http://a.example/\($0)\n" }.joined()
        try ground.bench.scratch.write(list, to: "list")
        let result = try await ground.queue("add", "-q", "-i", "list")
        #expect(result.status == 0 && result.output.isEmpty, "\(result.errors)")
        let entries = try await ground.queue.entries(limit: 10_000)
        #expect(entries.map(\.url) == (0..<count).map { "http://a.example/\($0)" })
    }
}
