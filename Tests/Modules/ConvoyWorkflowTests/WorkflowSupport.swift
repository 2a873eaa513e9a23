import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Runs manifests against a server.
struct WorkflowBench {
    let server: TestServer
    let directory: TemporaryDirectory

    init() throws {
        server = try TestServer()
        directory = try TemporaryDirectory()
    }

    func workflow(_ text: String, environment: [String: String] = [:], variables: [String: JSON] = [:]) throws -> Workflow {
        var environment = environment
        environment["API"] = server.url.absoluteString
        var inputs = WorkflowInputs(environment: environment)
        inputs.variables = variables
        return try Workflow(parsing: Data(("baseURL: ${env.API}\n" + text).utf8), name: "m.yaml", inputs: inputs)
    }

    @discardableResult
    func run(
        _ text: String, environment: [String: String] = [:], _ change: (inout WorkflowRun.Options) -> Void = { _ in }
    ) async throws -> Finished {
        var options = WorkflowRun.Options()
        options.directory = directory.url
        change(&options)
        let log = Locked<[String]>([])
        let run = try WorkflowRun(try workflow(text, environment: environment), options: options) { event in
            switch event {
            case .began(let outcome): log.withLock { $0.append("began \(outcome.name)") }
            case .finished(let outcome): log.withLock { $0.append("finished \(outcome.name)") }
            case .waiting(let outcome, _): log.withLock { $0.append("waiting \(outcome.name)") }
            }
        }
        return Finished(result: await run.run(), run: run, log: log.withLock { $0 })
    }

    struct Finished {
        let result: WorkflowResult
        let run: WorkflowRun
        let log: [String]

        var states: [String: String] {
            Dictionary(result.outcomes.map { ($0.name, $0.state.rawValue) }, uniquingKeysWith: { first, _ in first })
        }

        func outcome(_ name: String) throws -> RequestOutcome { try #require(result.outcomes.first { $0.name == name }) }

        func failure(_ name: String) throws -> String { try outcome(name).failures.joined(separator: " | ") }
    }
}
