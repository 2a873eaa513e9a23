import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySharedQueue

/// Compares the table, which keeps counts, with a model that evaluates everything each time.
struct QueueTablePropertyTests {
    private struct Model {
        struct Entry {
            var phase = QueueStatus.Phase.waiting
            var isPaused = false
            var isStarted = false
            var policy = FailedDependencyPolicy.hold
            var dependencies: Set<UUID> = []
        }
        var entries: [UUID: Entry] = [:]

        func counts(_ entry: Entry) -> (unfinished: Int, failed: Int) {
            var (unfinished, failed) = (0, 0)
            for dependency in entry.dependencies {
                switch entries[dependency]?.phase {
                case .finished: break
                case .waiting, .running, .finishing: unfinished += 1
                case .failed, .unknown, nil: failed += 1
                }
            }
            return (unfinished, failed)
        }

        func fate(_ entry: Entry) -> QueueTable.EntryStep {
            let (unfinished, failed) = counts(entry)
            if entry.phase != .waiting || entry.isStarted { return .waits }
            if failed > 0, entry.policy == .fail { return .fails }
            return entry.isPaused || unfinished > 0 || failed > 0 && entry.policy != .run ? .waits : .starts
        }

        func state(_ entry: Entry) -> DownloadQueue.State {
            switch entry.phase {
            case .finished: .finished
            case .failed: .failed
            case .unknown: .outcomeUnknown
            default:
                entry.isPaused
                    ? .paused
                    : entry.phase == .waiting && !entry.isStarted && counts(entry).failed > 0 && entry.policy == .hold
                        ? .blocked : .waiting
            }
        }

        var pending: Int { entries.values.count { state($0) == .waiting } }
    }

    private static func record(_ id: UUID, _ sequence: Int64, _ entry: Model.Entry) -> QueueTable.Record {
        let request = StoredRequest(
            method: "POST", url: URL(fileURLWithPath: "/"), header: [], timeout: 1,
            work: .send(StoredSending(body: nil, sendsAgain: true)))
        return QueueTable.Record(
            row: QueueRow(
                id: id, sequence: sequence, request: request, dependencies: entry.dependencies, policy: entry.policy,
                tag: nil, enqueued: 0, status: QueueStatus(changed: 0)))
    }

    @Test func `the table agrees with a model that recounts everything`() {
        var random = SplitMix64.printingSeed()
        for _ in 0..<300 { run(&random) }
    }

    private func run(_ random: inout SplitMix64) {
        var (table, model) = (QueueTable(), Model())
        let ids = (0..<12).map { _ in UUID() }
        var shown: [UUID: DownloadQueue.State] = [:]
        for _ in 0..<60 {
            let id = ids[Int.random(in: 0..<ids.count, using: &random)]
            var waiting: Set<UUID> = []
            let old = Dictionary(uniqueKeysWithValues: model.entries.map { ($0, model.fate($1)) })
            let oldPhase = model.entries[id]?.phase
            switch Int.random(in: 0..<9, using: &random) {
            case 0...1 where model.entries[id] == nil:
                // Insert one or two entries, which may depend on each other.
                let other = ids.first { $0 != id && model.entries[$0] == nil }
                var new = [id]
                if let other, Bool.random(using: &random) { new.append(other) }
                var records: [QueueTable.Record] = []
                for (index, one) in new.enumerated() {
                    var entry = Model.Entry()
                    entry.policy = FailedDependencyPolicy.allCases.randomElement(using: &random) ?? .hold
                    entry.dependencies = Set(model.entries.keys.filter { _ in Int.random(in: 0..<4, using: &random) == 0 })
                    if index == 1, Bool.random(using: &random) { entry.dependencies.insert(id) }
                    records.append(Self.record(one, table.takeSequence(1), entry))
                    model.entries[one] = entry
                }
                table.insert(records)
                for one in new { shown[one] = table[one]?.state }
            case 2:
                let isPaused = Bool.random(using: &random)
                model.entries[id]?.isPaused = isPaused
                table.change(id) { $0.row.status.isPaused = isPaused }
            case 3 where model.entries[id].map { model.fate($0) } == .starts:
                model.entries[id]?.isStarted = true
                table.change(id) { $0.isStarted = true }
            case 4...5 where model.entries[id] != nil:
                let phase: QueueStatus.Phase =
                    [.finished, .failed, .unknown, .running].randomElement(using: &random) ?? .failed
                model.entries[id]?.phase = phase
                model.entries[id]?.isStarted = phase == .running
                waiting = table.change(id) { ($0.row.status.phase, $0.isStarted) = (phase, phase == .running) }
            case 6:
                if model.entries[id]?.phase == .finished {
                    for other in model.entries.keys { model.entries[other]?.dependencies.remove(id) }
                }
                model.entries[id] = nil
                waiting = table.remove(id)
                shown[id] = nil
            case 7 where oldPhase == .failed || oldPhase == .unknown:
                model.entries[id]?.phase = .waiting
                waiting = table.change(id) { $0.row.status.phase = .waiting }
            case 8:
                if let entry = model.entries[id] {
                    let kept = entry.dependencies.filter { dependency in
                        guard let phase = model.entries[dependency]?.phase else { return false }
                        return phase != .failed && phase != .unknown
                    }
                    model.entries[id]?.dependencies = kept
                }
                _ = table.forgetFailedDependencies(of: id)
                waiting = [id]
            default: break
            }
            waiting.insert(id)
            for record in table.takeChanges() {
                #expect(record.state != shown[record.row.id])
                shown[record.row.id] = record.state
            }
            for (id, entry) in model.entries {
                #expect(table[id]?.state == model.state(entry))
                #expect(shown[id] == model.state(entry))
                #expect(table.fate(of: id) == model.fate(entry))
                // Every entry that can make progress now, but could not before, is returned.
                if model.fate(entry) != .waits, old[id] == .waits { #expect(waiting.contains(id)) }
            }
            #expect(table.pendingCount == model.pending)
            #expect(table.ordered.map(\.row.id).count == model.entries.count)
        }
    }
}
