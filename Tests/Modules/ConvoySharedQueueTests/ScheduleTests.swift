import ConvoyDownloads
import ConvoyOperations
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySharedQueue

/// Periodic entries, in both stores.
@Suite struct ScheduleTests {
    private typealias Recurrence = SharedQueue.Recurrence
    private static let minute: Int64 = 60_000_000

    // MARK: Occurrences

    @Test(arguments: [
        (0, 0, SharedQueue.MissedOccurrences.once, [0], 10), (0, 9, .once, [0], 10), (0, 10, .once, [10], 20),
        (0, 1005, .once, [1000], 1010), (5, 4, .all, [], 5),
        (0, 35, .all, [0, 10, 20, 30], 40), (0, 10, .skip, [10], 20),
    ])
    func `due occurrences follow the policy`(
        _ first: Int, _ now: Int, _ missed: SharedQueue.MissedOccurrences, _ occurrences: [Int], _ next: Int
    ) {
        func time(_ minutes: Int) -> Int64 { Int64(minutes) * Self.minute }
        let due = Recurrence.every(600).due(from: time(first), now: time(now), missed: missed)
        #expect(due.occurrences == occurrences.map(time) && due.next == time(next))
    }

    @Test func `an occurrence is skipped if it is more than a minute late`() throws {
        let day: Int64 = 86_400_000_000, nightly = Recurrence.cron(try CronExpression("0 0 * * *"), in: .gmt)
        for (late, isSkipped) in [(0, false), (Self.minute, false), (Self.minute + 1, true), (day / 2, true)] {
            let due = nightly.due(from: 3 * day, now: 5 * day + late, missed: .skip)
            #expect(due.occurrences == (isSkipped ? [] : [5 * day]) && due.next == 6 * day, "\(late)")
        }
        #expect(nightly.due(from: 3 * day, now: 5 * day + day / 2, missed: .once).occurrences == [5 * day])
        #expect(nightly.due(from: 3 * day, now: 5 * day + 1, missed: .all).occurrences == [3 * day, 4 * day, 5 * day])
        let years = try #require(Int64(exactly: 20 * 366))
        let minutely = Recurrence.cron(try CronExpression("* * * * *"), in: .gmt)
        #expect(minutely.due(from: 0, now: years * day + 5, missed: .once).occurrences == [years * day])
        let all = minutely.due(from: 0, now: years * day, missed: .all)
        #expect(all.occurrences.count == 1000 && all.next == 1000 * Self.minute)
    }

    @Test func `extreme times do not trap`() throws {
        for recurrence in [Recurrence.every(1), .every(1e300), .every(.nan), .cron(try CronExpression("@daily"), in: .gmt)] {
            for missed in SharedQueue.MissedOccurrences.allCases {
                for (first, now) in [(Int64.max, Int64.max), (.min, .min), (.max - 1, .max)] {
                    _ = recurrence.due(from: first, now: now, missed: missed)
                }
            }
        }
    }

    // MARK: The store

    private func due(_ store: WorkStore, since microseconds: Int64 = 0) throws {
        _ = try store.database.query(
            "UPDATE schedule SET next = \(store.dialect.wall) - $1", [.integer(microseconds)])
    }

    @Test(arguments: StoreKind.available) func `one of several workers enqueues an occurrence`(
        _ kind: StoreKind
    ) async throws {
        let test = try TestStore(kind), store = try test.open()
        var item = WorkItem.plain(host: "a.example", tag: "t") { item in
            (item.batch, item.priority, item.body, item.timeLimit) = ("g", 4, [1, 2, 3], 3_600_000_000)
        }
        (item.standing.maximumAttempts, item.standing.kept) = (7, 5_000_000)
        try store.schedule("every", .every(3600), .once, item)
        #expect(try #require(try store.maintain()) > 3_590_000_000)
        #expect(try store.counts().isEmpty)
        for round in 1...5 {
            try due(store)
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<6 {
                    group.addTask { #expect(throws: Never.self) { _ = try test.open().maintain() } }
                }
            }
            #expect(try store.counts() == [.ready: round])
        }
        let records = try store.list(WorkFilter(), limit: 10), record = records[0], standing = record.standing
        #expect(Set(records.map(\.id)).count == 5 && !records.map(\.id).contains(item.id))
        #expect((record.host, record.tag, record.batch, record.priority) == ("a.example", "t", "g", 4))
        #expect((standing.maximumAttempts, standing.kept) == (7, 5_000_000))
        #expect(try #require(standing.deadline) > record.enqueued + 3_500_000_000)
        let worker = try store.worker()
        #expect(try store.claim(worker: worker, limit: 1, tags: nil).entries.first?.body == [1, 2, 3])
    }

    @Test(arguments: StoreKind.available) func `missed occurrences are enqueued by policy`(_ kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        for (missed, count) in [(SharedQueue.MissedOccurrences.skip, 0), (.once, 1), (.all, 4)] {
            try store.schedule("s", .every(600), missed, .plain())
            try due(store, since: 35 * Self.minute)
            try store.maintain()
            #expect(try store.counts()[.ready] ?? 0 == count, "\(missed)")
            let schedule = try #require(try store.schedules().first)
            let now = try store.database.query("SELECT \(store.dialect.wall)", [])[0].integer(0) ?? 0
            #expect((0...10 * Self.minute).contains(schedule.next - now) && schedule.missed == missed)
            #expect(schedule.last.map { now - $0 < 7 * Self.minute } ?? (missed == .skip))
            #expect(try store.unschedule("s"))
            _ = try store.purge(try cancelled(store), olderThan: 0)
        }
    }

    private func cancelled(_ store: WorkStore) throws -> WorkFilter {
        _ = try store.apply(.cancel, to: WorkFilter())
        return WorkFilter()
    }

    @Test(arguments: StoreKind.available)
    func `scheduling again keeps the next occurrence, unless the times change`(_ kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        let zone = try #require(TimeZone(identifier: "Europe/Berlin"))
        let daily = Recurrence.cron(try CronExpression("30 4 * * *"), in: zone)
        func next() throws -> Int64 { try #require(try store.schedules().first).next }
        for recurrence in [Recurrence.every(600), daily] {
            try store.schedule("s", recurrence, .once, .plain(host: "old"))
            _ = try store.database.query("UPDATE schedule SET next = 12345, last = 7", [])
            try store.schedule("s", recurrence, .all, .plain(host: "new"))
            #expect(try next() == 12345)
            let schedule = try #require(try store.schedules().first)
            #expect((schedule.recurrence, schedule.missed, schedule.template.host) == (recurrence, .all, "new"))
            #expect(schedule.last == 7)
            try store.schedule("s", .every(601), .once, .plain())
            #expect(try next() > 12345)
        }
        #expect(try store.schedules().count == 1)
        #expect(try store.unschedule("s") && !store.unschedule("s"))
    }

    @Test(arguments: StoreKind.available) func `a schedule of a later version is left alone`(_ kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        for name in ["bad zone", "bad times", "bad policy", "good"] {
            try store.schedule(name, .every(600), .once, .plain())
        }
        try due(store)
        let changes = [
            "cron = '@daily', zone = 'Moon/Base', period = NULL WHERE name = 'bad zone'",
            "period = NULL WHERE name = 'bad times'", "missed = 'perhaps' WHERE name = 'bad policy'",
        ]
        for change in changes { _ = try store.database.query("UPDATE schedule SET \(change)", []) }
        #expect(try #require(try store.maintain()) >= 900_000)
        #expect(try store.counts() == [.ready: 1])
        #expect(try store.schedules().map(\.name) == ["good"])
    }

    // MARK: The queue

    @Test(arguments: StoreKind.available, [false, true])
    func `each occurrence is another request with its own key`(_ kind: StoreKind, _ givesKey: Bool) async throws {
        let test = try TestStore(kind), server = try TestServer()
        server.route("POST", "/report", .text("ok"))
        let queue = SharedQueue(store: test.store)
        var request = URLRequest(url: server.url("/report"))
        request.httpMethod = "POST"
        if givesKey {
            request.httpBody = Data("x".utf8)
            request.setValue("mine", forHTTPHeaderField: "Idempotency-Key")
        }
        let outbox = OutboxRequest(request, body: .data(Data("x".utf8)))
        let report = givesKey ? SharedRequest(request) : SharedRequest(outbox)
        try await queue.schedule("report", .every(1), request: report)
        let worker = SharedQueueWorker(queue: queue, manager: HTTPRequestOperationManager(baseURL: nil))
        async let running: Void = worker.run()
        try await waitUntil("two requests") { server.requests.count >= 2 }
        worker.stop()
        try await running
        let keys = server.requests.compactMap { $0.headers["Idempotency-Key"] }
        #expect(keys.count == server.requests.count && Set(keys).count == keys.count)
        #expect(server.requests.allSatisfy { $0.body == Data("x".utf8) })
        let schedule = try #require(try await queue.schedules().first)
        #expect((schedule.name, schedule.recurrence, schedule.method) == ("report", .every(1), "POST"))
        #expect(schedule.last != nil && schedule.url == server.url("/report").absoluteString)
    }

    @Test func `an unsuitable schedule is an error`() async throws {
        let test = try TestStore(.sqlite), queue = SharedQueue(store: test.store)
        var plain = SharedRequest(URLRequest(url: try #require(URL(string: "http://a.example/"))))
        for seconds in [0, 0.9, -1, .nan, .infinity] {
            await #expect(throws: SharedQueueError.self) { try await queue.schedule("a", .every(seconds), request: plain) }
        }
        for name in ["", "a\nb", String(repeating: "a", count: 801)] {
            await #expect(throws: SharedQueueError.self) { try await queue.schedule(name, .every(1), request: plain) }
        }
        plain.notBefore = Date()
        await #expect(throws: SharedQueueError.self) { try await queue.schedule("a", .every(1), request: plain) }
        (plain.notBefore, plain.dependencies) = (nil, [UUID()])
        await #expect(throws: SharedQueueError.self) { try await queue.schedule("a", .every(1), request: plain) }
        #expect(try await queue.schedules().isEmpty)
    }
}
