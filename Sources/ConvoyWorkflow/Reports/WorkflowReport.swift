import ConvoySerialization
import Foundation

/// The results of one or several runs, and the reports about them.
///
/// ```swift
/// var report = WorkflowReport()
/// report.add(await WorkflowRun(workflow).run(), of: workflow)
/// print(report.junit)
/// ```
public struct WorkflowReport: Sendable {
    /// A run of a workflow.
    struct Run: Sendable {
        let workflow: Workflow
        /// The name of the manifest, with the row or the round of the run.
        let title: String
        let result: WorkflowResult
    }

    private(set) var runs: [Run] = []

    /// Creates a report without runs.
    public init() {}

    /// Adds a run.
    ///
    /// - Parameters:
    ///   - result: The result of the run.
    ///   - workflow: The workflow that was run.
    ///   - title: The name of the run, or nil for the name of the manifest. It must not contain secrets.
    public mutating func add(_ result: WorkflowResult, of workflow: Workflow, title: String? = nil) {
        runs.append(Run(workflow: workflow, title: title ?? workflow.name, result: result))
    }

    /// The outcomes of all runs, in order.
    public var outcomes: [RequestOutcome] { runs.flatMap(\.result.outcomes) }

    /// The time at which the first run started.
    var began: Date { runs.map(\.result.began).min() ?? Date() }

    /// The duration of all runs, in seconds.
    var seconds: Double { runs.reduce(0) { $0 + $1.result.seconds } }

    /// The runs as JSON: their totals, and all requests with their failures.
    public var json: String {
        let counts = OutcomeCounts(outcomes)
        let report: JSON = [
            "began": .string(began.formatted(.iso8601)), "seconds": Self.number(seconds),
            "succeeded": .number(JSONNumber(counts.succeeded)), "failed": .number(JSONNumber(counts.failed)),
            "skipped": .number(JSONNumber(counts.skipped)), "runs": .array(runs.map(Self.json)),
        ]
        return report.description + "\n"
    }

    private static func json(_ run: Run) -> JSON {
        [
            "manifest": .string(run.workflow.name), "title": .string(run.title),
            "began": .string(run.result.began.formatted(.iso8601)), "seconds": number(run.result.seconds),
            "requests": .array(run.result.outcomes.map(json)),
        ]
    }

    private static func json(_ outcome: RequestOutcome) -> JSON {
        var object = JSONObject()
        func add(_ key: String, _ value: JSON?) { if let value { object.append(key: key, value: value) } }
        add("id", .string(outcome.id))
        add("item", outcome.item.map { .string($0) })
        add("index", outcome.index.map { .number(JSONNumber($0)) })
        add("manifest", .string(outcome.manifest))
        add("line", .number(JSONNumber(outcome.line)))
        add("state", .string(outcome.state.rawValue))
        add("method", outcome.method.map { .string($0) })
        add("url", outcome.url.map { .string($0) })
        add("status", outcome.status.map { .number(JSONNumber($0)) })
        add("bytes", .number(JSONNumber(outcome.bytes)))
        add("file", outcome.file.map { .string($0) })
        add("seconds", number(outcome.seconds))
        add("requests", .number(JSONNumber(outcome.requestCount)))
        add("retries", .number(JSONNumber(outcome.retryCount)))
        if outcome.hasMorePages { add("morePages", true) }
        let failures = outcome.failures.enumerated().map { index, text -> JSON in
            let position = outcome.failurePositions[index]
            let line = JSON.number(JSONNumber(position?.line ?? outcome.line))
            guard let position else { return ["line": line, "text": .string(text)] }
            return ["line": line, "column": .number(JSONNumber(position.column)), "text": .string(text)]
        }
        if !failures.isEmpty { add("failures", .array(failures)) }
        return .object(object)
    }

    private static func number(_ seconds: Double) -> JSON {
        JSONNumber((seconds * 1e6).rounded() / 1e6).map { .number($0) } ?? 0
    }
}

/// The numbers of outcomes in each state.
struct OutcomeCounts {
    let succeeded: Int
    let failed: Int
    let skipped: Int

    init(_ outcomes: [RequestOutcome]) {
        succeeded = outcomes.count(where: \.isSuccess)
        failed = outcomes.count { $0.state == .failed }
        skipped = outcomes.count { $0.state == .skipped }
    }

    /// The numbers that are not 0: `2 succeeded, 1 failed`.
    var text: String {
        let parts = [(succeeded, "succeeded"), (failed, "failed"), (skipped, "skipped")].filter { $0.0 > 0 }
        return parts.isEmpty ? "0 succeeded" : parts.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
    }
}
