import Foundation

/// A readable summary of the outcomes.
enum Report {
    static func write(plan: Plan, folder: URL) throws {
        let outcomes = Trial.outcomes(folder)
        let tried = plan.tried.compactMap { mutant in outcomes[mutant.number].map { (mutant, $0) } }
        for (mutant, outcome) in tried.sorted(by: { $0.0.number < $1.0.number }) where !outcome.isNoticed {
            say("\(outcome.kind) \(mutant.title) (\(outcome.detail))")
        }
        let noticed = tried.count { $0.1.isNoticed }
        let kinds = Outcome.Kind.allCases.map { kind in "\(tried.count { $0.1.kind == kind }) \(kind)" }.joined(
            separator: ", ")
        let share = tried.isEmpty ? 0 : Double(noticed) * 100 / Double(tried.count)
        say("seed \(plan.seed): \(tried.count) of \(plan.count) tried, \(noticed) noticed (\(Int(share)) %): \(kinds)")
        say("\(plan.total) mutants in all; \(plan.dropped) of those drawn did not compile")
    }
}

/// Prints a line immediately, even to a file.
func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }
