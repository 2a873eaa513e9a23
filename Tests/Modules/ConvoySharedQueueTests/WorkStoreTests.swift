import ConvoyDownloads
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySharedQueue

/// The behaviour of both stores.
@Suite struct WorkStoreTests {
    @Test("entries are claimed once, in the order of their priority and age", arguments: StoreKind.available)
    func order(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        let low = WorkItem.plain { $0.priority = -4 }, first = WorkItem.plain(), second = WorkItem.plain()
        let high = WorkItem.plain { $0.priority = 4 }
        let ids = try store.enqueue([low, first, second, high])
        #expect(ids == [low.id, first.id, second.id, high.id])
        let worker = try store.worker()
        let claimed = try store.claim(worker: worker, limit: 2, tags: nil).entries.map(\.id)
        #expect(claimed == [high.id, first.id])
        #expect(try store.claim(worker: worker, limit: 10, tags: nil).entries.map(\.id) == [second.id, low.id])
        #expect(try store.claim(worker: worker, limit: 10, tags: nil).entries.isEmpty)
    }

    @Test("a stored entry is restored unchanged", arguments: StoreKind.available)
    func contents(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        let item = WorkItem.plain(host: "exa\u{0301}mple.com:8080", tag: "täg \"x\" \\ '; --") { item in
            item.payload = #"{"a":"\u0001 𝄞 e\u0301"}"#
            item.body = Array(0...255)
            item.trace = "00-1-2-01"
            (item.method, item.batch, item.uniqueKey) = ("POST", "batch'\"\\", "key\u{1F600}")
        }
        try store.enqueue([item])
        let worker = try store.worker()
        let work = try #require(try store.claim(worker: worker, limit: 1, tags: [item.tag]).entries.first)
        #expect((work.payload, work.body, work.trace) == (item.payload, item.body, item.trace))
        #expect((work.method, work.host, work.tag, work.url) == ("POST", item.host, item.tag, item.url))
        let record = try #require(try store.list(WorkFilter(), limit: 10).first)
        #expect((record.batch, record.uniqueKey, record.host) == (item.batch, item.uniqueKey, item.host))
        var report = WorkReport(work, by: worker, .succeeded)
        var result = WorkResult()
        (result.head, result.digest, result.body, result.place) = ("a: b\nc: d", "sha-256=1", Array(0...255), "file:///x")
        (report.result, report.statusCode, report.size) = (result, 200, 256)
        #expect(try store.report([report]) == [report.id: .done])
        #expect(try store.result(of: item.id) == result)
        let standing = try #require(try store.standing(item.id))
        #expect((standing.state, standing.statusCode, standing.size) == (.done, 200, 256))
    }

    @Test("dependencies release, hold or fail entries, across transactions and within one", arguments: StoreKind.available)
    func dependencies(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        let first = WorkItem.plain()
        let next = WorkItem.plain(needs: [first.id])
        let held = WorkItem.plain(needs: [first.id, next.id])
        let failing = WorkItem.plain(needs: [next.id]) { $0.standing.policy = .fail }
        let afterFailing = WorkItem.plain(needs: [failing.id]) { $0.standing.policy = .fail }
        let running = WorkItem.plain(needs: [next.id, failing.id]) { $0.standing.policy = .run }
        try store.enqueue([running, afterFailing, failing, held, next, first])
        let worker = try store.worker()
        var claim = try store.claim(worker: worker, limit: 10, tags: nil).entries
        #expect(claim.map(\.id) == [first.id])
        _ = try store.report([WorkReport(claim[0], by: worker, .succeeded)])
        claim = try store.claim(worker: worker, limit: 10, tags: nil).entries
        #expect(claim.map(\.id) == [next.id])
        _ = try store.report([WorkReport(claim[0], by: worker, .failed)])
        #expect(try store.state(held.id) == .held)
        #expect(try store.state(failing.id) == .failed)
        #expect(try store.state(afterFailing.id) == .failed)
        #expect(try store.state(running.id) == .ready)
        let late = WorkItem.plain(needs: [next.id]) { $0.standing.policy = .fail }
        try store.enqueue([late])
        #expect(try store.state(late.id) == .failed)
        // The failed entry is retried and succeeds.
        var filter = WorkFilter()
        filter.ids = [next.id]
        #expect(try store.apply(.retry, to: filter) == 1)
        claim = try store.claim(worker: worker, limit: 10, tags: nil).entries.filter { $0.id == next.id }
        _ = try store.report([WorkReport(claim[0], by: worker, .succeeded)])
        #expect(try store.state(held.id) == .ready)
    }

    @Test(
        "a request that depends on itself, on an unknown entry or in a cycle is rejected together with all others",
        arguments: StoreKind.available)
    func wrongDependencies(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        let unknown = UUID(), item = WorkItem.plain(needs: [unknown])
        #expect(throws: SharedQueueError.unknownDependency(unknown, of: item.id)) { try store.enqueue([.plain(), item]) }
        var one = WorkItem.plain(), other = WorkItem.plain(needs: [one.id])
        one.dependencies = [other.id]
        #expect(throws: SharedQueueError.dependencyCycle(one.id)) { try store.enqueue([one, other]) }
        other.dependencies = [other.id]
        #expect(throws: SharedQueueError.dependencyCycle(other.id)) { try store.enqueue([other]) }
        let twice = WorkItem.plain()
        #expect(throws: SharedQueueError.duplicate(twice.id)) { try store.enqueue([twice, twice]) }
        #expect(try store.counts().isEmpty)
        try store.enqueue([twice])
        #expect(throws: SharedQueueError.duplicate(twice.id)) { try store.enqueue([.plain(), twice]) }
        #expect(try store.counts() == [.ready: 1])
    }

    @Test(
        "adding the same entries again changes nothing, even if one has the key of an older entry",
        arguments: StoreKind.available)
    func addingAgain(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        let older = WorkItem.plain { $0.uniqueKey = "key" }
        try store.enqueue([older])
        let items = [WorkItem.plain(), .plain { $0.uniqueKey = "key" }]
        for _ in 0..<2 { #expect(try store.enqueue(items) == [items[0].id, older.id]) }
        #expect(try store.counts() == [.ready: 2])
    }

    @Test("long bodies and results are stored in several statements", arguments: StoreKind.available)
    func longBodies(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open(), worker = try store.worker()
        store.longRows = 3000
        let bodies = (0..<7).map { [UInt8](repeating: $0, count: 500) }
        try store.enqueue(bodies.map { body in WorkItem.plain { $0.body = body } })
        let claimed = try store.claim(worker: worker, limit: 7, tags: nil).entries
        #expect(Set(claimed.map(\.body)) == Set(bodies))
        let reports = claimed.map { work in
            var report = WorkReport(work, by: worker, .succeeded)
            report.result = WorkResult()
            report.result?.body = work.body
            return report
        }
        #expect(try store.report(reports).count == 7)
        for work in claimed { #expect(try store.result(of: work.id)?.body == work.body) }
    }

    @Test("an entry that waits for the retry of a removed dependency fails", arguments: StoreKind.available)
    func removedDependency(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open(), worker = try store.worker()
        let bad = WorkItem.plain { $0.host = "bad" }, good = WorkItem.plain { $0.host = "good" }
        let held = WorkItem.plain(needs: [bad.id]), last = WorkItem.plain(needs: [held.id])
        let other = WorkItem.plain(needs: [good.id])
        try store.enqueue([bad, good, held, last, other])
        for work in try store.claim(worker: worker, limit: 5, tags: nil).entries {
            _ = try store.report([WorkReport(work, by: worker, work.id == bad.id ? .failed : .succeeded)])
        }
        #expect(try store.state(held.id) == .held)
        var filter = WorkFilter()
        filter.ids = [bad.id, good.id]
        #expect(try store.purge(filter, olderThan: 0) == 2)
        #expect(try store.state(held.id) == .failed)
        #expect(try store.standing(held.id)?.error == "A dependency failed and was removed.")
        #expect(try store.state(last.id) == .held)
        #expect(try store.state(other.id) == .ready)
        filter.ids = [held.id]
        #expect(try store.apply(.retry, to: filter) == 1)
        #expect(try store.state(held.id) == .ready)
    }

    @Test(
        "a unique key prevents duplicates, and dependencies on a duplicate refer to the original",
        arguments: StoreKind.available)
    func uniqueKeys(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        let original = WorkItem.plain { $0.uniqueKey = "k" }, copy = WorkItem.plain { $0.uniqueKey = "k" }
        let dependent = WorkItem.plain(needs: [copy.id])
        #expect(try store.enqueue([original, copy, dependent]) == [original.id, original.id, dependent.id])
        #expect(try store.enqueue([copy]) == [original.id])
        #expect(try store.edges(of: dependent.id, limit: 9).needed == [original.id])
        let worker = try store.worker()
        let work = try store.claim(worker: worker, limit: 1, tags: nil).entries[0]
        _ = try store.report([WorkReport(work, by: worker, .failed)])
        // A failed entry does not prevent another entry with the same unique key.
        #expect(try store.enqueue([copy]) == [copy.id])
        var filter = WorkFilter()
        filter.ids = [original.id]
        #expect(throws: SharedQueueError.self) { try store.apply(.retry, to: filter) }
        #expect(try store.state(original.id) == .failed)
    }

    @Test("two connections never claim the same entry, or more entries than a host allows", arguments: StoreKind.available)
    func contention(kind: StoreKind) async throws {
        let test = try TestStore(kind), store = try test.open()
        try store.setLimits(HostLimits(maximumConcurrentRequests: 4), host: "limited.example")
        try store.enqueue(
            (0..<400).map { .plain(host: $0.isMultiple(of: 2) ? "free.example" : "limited.example", tag: "\($0 % 3)") })
        let claims = try await withThrowingTaskGroup(of: [ClaimedWork].self) { group in
            for _ in 0..<4 {
                group.addTask {
                    let store = try test.open(), worker = try store.worker()
                    var all: [ClaimedWork] = [], empty = 0
                    while empty < 3 {
                        let claimed = try store.claim(worker: worker, limit: 7, tags: nil).entries
                        all += claimed
                        empty = claimed.isEmpty ? empty + 1 : 0
                    }
                    return all
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(Set(claims.map(\.id)).count == claims.count)
        #expect(claims.count { $0.host == "free.example" } == 200)
        #expect(claims.count { $0.host == "limited.example" } == 4)
    }

    @Test("a rate limits the number of starts, by the clock of the database", arguments: StoreKind.available)
    func rate(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        try store.setLimits(HostLimits(requestsPerSecond: 5), host: WorkStore.everyHost)
        try store.enqueue((0..<20).map { _ in .plain() })
        let worker = try store.worker()
        let first = try store.claim(worker: worker, limit: 20, tags: nil)
        #expect(first.entries.count == 5)
        let second = try store.claim(worker: worker, limit: 20, tags: nil)
        #expect(second.entries.count < 5)
        let wait = try #require(second.wait)
        #expect(wait > 0 && wait <= 200_001)
    }

    @Test("a gate stops all workers for one host only", arguments: StoreKind.available)
    func gate(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        try store.enqueue([.plain(), .plain(), .plain(host: "other.example")])
        let worker = try store.worker()
        let work = try store.claim(worker: worker, limit: 1, tags: nil).entries[0]
        var report = WorkReport(work, by: worker, .failedForNow(delay: 0))
        report.gate = 3_600_000_000
        _ = try store.report([report])
        let claim = try store.claim(worker: worker, limit: 9, tags: nil)
        #expect(claim.entries.map(\.host) == ["other.example"])
        #expect(claim.wait ?? 0 > 3_500_000_000)
        try store.openGate(host: "example.com")
        try store.maintain()
        #expect(try store.claim(worker: worker, limit: 9, tags: nil).entries.count == 2)
    }

    @Test("a retry that exceeds the budget is delayed", arguments: StoreKind.available)
    func budget(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        try store.setLimits(HostLimits(retryShare: 0), host: WorkStore.everyHost)
        try store.enqueue((0..<12).map { _ in .plain { $0.standing.maximumAttempts = 9 } })
        let worker = try store.worker()
        let now = try store.now()
        let work = try store.claim(worker: worker, limit: 12, tags: nil).entries
        _ = try store.report(work.map { WorkReport($0, by: worker, .failedForNow(delay: 0)) })
        let late = try store.list(WorkFilter(), limit: 20).count { $0.standing.due > now + 50_000_000 }
        #expect(late == 2, "ten are in the reserve")
    }

    @Test("the leases of a silent worker are taken back, and its late report is rejected", arguments: StoreKind.available)
    func expiry(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        let item = WorkItem.plain(), once = WorkItem.plain { $0.standing.sendsAgain = false }
        try store.enqueue([item, once])
        let dead = try store.worker(lasting: -1), alive = try store.worker()
        let work = try store.claim(worker: dead, limit: 2, tags: nil).entries
        #expect(try store.begin(once.id, lease: work[1].lease))
        #expect(try !store.begin(once.id, lease: work[1].lease + 1))
        try store.maintain()
        #expect(try store.state(item.id) == .ready)
        #expect(try store.state(once.id) == .failed)
        #expect(try store.renew(dead, lasting: 1_000_000) == nil)
        #expect(try store.report([WorkReport(work[0], by: dead, .succeeded)]).isEmpty)
        let again = try store.claim(worker: alive, limit: 2, tags: nil).entries
        #expect(again.map(\.id) == [item.id])
        #expect(again[0].attempts == 2)
        #expect(try store.renew(alive, lasting: 1_000_000) == [item.id: again[0].lease])
        try store.release([item.id: again[0].lease], worker: alive)
        #expect(try store.standing(item.id)?.attempts == 1)
    }

    @Test(
        "a worker considered dead cannot claim entries, because they would never be taken back",
        arguments: StoreKind.available)
    func deadClaim(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        try store.enqueue([.plain()])
        let dead = try store.worker(lasting: -1)
        try store.maintain()
        let claim = try store.claim(worker: dead, limit: 1, tags: nil)
        #expect(claim.isUnknown)
        #expect(claim.entries.isEmpty)
        #expect(try store.counts() == [.ready: 1])
    }

    @Test("entries that a worker does not know about are taken back when it ends", arguments: StoreKind.available)
    func unregistering(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        try store.enqueue([.plain(), .plain { $0.standing.sendsAgain = false }])
        let worker = try store.worker()
        #expect(try store.claim(worker: worker, limit: 2, tags: nil).entries.count == 2)
        try store.unregister(worker)
        #expect(try store.counts() == [.ready: 2])
    }

    @Test("a unique key can apply for a period, after which another entry gets the key", arguments: StoreKind.available)
    func uniquePeriods(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        func item(_ period: Int64?) -> WorkItem {
            WorkItem.plain { ($0.uniqueKey, $0.uniquePeriod) = ("k", period) }
        }
        let first = item(nil)
        try store.enqueue([first, item(nil)])
        _ = try store.database.query("UPDATE entry SET enqueued = enqueued - $1", [.integer(60_000_000)])
        #expect(try store.enqueue([item(nil), item(3_600_000_000)]) == [first.id, first.id])
        let next = [item(30_000_000), item(30_000_000), item(0)]
        for _ in 0..<2 { #expect(try store.enqueue(next) == [next[0].id, next[0].id, next[0].id]) }
        #expect(try store.list(WorkFilter(), limit: 10).map(\.uniqueKey) == [nil, "k"])
        #expect(try store.enqueue([item(nil)]) == [next[0].id])
    }

    @Test("entries are rescheduled by filter", arguments: StoreKind.available)
    func rescheduling(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open(), worker = try store.worker()
        let items = [WorkItem.plain(tag: "a"), .plain(tag: "a") { $0.delay = 3_600_000_000 }, .plain(tag: "b")]
        try store.enqueue(items)
        var filter = WorkFilter()
        filter.tag = "a"
        #expect(try store.apply(.reschedule(delay: 60_000_000), to: filter) == 2)
        #expect(try store.claim(worker: worker, limit: 9, tags: nil).entries.map(\.id) == [items[2].id])
        #expect(try store.apply(.reschedule(delay: 0), to: WorkFilter()) == 2)
        #expect(try store.claim(worker: worker, limit: 9, tags: nil).entries.map(\.id) == [items[0].id, items[1].id])
    }

    @Test("start times, next attempts, deadlines and lifetimes take effect when due", arguments: StoreKind.available)
    func times(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        let later = WorkItem.plain { $0.delay = 3_600_000_000 }
        let soon = WorkItem.plain { $0.delay = 1 }
        let late = WorkItem.plain { ($0.delay, $0.timeLimit) = (3_600_000_000, 1) }
        let kept = WorkItem.plain { $0.standing.kept = 1 }
        try store.enqueue([later, soon, late, kept])
        #expect(try store.state(later.id) == .waiting)
        var filter = WorkFilter()
        filter.ids = [kept.id]
        #expect(try store.apply(.cancel, to: filter) == 1)
        try eventually {
            try store.maintain(); return try store.state(kept.id) == nil
        }
        #expect(try store.state(soon.id) == .ready)
        #expect(try store.state(late.id) == .failed)
        let wait = try #require(try store.maintain())
        #expect(wait > 3_000_000_000)
        #expect(try store.result(of: kept.id) == nil)
    }

    @Test("filters and counts match entries, and the whole queue can be paused", arguments: StoreKind.available)
    func filters(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        let items = (0..<1200).map { number in
            WorkItem.plain(host: number < 700 ? "a" : "b", tag: number < 600 ? "x" : "y") { $0.batch = "g\(number % 2)" }
        }
        try store.enqueue(items)
        var filter = WorkFilter()
        (filter.tag, filter.host, filter.batch) = ("y", "a", "g1")
        #expect(try store.counts(filter) == [.ready: 50])
        #expect(try store.apply(.pause, to: filter) == 50)
        #expect(try store.counts() == [.ready: 1150, .paused: 50])
        #expect(try store.apply(.resume, to: filter) == 50)
        #expect(try store.apply(.cancel, to: WorkFilter()) == 1200)
        #expect(try store.apply(.cancel, to: WorkFilter()) == 0)
        #expect(try store.purge(filter, olderThan: 0) == 50)
        #expect(try store.purge(WorkFilter(), olderThan: 3_600_000_000) == 0)
        #expect(try store.purge(WorkFilter(), olderThan: 0) == 1150)
        #expect(try store.counts().isEmpty)
        try store.enqueue([.plain()])
        try store.setPaused(true)
        let worker = try store.worker()
        #expect(try store.claim(worker: worker, limit: 1, tags: nil).isPaused)
        try store.setPaused(false)
        #expect(try store.claim(worker: worker, limit: 1, tags: nil).entries.count == 1)
        let page = try store.list(WorkFilter(), newestFirst: true, limit: 5)
        #expect(page.count == 1)
        #expect(try store.workers().map(\.leased) == [1])
    }

    @Test("if there are more lanes than one claim searches, all are served in turn", arguments: StoreKind.available)
    func manyLanes(kind: StoreKind) throws {
        let test = try TestStore(kind), store = try test.open()
        try store.enqueue((0..<1300).map { .plain(host: "h\($0)", tag: "t\($0 % 3)") })
        let worker = try store.worker()
        var hosts: Set<String> = []
        for _ in 0..<400 where hosts.count < 1300 {
            hosts.formUnion(try store.claim(worker: worker, limit: 40, tags: nil).entries.map(\.host))
        }
        #expect(hosts.count == 1300)
        try store.enqueue((0..<30).map { .plain(host: "h\($0)", tag: "t\($0 % 3)") })
        #expect(try store.claim(worker: worker, limit: 99, tags: ["t1", "", "none"]).entries.count == 10)
    }

    @Test("SQLite searches entries by state only to list them, and never scans all entries")
    func plans() throws {
        let test = try TestStore(.sqlite), store = try test.open()
        let database = try #require(store.database as? SQLiteWorkDatabase)
        try store.setLimits(HostLimits(maximumConcurrentRequests: 9, requestsPerSecond: 100), host: WorkStore.everyHost)
        let first = WorkItem.plain()
        try store.enqueue([first, .plain(needs: [first.id]), .plain { $0.uniqueKey = "k" }])
        let worker = try store.worker()
        let work = try store.claim(worker: worker, limit: 9, tags: nil).entries
        _ = try store.claim(worker: worker, limit: 9, tags: ["a"])
        _ = try store.renew(worker, lasting: 1_000_000)
        _ = try store.report(work.map { WorkReport($0, by: worker, .succeeded) })
        try store.maintain()
        let statements = database.translations.values
        #expect(statements.count > 15)
        for statement in statements where statement.contains("entry AS e") {
            let parameters = (1...9).filter { statement.contains("?\($0)") }.count
            let plan = try database.query(
                "EXPLAIN QUERY PLAN \(statement)", Array(repeating: .text("[]"), count: parameters)
            )
            .compactMap { $0.text(3) }
            let bad = plan.filter { $0.contains("entry_state") || $0 == "SCAN e" || $0.hasPrefix("SCAN e ") }
            #expect(bad.isEmpty, "\(statement): \(plan)")
        }
    }
}
