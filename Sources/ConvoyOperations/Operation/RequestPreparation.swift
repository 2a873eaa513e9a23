import Foundation
import FoundationNetworking

/// What an operation takes from operations that it depends on, for its request.
struct DependencyInput: Sendable {
    /// What has the values.
    let sources: [URLConnectionOperation]
    /// Writes the values into the request. Called if all of the sources have finished with success.
    let apply: URLConnectionOperation.Preparation

    /// Whether all values are there.
    private var isComplete: Bool { sources.allSatisfy { $0.isFinished && $0.error == nil } }

    /// Writes the values into a request. One that lacks a value is left alone: what a failed dependency means is a matter
    /// of the operation's policy.
    func run(_ request: inout URLRequest) throws {
        if isComplete { try apply(&request) }
    }
}

/// All that rewrites the request of an operation when it begins: taken out then, so that it runs once, however often the
/// operation is paused or retried.
struct RequestPreparation: Sendable {
    var inputs: [DependencyInput]
    var prepare: URLConnectionOperation.Preparation?

    /// In the order in which the inputs were added; `prepare` sees what they have written.
    func run(_ request: inout URLRequest) throws {
        for input in inputs { try input.run(&request) }
        try prepare?(&request)
    }
}

extension OperationCore.RareHandlers {
    /// Takes what prepares the request; nil if nothing does.
    func takePreparation() -> RequestPreparation? {
        guard prepare != nil || !inputs.isEmpty else { return nil }
        defer { inputs = [] }
        return RequestPreparation(inputs: inputs, prepare: prepare.take())
    }

    /// Puts back what was taken and has not run.
    func putBack(_ preparation: RequestPreparation) {
        inputs = preparation.inputs + inputs
        if prepare == nil { prepare = preparation.prepare }
    }
}

extension URLConnectionOperation {
    /// Lets the operation depend on others, and write what they have brought into its request.
    final func add(_ input: DependencyInput) {
        core.withLock { core in
            // Nobody will call it, or let go of it.
            guard !core.areHandlersDone else { return }
            core.handlers.inputs.append(input)
        }
        for source in input.sources { addDependency(source) }
    }

    /// Puts back a preparation that has not run, because the operation was stopped before.
    final func putBack(_ preparation: RequestPreparation) {
        core.withLock { core in
            guard !core.areHandlersDone else { return }
            core.handlers.putBack(preparation)
        }
    }
}
