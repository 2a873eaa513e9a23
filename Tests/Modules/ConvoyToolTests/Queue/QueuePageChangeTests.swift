import ConvoySharedQueue
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTool

/// Searches and changes in the page of `convoy queue serve`, with a worker.
@Suite struct QueuePageChangeTests {
    @Test(arguments: QueueGround.Store.available)
    func `one entry is paused, resumed, cancelled and retried, and one that has ended cannot be cancelled`(
        _ store: QueueGround.Store
    ) async throws {
        let ground = try QueueGround(store), bench = ground.bench
        bench.server.route("/bad", .status(404))
        bench.server.route("/slow", .text("late").held(by: bench.gate))
        let (page, process) = try await QueuePage.start(ground)
        let failing = try await ground.add(bench.url("/bad")), slow = try await ground.add(bench.url("/slow"))
        let late = try await ground.add(bench.url("/late"), "--not-before", "1h")
        func buttons(_ id: UUID) async throws -> [String] {
            let text = try await page.text("/")
            let list = try await page.text("/entry?id=\(id.text)")
            let names = { (text: String) in
                text.matches(of: /<button id="([a-z]+)-([0-9a-f-]+)"/).filter { $0.2 == id.text }.map { String($0.1) }
            }
            #expect(names(text) == names(list))
            return names(text)
        }
        func state(_ id: UUID) async throws -> WorkState { try await ground.queue.entry(id).state }
        #expect(try await buttons(failing) == ["pause", "cancel"])
        #expect(try await buttons(late) == ["retry", "pause", "cancel"])
        #expect(try await page.submit("/entries?state=ready", "pause=\(failing.text)") == "./?state=ready")
        #expect(try await state(failing) == .paused)
        #expect(try await buttons(failing) == ["resume", "cancel"])
        #expect(
            try await page.submit("/entries?entry=\(failing.text)", "resume=\(failing.text)") == "entry?id=\(failing.text)")
        #expect(try await state(failing) == .ready)
        let worker = try ground.start("work")
        try await waitUntil("the ends") {
            let states = [try await state(failing), try await state(slow)]
            return states == [.failed, .leased]
        }
        #expect(try await buttons(failing) == ["retry"])
        #expect(try await buttons(slow) == ["pause", "cancel"])
        // A page that was loaded before the end still has the button.
        _ = try await page.submit("/entries", "cancel=\(failing.text)")
        #expect(try await state(failing) == .failed)
        _ = try await page.submit("/entries", "pause=\(slow.text)")
        #expect(try await state(slow) == .paused)
        bench.gate.open()
        bench.server.route("/bad", .text("good"))
        for id in [failing, late] { _ = try await page.submit("/entries", "retry=\(id.text)") }
        _ = try await page.submit("/entries", "resume=\(slow.text)")
        bench.server.route("/late", .text("late"))
        try await waitUntil("all to be done") {
            let states = [try await state(failing), try await state(slow)]
            return states == [.done, .done]
        }
        #expect(try await buttons(slow).isEmpty)
        for process in [worker, process] {
            process.send(signal: SIGINT)
            _ = try await process.finished()
        }
    }

    @Test(arguments: QueueGround.Store.available)
    func `changes to many entries must be confirmed, with their number`(_ store: QueueGround.Store) async throws {
        let ground = try QueueGround(store)
        try await ground.fill(250, tag: "a")
        try await ground.fill(30, tag: "b", path: "/other")
        let (page, process) = try await QueuePage.start(ground)
        let list = try await page.text("/?state=ready&tag=a")
        #expect(list.contains(">Cancel all 250 …</a>") && list.contains(">Pause all 250 …</a>"))
        let link = try #require(list.firstMatch(of: /href="(confirm[^"]*action=cancel)"/)).1.replacing("&amp;", with: "&")
        let confirmation = try await page.text("/\(link)")
        #expect(confirmation.contains("<h1>Cancel 250 entries?</h1>") && confirmation.contains("<dd>a</dd>"))
        #expect(confirmation.contains(">Cancel 250 entries</button>"))
        // Without the confirmation, nothing changes.
        let place = try await page.submit("/entries?state=ready&tag=a", "cancel=all")
        #expect(place == "confirm?state=ready&tag=a&action=cancel")
        #expect(try await ground.queue.counts() == [.ready: 280])
        #expect(try await page.submit("/entries?state=ready&tag=a", "cancel=all&confirmed=yes") == "./?state=ready&tag=a")
        #expect(try await ground.queue.counts() == [.ready: 30, .cancelled: 250])
        // In a search, only the entries that were shown change.
        let found = try await page.text("/?state=ready&q=OTHER/1")
        let these = try #require(found.firstMatch(of: /href="(confirm[^"]*action=pause)">Pause these 11 …/)).1
        let asked = try await page.text("/\(these.replacing("&amp;", with: "&"))")
        #expect(asked.contains("<h1>Pause 11 entries?</h1>") && asked.contains("<dt>search</dt><dd>OTHER/1</dd>"))
        let action = try #require(asked.firstMatch(of: /action="(entries[^"]*)"/)).1.replacing("&amp;", with: "&")
        #expect(try await page.submit("/\(action)", "pause=all&confirmed=yes") == "./?state=ready&q=OTHER%2F1")
        #expect(try await ground.queue.counts() == [.ready: 19, .paused: 11, .cancelled: 250])
        // The same change from several browsers takes effect once.
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<6 {
                group.addTask {
                    let place = try await page.submit("/entries?state=cancelled", "retry=all&confirmed=yes")
                    #expect(place == "./?state=cancelled")
                }
            }
            try await group.waitForAll()
        }
        #expect(try await ground.queue.counts() == [.ready: 269, .paused: 11])
        let none = try await page.text("/confirm?action=retry&state=ready")
        #expect(none.contains("<h1>Retry 0 entries?</h1>") && !none.contains("<button"))
        for path in ["/confirm?action=cancel&state=bogus", "/confirm?action=cancel&id=bogus"] {
            #expect(try await page.text(path).contains("<h1>Cancel 0 entries?</h1>"), "\(path)")
        }
        let untagged = try await page.text("/confirm?action=cancel&tag=")
        #expect(untagged.contains("<h1>Cancel 0 entries?</h1>") && untagged.contains("<dt>tag</dt><dd></dd>"))
        #expect(try await page.get("/confirm?action=purge", cookie: page.token).status == 404)
        process.send(signal: SIGINT)
        _ = try await process.finished()
    }

    @Test(arguments: QueueGround.Store.available)
    func `a search finds entries by URL, tag, group, key, error and id`(_ store: QueueGround.Store) async throws {
        let ground = try QueueGround(store), bench = ground.bench
        bench.server.route("/bad", .status(410))
        let ids = [
            try await ground.add(bench.url("/Films/100%25_new?x='y'")),
            try await ground.add(bench.url("/x"), "--tag", "Größe"),
            try await ground.add(bench.url("/y"), "--group", "nightly"),
            try await ground.add(bench.url("/z"), "--unique", "key!1"),
            try await ground.add(bench.url("/bad"), "--attempts", "1"),
        ]
        bench.server.route("*", .text("ok"))
        bench.server.route("/bad", .status(410))
        #expect(try await ground.work("--until-empty").status == 1)
        let (page, process) = try await QueuePage.start(ground)
        for (text, expected) in [
            ("films%2F", [0]), ("100%2525_", [0]), ("%25", [0]), ("_", [0]), ("'y'", [0]), ("Gr%C3%B6%C3%9Fe", [1]),
            ("NIGHT", [2]), ("key!1", [3]), ("%28410", [4]), ("!", [3]), (ids[1].text, [1]), ("nothing", []),
            ("http", [4, 3, 2, 1, 0]), ("%20%20", [4, 3, 2, 1, 0]),
        ] as [(String, [Int])] {
            let found = try await page.text("/?q=\(text)").matches(of: /id="link-([0-9a-f-]+)"/).map { String($0.1) }
            #expect(found == expected.map { ids[$0].text }, "\(text)")
        }
        let escaped = try await page.text("/?q=%22%3E%3Cscript%3E&state=done")
        #expect(escaped.contains("value=\"&quot;&gt;&lt;script&gt;\"") && escaped.contains("name=\"state\" value=\"done\""))
        process.send(signal: SIGINT)
        _ = try await process.finished()
    }

    @Test func `every control has a name of its own`() async throws {
        let ground = try QueueGround()
        let url = ground.bench.url("/same")
        for _ in 0..<3 { _ = try await ground.add(url, "--tag", "same") }
        _ = try await ground.queue("pause", "--host", "127.0.0.1:\(ground.bench.server.port)")
        for _ in 0..<3 { _ = try await ground.add(url, "--tag", "same") }
        _ = try await ground.queue("limit", "example.com", "--jobs", "1")
        let (page, process) = try await QueuePage.start(ground)
        for path in ["/", "/?state=paused&tag=same&q=same", "/confirm?action=resume&state=paused"] {
            let text = try await page.text(path)
            var names: [String] = []
            for match in text.matches(of: /<(a|button|input)\b([^>]*)>(?:([^<]*(?:<b>[^<]*<\/b>)?[^<]*)<\/(?:a|button)>)?/) {
                let attributes = String(match.2)
                if attributes.contains("type=\"hidden\"") { continue }
                #expect(attributes.contains("id=\""), "\(match.0)")
                let label = attributes.firstMatch(of: /aria-label="([^"]+)"/).map { String($0.1) }
                let shown = (match.3.map { String($0) } ?? "").replacing(/<[^>]*>/, with: "")
                names.append(label ?? shown)
                // The name contains what is shown, so that one can say it.
                if let label { #expect(label.hasPrefix(shown.replacing(" ×", with: "")), "\(label): \(shown)") }
            }
            #expect(names.count > 1 && !names.contains(""))
            #expect(Set(names).count == names.count, "\(names)")
            let ids = text.matches(of: /\bid="([^"]+)"/).map { String($0.1) }
            #expect(Set(ids).count == ids.count, "\(ids)")
        }
        process.send(signal: SIGINT)
        _ = try await process.finished()
    }

    @Test(arguments: QueueGround.Store.available)
    func `the page and the metrics show ages and durations by host`(_ store: QueueGround.Store) async throws {
        let ground = try QueueGround(store), bench = ground.bench, host = "127.0.0.1:\(bench.server.port)"
        bench.server.route("/quick", .text("ok"))
        bench.server.route("/slow", .text("ok").delayed(0.3))
        for path in ["/quick", "/quick", "/slow"] { _ = try await ground.add(bench.url(path)) }
        #expect(try await ground.work("--until-empty").status == 0)
        let durations = try #require(try await ground.queue.durations()[host])
        #expect(durations.count == 3 && durations.total >= 0.3 && durations.bound(ofShare: 1) ?? 0 >= 0.5)
        _ = try await ground.add(bench.url("/waits"))
        let (page, process) = try await QueuePage.start(ground)
        try await waitUntil("an age") {
            try await page.text("/").contains(/The oldest ready entry has waited for [1-9][0-9]* ms|[0-9.]+ s\./)
        }
        let text = try await page.text("/")
        #expect(text.contains(/<tr id="host-127.0.0.1:[0-9]+">.*mean [0-9.]+ m?s, 95% below [0-9.]+ m?s/))
        let metrics = try await page.get("/metrics").text
        let name = "convoy_queue_request_duration_seconds"
        #expect(metrics.contains("# TYPE \(name) histogram\n"))
        #expect(metrics.contains("\(name)_bucket{host=\"\(host)\",le=\"+Inf\"} 3\n\(name)_sum"))
        #expect(metrics.contains("\(name)_count{host=\"\(host)\"} 3\n"))
        let counts = metrics.matches(of: /_bucket\{[^}]*le="([^"]+)"\} ([0-9]+)/).compactMap { Int($0.2) }
        #expect(counts.count == RequestDurations.bounds.count + 1 && counts == counts.sorted())
        let age = try #require(metrics.firstMatch(of: /\nconvoy_queue_oldest_ready_seconds ([0-9.]+)\n/))
        #expect((Double(age.1) ?? 0) > 0)
        #expect(metrics.contains("convoy_queue_host_oldest_ready_seconds{host=\"\(host)\"} "))
        process.send(signal: SIGINT)
        _ = try await process.finished()
    }

    @Test func `text that a hostile program has written is escaped in the page and the metrics`() async throws {
        let ground = try QueueGround()
        _ = try await ground.queue.counts()
        let evil = "\"><script>x</script>\\\n{}"
        let store = WorkStore(try ground.queue.store.open())
        var item = WorkItem(id: UUID())
        (item.host, item.tag, item.url, item.batch, item.uniqueKey) = (evil, evil, evil, evil, evil)
        try store.enqueue([item])
        var durations = HostDurations()
        durations.add(1, host: evil)
        try store.record(durations)
        try store.setLimits(HostLimits(maximumConcurrentRequests: 1), host: evil)
        try store.register(UUID(), name: evil, jobs: 1, lasting: 60_000_000)
        let (page, process) = try await QueuePage.start(ground)
        for path in [
            "/", "/entry?id=\(item.id.text)", "/?q=script&tag=%22%3E%3Cscript%3E",
            "/confirm?action=retry&tag=%22%3E%3Cscript%3E",
        ] {
            let text = try await page.text(path)
            #expect(text.contains("<main>") && text.components(separatedBy: "<script").count == 2, "\(path)")
        }
        let metrics = try await page.get("/metrics").text
        #expect(metrics.contains("{host=\"\\\"><script>x</script>\\\\\\n{}\"} "))
        for line in metrics.split(separator: "\n") where !line.hasPrefix("#") {
            #expect(line.hasPrefix("convoy_") && line.last?.isNumber == true, "\(line)")
        }
        process.send(signal: SIGINT)
        _ = try await process.finished()
    }
}
