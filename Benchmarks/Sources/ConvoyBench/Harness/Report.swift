import Foundation

/// A writer of the results of a case.
struct Report {
    let printsJSON: Bool
    /// Whether targets are checked, for which a quick run is too short.
    let checksBars: Bool

    // MARK: Tables

    /// Writes a case with all its subjects and targets.
    func write(_ benchCase: Case, _ results: Results) {
        if printsJSON { return writeJSON(benchCase, results) }
        print("\n\(benchCase.name): \(benchCase.summary)")
        for trial in benchCase.trials {
            print("  " + Self.row([trial.name, trial.unit, "spread", "of limit", "CPU us", "peak MB", ""]))
            for subject in trial.subjects {
                let samples = results.samples(trial.name, subject.name)
                guard let median = results.median(trial.name, subject.name) else { continue }
                let values = samples.map(\.value)
                print(
                    "  "
                        + Self.row([
                            "  " + subject.name, Self.number(median),
                            "\(Self.number(values.min() ?? 0))–\(Self.number(values.max() ?? 0))",
                            ratio(trial, subject, results).map(Self.number) ?? "",
                            results.median(trial.name, subject.name, \.cpuMicroseconds).map(Self.number) ?? "",
                            Self.number(Double(samples.map(\.peakKilobytes).max() ?? 0) / 1024),
                            details(trial, subject, results),
                        ]))
            }
        }
        let absent = Set(benchCase.trials.flatMap(\.subjects).filter { !$0.isAvailable }.map(\.name)).sorted()
        if !absent.isEmpty { print("  not installed: \(absent.joined(separator: ", "))") }
        guard checksBars else { return }
        for bar in benchCase.bars { print("  " + Self.line(bar, bar.measure(results))) }
    }

    private func ratio(_ trial: Trial, _ subject: Subject, _ results: Results) -> Double? {
        trial.limit.flatMap { results.ratio(trial.name, subject.name, to: $0) }
    }

    private func details(_ trial: Trial, _ subject: Subject, _ results: Results) -> String {
        let names = Set(results.samples(trial.name, subject.name).flatMap(\.details.keys)).sorted()
        return names.compactMap { name in
            results.detail(name, trial.name, subject.name).map { "\(name) \(Self.number($0))" }
        }.joined(separator: ", ")
    }

    private static func line(_ bar: Bar, _ value: Double?) -> String {
        let demand = "\(bar.direction == .atLeast ? "at least" : "at most") \(number(bar.threshold)) \(bar.text)"
        guard let value else { return "bar: \(demand): not measured" }
        return "bar: \(demand): \(number(value)), \(bar.isMet(by: value) ? "met" : "MISSED")"
    }

    private static func row(_ cells: [String]) -> String {
        let widths = [26, 12, 20, 9, 8, 8, 0]
        return zip(cells, widths).enumerated().map { index, cell in
            let padding = String(repeating: " ", count: max(0, cell.1 - cell.0.count))
            return index == 0 || cell.1 == 0 ? cell.0 + padding : padding + cell.0
        }.joined(separator: "  ")
    }

    /// Formats three significant digits, or all digits before the decimal point.
    static func number(_ value: Double) -> String {
        let digits = value == 0 || abs(value) >= 100 ? 0 : abs(value) >= 10 ? 1 : abs(value) >= 1 ? 2 : 3
        return String(format: "%.\(digits)f", value)
    }

    // MARK: JSON

    private struct Line: Encodable {
        var `case`: String
        var subject: String
        var value: Double
        var unit: String
        var minimum: Double
        var maximum: Double
        var rounds: Int
        var cpu_us_per_request: Double?
        var max_rss_kb: Int
        var ratio_to_limit: Double?
        var details: [String: Double]?
    }

    private struct BarLine: Encodable {
        var `case`: String
        var bar: String
        var threshold: Double
        var value: Double?
        var met: Bool?
    }

    private func writeJSON(_ benchCase: Case, _ results: Results) {
        for trial in benchCase.trials {
            for subject in trial.subjects {
                let samples = results.samples(trial.name, subject.name)
                guard let median = results.median(trial.name, subject.name) else { continue }
                let names = Set(samples.flatMap(\.details.keys))
                let details = Dictionary(
                    uniqueKeysWithValues: names.map { ($0, results.detail($0, trial.name, subject.name) ?? 0) })
                writeLine(
                    Line(
                        case: trial.name, subject: subject.name, value: median, unit: trial.unit,
                        minimum: samples.map(\.value).min() ?? median, maximum: samples.map(\.value).max() ?? median,
                        rounds: samples.count,
                        cpu_us_per_request: results.median(trial.name, subject.name, \.cpuMicroseconds),
                        max_rss_kb: samples.map(\.peakKilobytes).max() ?? 0,
                        ratio_to_limit: ratio(trial, subject, results), details: details.isEmpty ? nil : details))
            }
        }
        for bar in benchCase.bars where checksBars {
            let value = bar.measure(results)
            writeLine(
                BarLine(
                    case: benchCase.name, bar: "\(bar.direction == .atLeast ? "at least" : "at most") \(bar.text)",
                    threshold: bar.threshold, value: value, met: value.map(bar.isMet(by:))))
        }
    }

    private func writeLine(_ line: some Encodable) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(line) else { return }
        print(String(decoding: data, as: UTF8.self))
    }

    // MARK: Messages

    /// Writes a note to standard error.
    static func note(_ text: String) {
        FileHandle.standardError.write(Data("\(isTerminal ? "\r\u{1B}[K" : "")\(text)\n".utf8))
    }

    /// Shows the progress, on a terminal only; nil clears the line.
    static func progress(_ text: String?) {
        guard isTerminal else { return }
        FileHandle.standardError.write(Data("\r\u{1B}[K\(text ?? "")".utf8))
    }

    private static let isTerminal = isatty(STDERR_FILENO) == 1
}
