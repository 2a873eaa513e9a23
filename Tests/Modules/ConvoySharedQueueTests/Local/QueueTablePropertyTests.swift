import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySharedQueue

/// The entries of a queue and their dependencies, in random histories.
@Suite struct QueueTablePropertyTests {
    private static let worker = UUID()

    private static func record(_ dependencies: Set<UUID>, _ policy: FailedDependencyPolicy) -> QueueRecord {
        let request = StoredRequest(
            method: "POST", url: URL(fileURLWithPath: "/"), header: [], timeout: 1,
            work: .send(StoredSending(body: nil, sendsAgain: true)))
        return QueueRecord(
            id: UUID(), request: request, dependencies: dependencies, policy: policy, tag: nil, priority: 0, enqueued: 1)
    }

    /// Checks that each entry counts its dependencies, and is in the state that follows from them.
    private static func check(_ table: QueueTable) {
        var pending = 0
        for record in table.ordered {
            let outcomes = record.dependencies.map { id in
                guard let other = table[id] else { return WorkStanding.Outcome?.some(.failed) }
                return other.standing.outcome
            }
            let (open, failed) = (outcomes.count { $0 == nil }, outcomes.count { $0 == .failed })
            #expect(record.standing.openDependencies == open && record.standing.failedDependencies == failed, "\(record)")
            if record.isPending { pending += 1 }
            switch record.standing.state {
            case .held: #expect(open > 0 || (failed > 0 && record.standing.policy == .hold), "\(record)")
            case .ready: #expect(open == 0 && (failed == 0 || record.standing.policy == .run), "\(record)")
            default: break
            }
        }
        #expect(table.pendingCount == pending)
        #expect(table.ordered.map(\.sequence) == table.ordered.map(\.sequence).sorted())
    }

    @Test(arguments: [true, false])
    func `a request that may have been sent before a pause is sent again only if that is allowed`(sendsAgain: Bool) throws {
        let directory = try TemporaryDirectory()
        var record = Self.record([], .hold)
        record.standing.sendsAgain = sendsAgain
        record.begin(Self.worker, attempts: 1)
        record.standing.apply(.hold, now: 2)
        #expect(record.state == .paused)
        // The entry may be resumed just before the process ends.
        var resumed = record
        resumed.standing.apply(.resume, now: 3)
        for var restored in [record, resumed] {
            restored.comeBack(UUID(), try BodyFolder(directory.url.path))
            #expect((restored.state == .outcomeUnknown) == !sendsAgain)
        }
    }

    @Test(arguments: 0..<8) func `each entry follows its dependencies`(number: Int) {
        var random = SplitMix64(seed: 0x5EED &+ UInt64(number)), table = QueueTable(), ids: [UUID] = []
        for _ in 0..<150 {
            let id = ids.randomElement(using: &random) ?? UUID()
            switch Int.random(in: 0..<10, using: &random) {
            case 0...2:
                var new: [QueueRecord] = []
                for _ in 0..<Int.random(in: 1...3, using: &random) {
                    let known = ids.suffix(6) + new.map(\.id)
                    let needed = Set(known.filter { _ in Int.random(in: 0..<3, using: &random) == 0 })
                    new.append(Self.record(needed, FailedDependencyPolicy.allCases.randomElement(using: &random) ?? .hold))
                }
                table.insert(new.shuffled(using: &random))
                ids += new.map(\.id)
            case 3...5:
                let end: WorkReport.End = Bool.random(using: &random) ? .succeeded : .failed
                if table[id]?.standing.state == .ready { table.change(id) { $0.end(end, Self.worker) } }
            case 6:
                guard table[id]?.standing.state == .failed else { break }
                _ = table.forgetFailedDependencies(of: id)
                table.change(id) { $0.retry() }
            case 7: table.change(id) { $0.standing.apply(Bool.random(using: &random) ? .pause : .resume, now: 1) }
            case 8: if table[id]?.isBlocked == true { _ = table.forgetFailedDependencies(of: id) }
            default:
                table.remove(id)
                ids.removeAll { $0 == id }
            }
            Self.check(table)
        }
        #expect(!ids.isEmpty)
    }

    @Test func `a failure reaches a long chain of dependents`() {
        var table = QueueTable(), last: Set<UUID> = [], ids: [UUID] = []
        for _ in 0..<10_000 {
            let record = Self.record(last, .fail)
            table.insert([record])
            last = [record.id]
            ids.append(record.id)
        }
        table.change(ids[0]) { $0.end(.failed, Self.worker) }
        #expect(ids.allSatisfy { table[$0]?.standing.state == .failed })
        #expect(table.pendingCount == 0)
    }
}
