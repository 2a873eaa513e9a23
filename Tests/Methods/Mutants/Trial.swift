import Foundation

/// The outcome of a mutant.
struct Outcome: Codable {
    enum Kind: String, Codable, CaseIterable { case failed, crashed, hung, unnoticed, unreached }

    let number: Int
    let kind: Kind
    /// The first line that reported the mutant, or the number of suites that did not.
    let detail: String
    let seconds: TimeInterval

    var isNoticed: Bool { kind == .failed || kind == .crashed || kind == .hung }
}

/// Tries mutants against the tests that reach them.
final class Trial: Sendable {
    private let plan: Plan
    private let folder: URL
    private let binary: URL
    private let reach: Reach
    /// The duration of the tests, in seconds of their usual time, that a mutant must survive.
    private let budget: TimeInterval

    init(plan: Plan, folder: URL, binary: URL) throws {
        self.plan = plan
        self.folder = folder
        self.binary = binary
        reach = try Reach.load(folder)
        budget = ProcessInfo.processInfo.environment["CONVOY_MUTANT_SECONDS"].flatMap(TimeInterval.init) ?? 60
    }

    static func outcomes(_ folder: URL) -> [Int: Outcome] {
        let text = (try? String(contentsOf: folder.appendingPathComponent("outcomes.jsonl"), encoding: .utf8)) ?? ""
        let all = text.split(separator: "\n").compactMap { try? JSONDecoder().decode(Outcome.self, from: Data($0.utf8)) }
        return Dictionary(all.map { ($0.number, $0) }) { $1 }
    }

    /// The numbers of the mutants that were tried and not detected.
    var unnoticed: [Int] {
        let known = Self.outcomes(folder)
        return plan.tried.map(\.number).filter { known[$0]?.isNoticed == false }
    }

    /// Tries all mutants without an outcome, or those with the given numbers.
    func run(only numbers: [Int]) throws {
        let known = Self.outcomes(folder)
        let mutants =
            numbers.isEmpty
            ? plan.tried.filter { known[$0.number] == nil } : plan.mutants.filter { numbers.contains($0.number) }
        let file = folder.appendingPathComponent("outcomes.jsonl")
        if !FileManager.default.fileExists(atPath: file.path) {
            _ = FileManager.default.createFile(atPath: file.path, contents: nil)
        }
        let handle = Shared(try FileHandle(forWritingTo: file))
        twoAtATime(mutants) { worker, mutant in
            let outcome = self.attempt(mutant, worker)
            say("\(outcome.kind) \(mutant.title) (\(outcome.detail))")
            guard var line = try? JSONEncoder().encode(outcome) else { return }
            line.append(10)
            handle.with {
                _ = try? $0.seekToEnd()
                try? $0.write(contentsOf: line)
            }
        }
    }

    private func attempt(_ mutant: Mutant, _ worker: Int) -> Outcome {
        let suites = reach.suites(for: mutant)
        var seconds: TimeInterval = 0
        func outcome(_ kind: Outcome.Kind, _ detail: String) -> Outcome {
            Outcome(number: mutant.number, kind: kind, detail: detail, seconds: seconds)
        }
        guard !suites.isEmpty else { return outcome(.unreached, "no suite reaches it") }
        var rest = suites[...]
        var planned: TimeInterval = 0
        var tried = 0
        while !rest.isEmpty, planned < budget || tried == 0 {
            // Run several suites per process, because starting a process takes time.
            var batch: [Reach.Suite] = []
            var usual: TimeInterval = 0
            while let suite = rest.first,
                batch.isEmpty || (usual + suite.seconds < 8 && batch.count < 30 && suite.usesXCTest == batch[0].usesXCTest)
            {
                batch.append(suite)
                usual += suite.seconds
                rest.removeFirst()
            }
            planned += usual
            tried += batch.count
            let result = TestProcess.run(
                binary, batch.map(\.name), usesXCTest: batch[0].usesXCTest, environment: ["CONVOY_MUTANT": "\(mutant.slot)"],
                log: folder.appendingPathComponent("try-\(worker).log"), limit: 3 * usual + 20)
            seconds += result.seconds
            switch result.end {
            case .passed(reachedEnd: true): break
            case .passed: return outcome(.crashed, "ended early")
            case .failed(let line): return outcome(line.hasPrefix("ended with") ? .crashed : .failed, line)
            case .hung: return outcome(.hung, "\(batch.count) suites")
            }
        }
        return outcome(.unnoticed, "\(tried) of \(suites.count) suites")
    }
}
