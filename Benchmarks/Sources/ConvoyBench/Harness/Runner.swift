import ConvoyTestSupport
import Foundation

/// A runner of cases, which runs all subjects in each round, each in a separate process.
struct Runner {
    let options: Options
    let server: BenchServer

    /// The argument with which a process runs a subject.
    static let subjectCommand = "--run-subject"

    /// Runs all rounds of a case.
    func run(_ benchCase: Case) throws -> Results {
        if benchCase.needsLargeFile { try server.makeLargeFile() }
        var results = Results()
        for round in 1...options.rounds {
            for trial in benchCase.trials {
                // Each round begins with a different subject, so that the order varies.
                for subject in trial.subjects.rotated(by: round) where isWanted(subject) {
                    let sample: Sample?
                    do {
                        sample = try measure(trial, subject)
                    } catch {
                        Report.note("\(trial.name) \(subject.name), round \(round): \(error)")
                        sample = nil
                    }
                    results.add(sample, trial: trial.name, subject: subject.name)
                    Report.progress("\(trial.name) \(subject.name) \(round)/\(options.rounds)")
                }
            }
        }
        Report.progress(nil)
        return results
    }

    private func isWanted(_ subject: Subject) -> Bool {
        subject.isAvailable && options.subjects?.contains(subject.name) ?? true
    }

    private func measure(_ trial: Trial, _ subject: Subject) throws -> Sample {
        let context = try JSONEncoder().encode(server.context)
        let executable = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let result = try ProcessRunner.run(
            executable, [Self.subjectCommand, trial.name, subject.name, String(decoding: context, as: UTF8.self)],
            timeout: 600)
        guard result.status == 0 else {
            if result.timedOut { throw BenchError("timed out after ten minutes") }
            throw BenchError("status \(result.status): \(result.errorText)")
        }
        return try JSONDecoder().decode(Sample.self, from: result.output)
    }

    /// Runs the subject named by the arguments in its own process, and writes its sample to standard output.
    static func runSubject(_ arguments: [String]) throws {
        guard arguments.count == 3, let trial = Case.trial(arguments[0]),
            let subject = trial.subjects.first(where: { $0.name == arguments[1] })
        else { throw BenchError("unknown subject") }
        ProcessMeters.raiseDescriptorLimit()
        let sample = try subject.run(JSONDecoder().decode(Context.self, from: Data(arguments[2].utf8)))
        FileHandle.standardOutput.write(try JSONEncoder().encode(sample))
    }
}

extension Array {
    fileprivate func rotated(by count: Int) -> [Element] {
        isEmpty ? [] : Array(self[(count % self.count)...] + self[..<(count % self.count)])
    }
}
