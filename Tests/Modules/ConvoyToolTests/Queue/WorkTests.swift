import ConvoySharedQueue
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// The command `convoy work`.
@Suite struct WorkTests {
    @Test(arguments: QueueGround.Store.available)
    func `the first signal drains the worker, which exits successfully`(_ store: QueueGround.Store) async throws {
        let ground = try QueueGround(store), bench = ground.bench
        bench.server.route("GET", "/slow", .text("late").held(by: bench.gate))
        for _ in 0..<4 { _ = try await ground.add(bench.url("/slow")) }
        let worker = try ground.start("work", "--jobs", "1")
        try await waitUntil("the request") { bench.server.requests.count == 1 }
        worker.send(signal: SIGTERM)
        try await worker.waitForOutput("stopping after")
        bench.gate.open()
        let result = try await worker.finished()
        // Entries that were claimed in advance are returned to the queue, and do not count as failures.
        #expect(result.status == 0 && result.errors.isEmpty, "\(result.errors)")
        #expect(result.outputLines.last?.hasPrefix("1 succeeded") == true, "\(result.output)")
        #expect(try await ground.queue.counts() == [.done: 1, .ready: 3])
        #expect(bench.server.requests.count == 1)
    }

    @Test func `a second signal returns running entries to the queue`() async throws {
        let ground = try QueueGround(), bench = ground.bench
        bench.server.route("GET", "/slow", .text("late").held(by: bench.gate))
        let id = try await ground.add(bench.url("/slow"))
        let worker = try ground.start("work")
        try await waitUntil("the request") { bench.server.requests.count == 1 }
        worker.send(signal: SIGTERM)
        try await worker.waitForOutput("stopping after")
        worker.send(signal: SIGINT)
        let result = try await worker.finished()
        #expect(result.status == 0 && result.outputLines.last == "0 succeeded, 1 returned to the queue", "\(result)")
        #expect(result.errors.isEmpty, "\(result.errors)")
        #expect(try await ground.queue.entry(id).state == .ready)
    }

    @Test func `--until-empty reports that it waits for a paused queue`() async throws {
        let ground = try QueueGround()
        ground.bench.server.route("/x", .text("x"))
        _ = try await ground.add(ground.bench.url("/x"))
        #expect(try await ground.queue("pause").status == 0)
        let worker = try ground.start("work", "--until-empty")
        try await waitUntil("the message") { try worker.errors().contains("the queue is paused") }
        #expect(try await ground.queue("resume").status == 0)
        let result = try await worker.finished()
        #expect(result.status == 0 && result.errors.split(separator: "\n").count == 1, "\(result.errors)")
    }

    @Test func `secrets are sent only to their own servers, and other headers to all servers`() async throws {
        let ground = try QueueGround(), bench = ground.bench
        let other = try TestServer()
        for server in [bench.server, other] { server.route("/in", .text("in")) }
        _ = try await ground.add(bench.url("/in"), "-H", "Authorization: Bearer old", "-H", "X-Kind: own")
        _ = try await ground.add(other.url("/in").absoluteString)
        let result = try await ground.work(
            "--until-empty", "-H", "Authorization: Bearer new", "-H", "X-Kind: all", "--secrets-for", bench.url("/"))
        #expect(result.status == 0, "\(result.errors)")
        #expect(bench.server.requests.map { $0.headers["Authorization"] } == ["Bearer new"])
        #expect(bench.server.requests.map { $0.headers["X-Kind"] } == ["own"])
        #expect(other.requests.map { $0.headers["Authorization"] } == [nil])
        #expect(other.requests.map { $0.headers["X-Kind"] } == ["all"])
    }

    @Test func `downloads and bodies are written to files, bodies only in the worker's folders`() async throws {
        let ground = try QueueGround(), bench = ground.bench
        bench.server.route("/file", .text("contents"))
        _ = try await ground.add(bench.url("/file"), "-o", "one")
        _ = try await ground.add(bench.url("/file"), "--folder", "pages=a/two", "--tag", "page")
        _ = try await ground.add(bench.url("/file"), "--tag", "other")
        let result = try await ground.work(
            "--until-empty", "--tag", "", "--tag", "page", "--folder", "pages=pages", "--json", "--per-host", "2")
        #expect(result.status == 0, "\(result.errors)")
        #expect(try bench.scratch.text("one") == "contents" && bench.scratch.text("pages/a/two") == "contents")
        let objects = try result.objects()
        #expect(objects.count == 2 && objects.allSatisfy { $0["status"] as? Double == 200 && $0["attempt"] as? Double == 1 })
        #expect(try await ground.queue.counts()[.ready] == 1)
        #expect(try await ground.queue.hosts().map(\.limits.maximumConcurrentRequests) == [2])
    }

    @Test func `Prometheus metrics are served for host names of this machine only`() async throws {
        let ground = try QueueGround(), port = try LoopbackPort.free()
        ground.bench.server.route("/x", .text("x"))
        _ = try await ground.add(ground.bench.url("/x"))
        let worker = try ground.start("work", "--metrics", "127.0.0.1:\(port)")
        try await worker.waitForOutput("metrics: http://127.0.0.1:\(port)/metrics")
        let page = QueuePage(port: port)
        try await waitUntil("a success") {
            try await page.get("/metrics").text.contains("convoy_worker_attempts_total{outcome=\"succeeded\"} 1\n")
        }
        try await waitUntil("an end") {
            try await page.get("/metrics").text.contains("convoy_queue_entries{state=\"done\"} 1\n")
        }
        let text = try await page.get("/metrics").text
        #expect(text.contains("# TYPE convoy_worker_claimed_total counter\nconvoy_worker_claimed_total 1\n"))
        #expect(text.contains("convoy_worker_running 0\n"))
        #expect(text.contains("convoy_queue_up 1\n"))
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            #expect(line.wholeMatch(of: /[a-z_]+(\{[a-z]+="[^"]+"(,le="[^"]+")?\})? [0-9.]+/) != nil, "\(line)")
        }
        #expect(try await page.get("/metrics", host: "evil.example").status == 403)
        #expect(try await page.get("/").status == 404)
        worker.send(signal: SIGINT)
        #expect(try await worker.finished().status == 0)
    }
}
