import ConvoySharedQueue
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// The command `convoy queue` on each store.
@Suite struct QueueCommandTests {
    @Test(arguments: QueueGround.Store.available)
    func `added requests run in dependency order and are listed`(_ store: QueueGround.Store) async throws {
        let ground = try QueueGround(store), bench = ground.bench
        bench.server.route("GET", "/first", .text("hello\u{1B}[2J"))
        bench.server.route("POST", "/second", .text("thanks"))
        let first = try await ground.add(bench.url("/first"), "--keep-body", "--tag", "code", "--priority", "low")
        let second = try await ground.add(bench.url("/second"), "--data", "body", "--after", first.text, "--group", "both")
        let listed = try await ground.queue("list").outputLines
        #expect(
            listed == [
                "\(first.text) ready     GET \(bench.url("/first")) [code]",
                "\(second.text) held      POST \(bench.url("/second"))",
            ])
        let done = try await ground.work("--until-empty")
        #expect(done.status == 0, "\(done.errors)")
        #expect(done.outputLines.last == "2 succeeded")
        #expect(bench.server.requests.map(\.path) == ["/first", "/second"])
        #expect(bench.server.requests.last?.body == Data("body".utf8))
        #expect(bench.server.requests.last?.headers["Idempotency-Key"] != nil)
        let shown = try await ground.queue("show", first.text)
        #expect(shown.output.contains("state:        done\n") && shown.output.contains("needed by:    \(second.text)\n"))
        #expect(shown.output.contains("hello?[2J") && !shown.output.contains("\u{1B}"))
        let object = try #require(try await ground.queue("show", "--json", second.text).objects().first)
        #expect(object["dependencies"] as? String == first.text && object["group"] as? String == "both")
        #expect(object["status"] as? Double == 200 && object["attempts"] as? Double == 1)
        let stats = try await ground.queue("stats")
        let expected = /done      2\n\n127\.0\.0\.1:[0-9]+: duration mean [0-9.]+ m?s, 95% below [0-9.]+ m?s\n/
        #expect(stats.output.wholeMatch(of: expected) != nil, "\(stats.output)")
        #expect(try await ground.queue("purge", "--all", "--older-than", "1d").output == "0 entries removed\n")
        #expect(try await ground.queue("purge", "--tag", "code").output == "1 entry removed\n")
        #expect(try await ground.queue("list").outputLines.count == 1)
    }

    @Test(arguments: QueueGround.Store.available)
    func `failed entries report the reason and can be retried, paused and cancelled`(_ store: QueueGround.Store) async throws
    {
        let ground = try QueueGround(store), bench = ground.bench
        bench.server.route("/flaky", inTurn: [.status(404), .text("at last")])
        let id = try await ground.add(bench.url("/flaky"))
        let failed = try await ground.work("--until-empty")
        #expect(failed.status == 1 && failed.errors.contains("404") && failed.errors.contains(id.text), "\(failed.errors)")
        let listed = try await ground.queue("list", "--state", "failed", "--json").objects()
        #expect(listed.count == 1 && (listed[0]["error"] as? String)?.contains("404") == true)
        #expect(listed[0]["status"] as? Double == 404)
        #expect(try await ground.queue("retry", "--state", "failed").output == "1 entry scheduled for retry\n")
        #expect(try await ground.queue("pause", id.text).output == "1 entry paused\n")
        #expect(try await ground.queue("pause", id.text).status == 1)
        #expect(try await ground.work("--until-empty").outputLines == ["0 succeeded"])
        #expect(try await ground.queue("resume", id.text).output == "1 entry resumed\n")
        #expect(try await ground.work("--until-empty").status == 0)
        let other = try await ground.add(bench.url("/flaky"))
        #expect(try await ground.queue("cancel", other.text).output == "1 entry cancelled\n")
        #expect(try await ground.queue("pause").output == "the queue is paused\n")
        #expect(try await ground.queue("stats").output.hasPrefix("The queue is paused.\n"))
        #expect(try await ground.queue("resume", "--json").output == "{\"action\":\"resume\",\"count\":null}\n")
    }

    @Test func `--unique prevents duplicate entries, and lists are paginated`() async throws {
        let ground = try QueueGround(), url = ground.bench.url("/x")
        let id = try await ground.add(url, "--unique", "k")
        #expect(
            try await ground.queue("add", url, "--unique", "k", "--json").output
                == "{\"id\":\"\(id.text)\",\"isNew\":false}\n")
        try await ground.fill(5, tag: "many")
        let page = try await ground.queue("list", "--tag", "many", "--limit", "2", "--newest")
        #expect(page.outputLines.count == 3 && page.output.contains("/none/4 [many]"), "\(page.output)")
        let place = try #require(page.outputLines.last?.split(separator: " ").last.map(String.init))
        let next = try await ground.queue("list", "--tag", "many", "--limit", "3", "--newest", "--behind", place)
        #expect(next.output.contains("/none/2") && next.output.contains("/none/0") && !next.output.contains("/none/3"))
    }

    @Test(arguments: QueueGround.Store.available)
    func `wait ends when its entries have ended`(_ store: QueueGround.Store) async throws {
        let ground = try QueueGround(store), bench = ground.bench
        bench.server.route("GET", "/good", .text("good"))
        bench.server.route("GET", "/bad", .status(404))
        let good = try await ground.add(bench.url("/good"), "--group", "g")
        let bad = try await ground.add(bench.url("/bad"), "--group", "g")
        let late = try await ground.queue("wait", good.text, "--within", "0.1")
        #expect(late.status == 6 && late.errors == "convoy: not all entries have ended after 0.1 s\n", "\(late.errors)")
        let waiting = try ToolProcess(
            ["queue", "wait", good.text] + ground.arguments, in: bench.scratch.url)
        #expect(try await ground.work("--until-empty").status == 1)
        let waited = try await waiting.finished()
        #expect(waited.status == 0 && waited.output.hasPrefix("\(good.text) done "), "\(waited.output)\(waited.errors)")
        let group = try await ground.queue("wait", "--group", "g")
        #expect(group.status == 1 && group.output == "done      1\nfailed    1\n", "\(group.output)")
        let both = try await ground.queue("wait", good.text, bad.text, "--json", "--within", "1m")
        #expect(both.status == 1)
        #expect(try both.objects().map { $0["state"] as? String } == ["done", "failed"])
    }

    @Test func `entries are rescheduled, and a unique key can apply for a period`() async throws {
        let ground = try QueueGround(), url = ground.bench.url("/x")
        let id = try await ground.add(url, "--not-before", "1h", "--unique", "k", "--unique-for", "1h")
        #expect(try await ground.add(url, "--unique", "k", "--unique-for", "1h") == id)
        #expect(try await ground.add(url, "--unique", "k", "--unique-for", "0") != id)
        #expect(try await ground.queue("list", "--state", "waiting").outputLines.count == 1)
        let moved = try await ground.queue("reschedule", id.text, "--not-before", "0")
        #expect(moved.output == "1 entry rescheduled\n", "\(moved.errors)")
        #expect(try await ground.queue("list", "--state", "ready").outputLines.count == 2)
        #expect(try await ground.queue("reschedule", "--all", "--not-before", "2h").output == "2 entries rescheduled\n")
    }

    @Test func `host limits are set individually and removed`() async throws {
        let ground = try QueueGround()
        #expect(try await ground.queue("limit", "*", "--jobs", "4").output == "all other hosts: 4 concurrent\n")
        #expect(try await ground.queue("limit", "example.com", "--rate", "0.5").output == "example.com: 0.5 per second\n")
        #expect(
            try await ground.queue("limit", "Example.COM", "--jobs", "2", "--retries", "0.1").output
                == "example.com: 2 concurrent, 0.5 per second, 0.1 retries per first attempt\n")
        #expect(try await ground.queue("limit", "*", "--jobs", "none").output == "all other hosts: no limits of its own\n")
        #expect(try await ground.queue.hosts().map(\.name) == ["example.com"])
    }

    @Test(arguments: ["./x.txt", "../x", "-", "."])
    func `a path is not taken for a URL`(_ text: String) async throws {
        let scratch = try Scratch()
        let result = try await ToolProcess.run(["queue", "add", "--store", "q", "--", text], in: scratch.url)
        #expect(result.status == 2 && result.errors.hasPrefix("convoy: invalid URL '\(text)'"), "\(result.errors)")
        #expect(scratch.names.isEmpty)
    }

    @Test(arguments: QueueGround.Store.available)
    func `tags have limits, and workers can be fair to them`(_ store: QueueGround.Store) async throws {
        let ground = try QueueGround(store), bench = ground.bench
        bench.server.route("GET", "/x", .text("ok"))
        #expect(try await ground.queue("limit", "--tag", "t", "--jobs", "2").output == "tag t: 2 concurrent\n")
        #expect(
            try await ground.queue("limit", "--tag", "t", "--rate", "100").output == "tag t: 2 concurrent, 100 per second\n")
        #expect(try await ground.queue("limit", "--tag", "", "--jobs", "3").output == "no tag: 3 concurrent\n")
        let stats = try await ground.queue("stats")
        #expect(
            stats.output == "no entries\n\nno tag: 3 concurrent\ntag t: 2 concurrent, 100 per second\n", "\(stats.output)")
        let json = try await ground.queue("stats", "--json").output
        #expect(json.contains(#"{"tag":"t","jobs":2,"rate":"100"}"#), "\(json)")
        for tag in ["t", "t", "u"] { _ = try await ground.add(bench.url("/x"), "--tag", tag) }
        let done = try await ground.work("--until-empty", "--fair", "--weight", "t=2.5")
        #expect(done.status == 0 && done.outputLines.last == "3 succeeded", "\(done.errors)")
        #expect(
            try await ground.queue("limit", "--tag", "t", "--jobs", "none", "--rate", "none").output
                == "tag t: no limits of its own\n")
        #expect(try await ground.queue.tagLimits().keys.sorted() == [""])
    }

    @Test func `secrets are masked, rejected or reported, and never stored`() async throws {
        let ground = try QueueGround()
        let login = try await ground.queue("add", "https://ada:hunter2@example.com/")
        #expect(login.status == 2 && login.errors.contains("would be stored") && !login.errors.contains("hunter2"))
        let query = try await ground.queue("add", "https://example.com/?api_key=hunter2")
        #expect(query.status == 2 && query.errors.contains("***") && !query.errors.contains("hunter2"), "\(query.errors)")
        let header = try await ground.queue("add", ground.bench.url("/in"), "-H", "Authorization: Bearer hunter2")
        #expect(header.status == 0)
        #expect(
            header.errors
                == "convoy: secrets are not stored: give Authorization to the workers with -H and --secrets-for\n")
        for name in ground.bench.scratch.names {
            #expect(try ground.bench.scratch.data(name).range(of: Data("hunter2".utf8)) == nil, "\(name)")
        }
    }

    private static let mistakes: [(words: [String], line: String)] = [
        (["queue"], "no action: \(actions)"), (["queue", "fly"], "unknown action 'fly': it must be \(actions)"),
        (["queue", "list"], "--store is required: a file, or postgresql://USER@HOST/NAME"),
        (["queue", "list", "--store", "mysql://x"], "--store takes a file, or postgresql://USER@HOST/NAME"),
        (["queue", "list", "--store", "q", "--schema", "x"], "--schema requires PostgreSQL"),
        (["queue", "list", "--store", "q", "--keep-body"], "queue list has no --keep-body"),
        (["queue", "list", "--store", "q", "x"], "unexpected argument 'x'"),
        (
            ["queue", "list", "--store", "q", "--state", "lost"],
            "--state takes waiting, held, ready, leased, retrying, done, failed, cancelled or paused"
        ),
        (["queue", "list", "--store", "q", "--limit", "0"], "--limit takes a whole number from 1 to 10000"),
        (["queue", "show", "--store", "q"], "no entry ID given"),
        (["queue", "show", "--store", "q", "x"], "'x' is not an entry ID: use an ID printed by queue list"),
        (["queue", "retry", "--store", "q"], "queue retry needs an id, a filter or --all"),
        (["queue", "purge", "--store", "q"], "queue purge needs an id, a filter or --all"),
        (["queue", "purge", "--store", "q", "--older-than", "x"], "--older-than takes a time such as 90, 10m, 2h or 7d"),
        (["queue", "reschedule", "--store", "q", "--all"], "queue reschedule needs --not-before"),
        (
            ["queue", "reschedule", "--store", "q", "--not-before", "1h"],
            "queue reschedule needs an id, a filter or --all"
        ),
        (["queue", "wait", "--store", "q"], "queue wait takes either entry IDs or --group"),
        (["queue", "wait", "--store", "q", "x"], "'x' is not an entry ID: use an ID printed by queue list"),
        (["queue", "add", "--store", "q", "--unique-for", "1h", "a.test"], "--unique-for requires --unique"),
        (["queue", "add", "--store", "q"], "no URL"),
        (["queue", "add", "--store", "q", "-o", "f", "a.test", "b.test"], "--output can be used with one URL only"),
        (
            ["queue", "add", "--store", "q", "-o", "f", "--keep-body", "a.test"],
            "--output and --keep-body cannot be combined"
        ),
        (["queue", "add", "--store", "q", "-o", "f", "--data", "x", "a.test"], "a download must be a GET without a body"),
        (
            ["queue", "add", "--store", "q", "--data", "x", "--body", "f", "a.test"],
            "--data and --body cannot be combined"
        ),
        (["queue", "add", "--store", "q", "--folder", "x", "a.test"], "--folder takes NAME=PATH"),
        (["queue", "add", "--store", "q", "--method", "a b", "a.test"], "--method takes a method such as PUT"),
        (
            ["queue", "add", "--store", "q", "--deadline", "soon", "a.test"],
            "--deadline takes a time from now such as 10m, 2h or 7d, or a date such as 2026-12-01T09:00:00Z"
        ),
        (["queue", "limit", "--store", "q"], "no host given; '*' sets the limits of all other hosts"),
        (["queue", "limit", "--store", "q", "*"], "no limit given: use --jobs, --rate or --retries"),
        (["queue", "limit", "--store", "q", "*", "--jobs", "0"], "--jobs takes a whole number of at least 1, or none"),
        (
            ["queue", "limit", "--store", "q", "a.test", "--tag", "t", "--jobs", "1"],
            "only one host or --tag can be given"
        ),
        (["queue", "limit", "--store", "q", "--tag", "t", "--retries", "1"], "--retries cannot be combined with --tag"),
        (
            ["queue", "limit", "--store", "q", "*.a.test", "--jobs", "1"],
            "invalid host '*.a.test': use a host, with its port if necessary"
        ),
        (
            ["queue", "cancel", "--store", "q", "--host", "a*.test"],
            "invalid host 'a*.test': use a host, with its port if necessary"
        ),
        (
            ["queue", "serve", "--store", "q", "--base-url", "//ops.example/"],
            "--base-url takes the URL of the page behind a proxy: https://ops.example.com/queue/"
        ),
        (["work", "--store", "q", "--weight", "t=2"], "--weight requires --fair"),
        (["work", "--store", "q", "--fair", "--weight", "t"], "--weight takes TAG=N, with N from 0.001 to 1000"),
        (["work", "--store", "q", "--fair", "--weight", "t=0"], "--weight takes TAG=N, with N from 0.001 to 1000"),
        (["work", "--store", "q", "x"], "unexpected argument 'x'"),
        (["work", "--store", "q", "--lease", "0"], "--lease takes from 1 to 86400 seconds"),
        (["work", "--store", "q", "--folder", "x"], "--folder takes NAME=DIR"),
        (["work", "--store", "q", "--per-second", "0"], "--per-second takes a number of requests"),
        (
            ["work", "--store", "q", "--metrics", "0.0.0.0:1"],
            "--metrics takes a port on this machine: 9187, or 127.0.0.1:9187"
        ),
        (["work", "--store", "q", "-u", "a:b"], "--user requires --secrets-for URL: a queue has URLs of many servers"),
        (
            ["work", "--store", "q", "-H", "Cookie: a=b"],
            "Cookie requires --secrets-for URL: a queue has URLs of many servers"
        ),
    ]

    private static let actions =
        "add, list, show, wait, stats, retry, cancel, pause, resume, reschedule, purge, limit, schedule or serve"

    @Test(arguments: mistakes)
    func `a usage error prints one line and exits with status 2`(_ words: [String], _ line: String) async throws {
        let scratch = try Scratch()
        let result = try await ToolProcess.run(words, in: scratch.url)
        #expect(result.status == 2 && result.output.isEmpty)
        #expect(result.errors == "convoy: \(line); try 'convoy \(words[0]) --help'\n")
    }

    @Test func `an unusable store and an unknown entry are rejected`() async throws {
        let ground = try QueueGround()
        let missing = try await ToolProcess.run(
            ["queue", "add", "--store", "nowhere/queue.sqlite", "a.test"], in: ground.bench.scratch.url)
        #expect(missing.status == 8 && missing.errors == "convoy: the directory nowhere does not exist\n")
        // A mistyped name does not create a queue.
        let typo = try await ToolProcess.run(["queue", "list", "--store", "typo"], in: ground.bench.scratch.url)
        #expect(typo.status == 8 && typo.errors == "convoy: the queue typo does not exist; queue add creates it\n")
        #expect(ground.bench.scratch.names.isEmpty)
        _ = try await ground.add(ground.bench.url("/x"))
        let id = UUID()
        let unknown = try await ground.queue("show", id.text)
        #expect(unknown.status == 1 && unknown.errors == "convoy: The queue has no entry \(id.text).\n")
        #if !Postgres
        let other = try await ToolProcess.run(["queue", "list", "--store", "postgresql://x"], in: ground.bench.scratch.url)
        #expect(other.status == 2 && other.errors.contains("--traits Postgres"))
        #endif
    }

    @Test func `times accept seconds, minutes, hours and days`() {
        #expect(["90", "1.5m", "2h", "7d", "3s"].map(QueueTime.seconds) == [90, 90, 7200, 604_800, 3])
        #expect(["", "m", "-1", "1w", "1e3", "x", "9999999999d"].allSatisfy { QueueTime.seconds($0) == nil })
    }
}
