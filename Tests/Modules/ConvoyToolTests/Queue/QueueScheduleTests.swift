import ConvoySharedQueue
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// `convoy queue schedule`, on each store.
@Suite struct QueueScheduleTests {
    @Test(arguments: QueueGround.Store.available)
    func `a periodic request is added, listed, run and removed`(_ store: QueueGround.Store) async throws {
        let ground = try QueueGround(store), bench = ground.bench
        bench.server.route("GET", "/file", inTurn: [.text("first"), .text("second"), .text("third")])
        let nightly = try await ground.queue(
            "schedule", "add", "nightly", bench.url("/none"), "--cron", "30 4 * * 1-5", "--time-zone", "Europe/Berlin",
            "--tag", "t", "--missed", "skip")
        let line = "nightly: GET \(bench.url("/none")) [t], 30 4 * * 1-5 in Europe/Berlin, next "
        #expect(nightly.status == 0 && nightly.output.hasPrefix(line), "\(nightly.output)\(nightly.errors)")
        let frequent = try await ground.queue(
            "schedule", "add", "frequent", bench.url("/file"), "--every", "1", "-o", "file")
        #expect(frequent.status == 0, "\(frequent.errors)")
        let worker = try ground.start("work")
        try await waitUntil("the second file") {
            let file = bench.scratch.url.appendingPathComponent("file")
            return (try? String(contentsOf: file, encoding: .utf8)) == "second" || bench.server.requests.count > 2
        }
        worker.send(signal: SIGTERM)
        #expect(try await worker.finished().status == 0)
        let listed = try await ground.queue("schedule", "list", "--json").objects()
        #expect(listed.map { $0["name"] as? String } == ["frequent", "nightly"])
        #expect(listed[0]["every"] as? Double == 1 && listed[0]["last"] is String)
        #expect(listed[1]["cron"] as? String == "30 4 * * 1-5" && listed[1]["timeZone"] as? String == "Europe/Berlin")
        #expect(listed[1]["missed"] as? String == "skip" && listed[1]["last"] == nil)
        #expect(try await ground.queue("schedule", "remove", "frequent").status == 0)
        let again = try await ground.queue("schedule", "remove", "frequent", "nightly")
        #expect(again.status == 1 && again.errors == "convoy: there is no schedule frequent\n")
        #expect(try await ground.queue("schedule", "list").output.isEmpty)
    }

    private static let mistakes: [(words: [String], line: String)] = [
        ([], "queue schedule takes add, list or remove"), (["fly"], "queue schedule takes add, list or remove"),
        (["add", "a"], "queue schedule add takes a NAME and a URL"), (["list", "x"], "unexpected argument 'x'"),
        (["add", "a", "a.test"], "queue schedule add needs either --cron or --every"),
        (["add", "a", "a.test", "--cron", "@daily", "--every", "1"], "queue schedule add needs either --cron or --every"),
        (["add", "a", "a.test", "--every", "0"], "--every takes a time of at least one second: 90, 10m, 2h or 7d"),
        (["add", "a", "a.test", "--every", "1", "--time-zone", "UTC"], "--time-zone requires --cron"),
        (
            ["add", "a", "a.test", "--cron", "@daily", "--time-zone", "Moon/Base"],
            "unknown --time-zone 'Moon/Base': use a name such as Europe/Berlin"
        ),
        (["add", "a", "a.test", "--every", "1", "--missed", "x"], "--missed takes skip, once or all"),
        (["add", "a", "a.test", "--every", "1", "--not-before", "1h"], "queue schedule has no --not-before"),
        (["remove"], "no name given"), (["remove", "a", "--cron", "@daily"], "queue schedule remove has no --cron"),
        (["list", "--data", "x"], "queue schedule list has no --data"),
    ]

    @Test(arguments: mistakes)
    func `a usage error prints one line and exits with status 2`(_ words: [String], _ line: String) async throws {
        let scratch = try Scratch()
        let result = try await ToolProcess.run(["queue", "schedule", "--store", "q"] + words, in: scratch.url)
        #expect(result.status == 2 && result.output.isEmpty)
        #expect(result.errors == "convoy: \(line); try 'convoy queue --help'\n")
    }

    @Test func `a malformed expression is reported`() async throws {
        let result = try await ToolProcess.run(
            ["queue", "schedule", "--store", "q", "add", "a", "a.test", "--cron", "61 * * * *"], in: try Scratch().url)
        #expect(result.status == 2 && result.errors.contains("Invalid minute \"61\": use numbers from 0 to 59"))
    }
}
