import ConvoyTestServer
import Foundation

/// The results of the cases of a run, by behaviour.
struct ResumeReport: CustomStringConvertible {
    private struct Row {
        var runs = 0
        var successes = 0
        var faults: [ResumeRun.Fault: Int] = [:]
        var examples: [String] = []
    }

    private var rows: [ServerBehaviour: Row] = [:]

    mutating func add(_ verdict: ResumeRun.Verdict, of test: ResumeCase) {
        rows[test.behaviour, default: Row()].runs += 1
        if verdict.isSuccess, verdict.fault == nil { rows[test.behaviour]?.successes += 1 }
        if let fault = verdict.fault { add(fault, verdict.detail, of: test) }
    }

    mutating func add(_ fault: ResumeRun.Fault, _ detail: String, of test: ResumeCase) {
        rows[test.behaviour, default: Row()].faults[fault, default: 0] += 1
        if rows[test.behaviour]?.examples.count ?? 0 < 3 {
            rows[test.behaviour]?.examples.append("\(fault.rawValue) in \(test)\n      \(detail)")
        }
    }

    var runs: Int { rows.values.reduce(0) { $0 + $1.runs } }
    var successes: Int { rows.values.reduce(0) { $0 + $1.successes } }
    /// Returns the number of cases with the given kind of fault.
    func count(of fault: ResumeRun.Fault) -> Int { rows.values.reduce(0) { $0 + ($1.faults[fault] ?? 0) } }

    var faults: Int { rows.values.reduce(0) { $0 + $1.faults.values.reduce(0, +) } }

    /// The behaviours with at least one success, to ensure that not all cases are failures.
    var behavioursWithSuccess: Set<ServerBehaviour> { Set(rows.filter { $0.value.successes > 0 }.keys) }

    /// Every behaviour with a fault, with up to three of its cases.
    var description: String {
        var lines = ["\(runs) cases, \(successes) correct, \(runs - successes - faults) failed, \(faults) with a fault"]
        for behaviour in ServerBehaviour.allCases {
            guard let row = rows[behaviour], !row.faults.isEmpty else { continue }
            let counts = row.faults.sorted { $0.key.rawValue < $1.key.rawValue }
                .map { "\($0.key.rawValue) \($0.value)" }.joined(separator: ", ")
            lines.append("\(behaviour): \(counts) of \(row.runs)")
            lines += row.examples.map { "   \($0)" }
        }
        return lines.joined(separator: "\n")
    }
}
