import Foundation

/// Reports for programs that display test results.
extension WorkflowReport {
    /// The runs as JUnit XML: a test suite for each run, with a test case for each request or item.
    public var junit: String {
        var lines = [#"<?xml version="1.0" encoding="UTF-8"?>"#, "<testsuites \(Self.counts(outcomes, seconds))>"]
        for run in runs {
            let title = Markup.escaped(run.title), counts = Self.counts(run.result.outcomes, run.result.seconds)
            lines.append(#"  <testsuite name="\#(title)" \#(counts) timestamp="\#(Self.timestamp(run.result.began))">"#)
            for outcome in run.result.outcomes { lines += Self.testCase(outcome, of: title) }
            lines.append("  </testsuite>")
        }
        return (lines + ["</testsuites>", ""]).joined(separator: "\n")
    }

    private static func counts(_ outcomes: [RequestOutcome], _ seconds: Double) -> String {
        let counts = OutcomeCounts(outcomes)
        return
            #"tests="\#(outcomes.count)" failures="\#(counts.failed)" skipped="\#(counts.skipped)" time="\#(time(seconds))""#
    }

    private static func testCase(_ outcome: RequestOutcome, of title: String) -> [String] {
        let name = Markup.escaped(outcome.name), file = Markup.escaped(outcome.manifest)
        let head =
            #"    <testcase classname="\#(title)" name="\#(name)" file="\#(file)" line="\#(outcome.line)" time="\#(time(outcome.seconds))""#
        let content: String
        switch outcome.state {
        case .succeeded where outcome.hasMorePages:
            content = "<system-out>\(Markup.escaped(outcome.pagesNote))</system-out>"
        case .succeeded, .kept: return ["\(head)/>"]
        case .skipped: content = #"<skipped message="\#(Markup.escaped(outcome.failures.first ?? ""))"/>"#
        case .failed:
            let failures = outcome.locatedFailures, first = failures.first?.prefix { $0 != "\n" } ?? ""
            let text = Markup.escaped(failures.joined(separator: "\n"))
            content = #"<failure message="\#(Markup.escaped(String(first)))">\#(text)</failure>"#
        }
        return ["\(head)>", "      \(content)", "    </testcase>"]
    }

    /// The runs in the Test Anything Protocol, version 13.
    public var tap: String {
        var lines = ["TAP version 13", "1..\(outcomes.count)"], number = 0
        for run in runs {
            let start = runs.count > 1 ? "\(run.title): " : ""
            for outcome in run.result.outcomes {
                number += 1
                lines += Self.tap(outcome, number, start)
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func tap(_ outcome: RequestOutcome, _ number: Int, _ start: String) -> [String] {
        let title = tapText(start + outcome.name)
        switch outcome.state {
        case .succeeded, .kept:
            return ["ok \(number) - \(title)"] + (outcome.hasMorePages ? ["# \(outcome.pagesNote)"] : [])
        case .skipped: return ["ok \(number) - \(title) # SKIP \(tapText(outcome.failures.first ?? ""))"]
        case .failed:
            return [
                "not ok \(number) - \(title)", "  ---", "  at: \(yamlText("\(outcome.manifest):\(outcome.line)"))",
                "  failures:",
            ] + outcome.locatedFailures.map { "    - \(yamlText($0))" } + ["  ..."]
        }
    }

    private static func tapText(_ text: String) -> String {
        text.replacing("#", with: "\\#").split(whereSeparator: \.isNewline).joined(separator: " ")
    }

    private static func yamlText(_ text: String) -> String { Markup.json(text) }

    private static func time(_ seconds: Double) -> String { String(format: "%.3f", seconds) }

    private static func timestamp(_ date: Date) -> String {
        String(date.formatted(.iso8601).dropLast())
    }
}
