import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The request of an operation, and its body when it must be sent again.
extension URLConnectionOperation {
    /// Whether the request must not use a mobile network. Prepared requests have no such setting.
    package final var barsCellularAccess: Bool {
        core.withLock { core in
            guard case .foundation(let request) = core.request else { return false }
            return !request.allowsCellularAccess
        }
    }

    /// Changes the request, before the operation starts.
    package final func changeRequest(_ change: (inout URLRequest) -> Void) {
        var request = request
        change(&request)
        let changed = request
        replaceRequest(with: changed)
    }

    /// Replaces the request.
    final func replaceRequest(with request: URLRequest) {
        flags.insert(.otherRequest)
        set(TransferRequest.foundation(request)) { swap(&$0.request, &$1) }
    }

    /// A stream for the body that begins at its start; nil if there is none. Calls user code.
    final func freshBodyStream(for stream: InputStream) -> InputStream? {
        if let delegate = delegate(interestedIn: .bodyStreams), let fresh = delegate.newBodyStream(of: self) {
            return fresh
        }
        return try? (stream as? any ReplayableBodyStream)?.replay()
    }

    /// Whether a new stream for the body can be made.
    final func canReplay(_ stream: InputStream?) -> Bool {
        stream == nil || stream is any ReplayableBodyStream || delegate(interestedIn: .bodyStreams) != nil
    }
}

/// An input that an operation takes from its dependencies for its request.
struct DependencyInput: Sendable {
    /// The operations that have the values.
    let sources: [URLConnectionOperation]
    /// Writes the values into the request. Called if all sources have succeeded.
    let apply: URLConnectionOperation.Preparation

    /// Writes the values into a request.
    ///
    /// - Parameter mayLack: whether the request is left unchanged if a source has failed.
    /// - Throws: the error of the first source that failed, or the error of `apply`.
    func run(_ request: inout URLRequest, orWithout mayLack: Bool) throws {
        guard let failure else { return try apply(&request) }
        if !mayLack { throw failure }
    }

    private var failure: (any Error)? {
        for source in sources {
            guard source.state == .finished else {
                // It is no longer a dependency.
                return URLError(
                    .resourceUnavailable, url: source.request.url,
                    "The request takes a value from an operation that has not finished.")
            }
            if let error = source.error { return error }
        }
        return nil
    }
}

/// Everything that changes the request when the operation begins. It is taken out then, so that it runs once, however
/// often the operation is paused or retried.
struct RequestPreparation: Sendable {
    var inputs: [DependencyInput]
    var prepare: URLConnectionOperation.Preparation?
    /// Whether the request may be sent without the value of an input that has failed.
    var mayLackInputs = false

    /// In the order in which the inputs were added; `prepare` runs after them.
    func run(_ request: inout URLRequest) throws {
        for input in inputs { try input.run(&request, orWithout: mayLackInputs) }
        try prepare?(&request)
    }
}

extension OperationCore {
    /// Takes out the preparation; nil if there is none.
    mutating func takePreparation() -> RequestPreparation? {
        guard var preparation = rareHandlers?.takePreparation() else { return nil }
        preparation.mayLackInputs = common.values.chosenDependencyFailurePolicy == .run
        return preparation
    }
}

extension OperationCore.RareHandlers {
    /// Takes out the preparation; nil if there is none.
    func takePreparation() -> RequestPreparation? {
        guard prepare != nil || !inputs.isEmpty else { return nil }
        defer { inputs = [] }
        return RequestPreparation(inputs: inputs, prepare: prepare.take())
    }

    /// Puts back a preparation that has not run.
    func putBack(_ preparation: RequestPreparation) {
        inputs = preparation.inputs + inputs
        if prepare == nil { prepare = preparation.prepare }
    }
}

extension URLConnectionOperation {
    /// Adds dependencies whose values are written into the request. Has no effect once the operation has begun.
    final func add(_ input: DependencyInput) {
        core.withLock { core in
            // It would never be called or released.
            guard !core.areHandlersDone, !core.hasBegun else { return }
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

extension URLConnectionOperation {
    /// Provides the trace context for the requests of an attempt; nil for none. An error that it throws becomes the
    /// operation's.
    public typealias TraceContextProvider =
        @Sendable (_ operation: URLConnectionOperation) throws -> TraceContext?

    /// Called as each attempt begins, on one of the library's threads, which it may block. Begin a span of a tracer
    /// here, and end it by an ``EventMonitor`` at `attemptEnded`. The requests have its `traceparent` and `tracestate`,
    /// unless the operation's request has set them; those of redirects as well. That of the manager, and nil by
    /// default.
    ///
    /// Operations with a provider share no transfers.
    public final var traceContextProvider: TraceContextProvider? {
        get { core.withLock { $0.rareHandlers?.traceContext } }
        set { setHandler(\.traceContext, newValue) }
    }

    /// The trace context of the latest attempt; nil for none.
    public final var traceContext: TraceContext? { core.withLock { $0.traceContext } }
}
