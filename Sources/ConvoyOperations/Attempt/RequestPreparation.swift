import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A value that an operation takes from its dependencies for its request.
struct DependencyInput: Sendable {
    /// The operations that provide the values.
    let sources: [URLConnectionOperation]
    /// The closure that writes the values into the request, called if all sources have succeeded.
    let apply: URLConnectionOperation.Preparation

    /// Writes the values into a request.
    ///
    /// - Parameter mayLack: Whether to leave the request unchanged if a source has failed.
    /// - Throws: The error of the first source that failed, or the error of `apply`.
    func run(_ request: inout URLRequest, orWithout mayLack: Bool) throws {
        guard let failure else { return try apply(&request) }
        if !mayLack { throw failure }
    }

    private var failure: (any Error)? {
        for source in sources {
            guard source.state == .finished else {
                // The source is no longer a dependency.
                return URLError(
                    .resourceUnavailable, url: source.request.url,
                    "The request needs a value from an operation that has not finished.")
            }
            if let error = source.error { return error }
        }
        return nil
    }
}

/// All closures that modify the request when the operation begins. The operation then releases them, so that they run
/// once, however often it is paused or retried.
struct RequestPreparation: Sendable {
    var inputs: [DependencyInput]
    var prepare: URLConnectionOperation.Preparation?
    /// Whether the request may be sent without the value of a failed input.
    var mayLackInputs = false
    var secretScope = SecretScope.everywhere
    var secrets = SecretClassifier.standard

    /// Runs the inputs in the order in which they were added, then `prepare`.
    ///
    /// If they change the URL to one outside the scope, all secret fields that they have not set themselves are
    /// removed.
    func run(_ request: inout URLRequest) throws {
        let original = request
        for input in inputs { try input.run(&request, orWithout: mayLackInputs) }
        try prepare?(&request)
        guard secretScope.mayReceiveSecrets(original.url) else { return }
        let fields = original.allHTTPHeaderFields ?? [:]
        for name in secretScope.withheld(fields.keys, from: request.url, secrets)
        where request.value(forHTTPHeaderField: name) == fields[name] {
            request.setValue(nil, forHTTPHeaderField: name)
        }
    }
}

extension OperationCore {
    /// Removes and returns the preparation; nil if it has no closures to run.
    mutating func takePreparation() -> RequestPreparation? {
        guard let handlers = handlers.state, handlers.hasPreparation else { return nil }
        var preparation = RequestPreparation(inputs: handlers.inputs, prepare: handlers.prepare.take())
        handlers.inputs = []
        preparation.mayLackInputs = common.values.chosenDependencyFailurePolicy == .run
        preparation.secretScope = common.values.holder.secretScope
        preparation.secrets = common.values.connectionConfiguration.secrets
        return preparation
    }
}

extension OperationCore.OptionalHandlers {
    /// Whether a closure will modify the request when the operation begins.
    var hasPreparation: Bool { prepare != nil || !inputs.isEmpty }
}

extension URLConnectionOperation {
    /// Adds dependencies whose values are written into the request. Has no effect once the operation has begun.
    final func add(_ input: DependencyInput) {
        reportLateChange(of: "depend(on:)")
        core.withLock { core in
            // An input added later would never be called or released.
            guard !core.areHandlersDone, !core.hasBegun else { return }
            core.handlers.made.inputs.append(input)
        }
        for source in input.sources { addDependency(source) }
    }

    /// Returns the reason why a dependency did not succeed; nil if all succeeded.
    func failureOfDependency() -> (any Error)? {
        for dependency in dependencies {
            if let operation = dependency as? URLConnectionOperation, let error = operation.error { return error }
            if dependency.isCancelled {
                let reason = (dependency as? ScheduledOperation)?.cancellationReason
                return reason ?? URLError(.cancelled, url: nil, "A dependency was cancelled.")
            }
        }
        return nil
    }

    /// Runs the preparation of the request, if any. Calls user code.
    func prepareRequest(of attempt: Attempt) throws {
        guard let preparation = core.withLock({ $0.takePreparation() }) else { return }
        var request = request
        try preparation.run(&request)
        // Check and replace under one lock, so that the request of an ended attempt does not change.
        set(TransferRequest(request)) { if attempt.phase.isUnderWay { swap(&$0.request, &$1) } }
    }
}
