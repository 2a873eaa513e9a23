import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The request of an operation, and its body when it is needed anew.
extension URLConnectionOperation {
    /// Whether the request says that it must not go over a mobile network. One that a manager has prepared says nothing.
    package final var barsCellularAccess: Bool {
        core.withLock { core in
            guard case .foundation(let request) = core.request else { return false }
            return !request.allowsCellularAccess
        }
    }

    /// Changes the request. To be called before the operation starts.
    package final func changeRequest(_ change: (inout URLRequest) -> Void) {
        var request = request
        change(&request)
        let changed = request
        replaceRequest(with: changed)
    }

    /// Sets another request than the operation was made with.
    final func replaceRequest(with request: URLRequest) {
        onlookers.insert(.otherRequest)
        set(TransferRequest.foundation(request)) { swap(&$0.request, &$1) }
    }

    /// A body stream that can be read from its start, in place of one that was read; nil where there is none. Calls the
    /// user's code.
    final func freshBodyStream(for stream: InputStream) -> InputStream? {
        if let delegate = delegate(interestedIn: .bodyStreams), let fresh = delegate.newBodyStream(of: self) {
            return fresh
        }
        return try? (stream as? any ReplayableBodyStream)?.replay()
    }

    /// Whether a body stream may be had anew.
    final func canReplay(_ stream: InputStream?) -> Bool {
        stream == nil || stream is any ReplayableBodyStream || delegate(interestedIn: .bodyStreams) != nil
    }
}

/// What an operation takes from operations that it depends on, for its request.
struct DependencyInput: Sendable {
    /// What has the values.
    let sources: [URLConnectionOperation]
    /// Writes the values into the request. Called if all of the sources have finished with success.
    let apply: URLConnectionOperation.Preparation

    /// Writes the values into a request.
    ///
    /// - Parameter mayLack: whether a request whose source has failed is left as it is.
    /// - Throws: the error of the first source that has failed; and what `apply` throws.
    func run(_ request: inout URLRequest, orWithout mayLack: Bool) throws {
        guard let failure else { return try apply(&request) }
        if !mayLack { throw failure }
    }

    private var failure: (any Error)? {
        for source in sources {
            guard source.state == .finished else {
                // It is no dependency any more.
                return URLError(
                    .resourceUnavailable, url: source.request.url,
                    "The request takes a value from an operation that has not finished.")
            }
            if let error = source.error { return error }
        }
        return nil
    }
}

/// All that rewrites the request of an operation when it begins: taken out then, so that it runs once, however often the
/// operation is paused or retried.
struct RequestPreparation: Sendable {
    var inputs: [DependencyInput]
    var prepare: URLConnectionOperation.Preparation?
    /// Whether the request may be sent without the value of an input that has failed.
    var mayLackInputs = false

    /// In the order in which the inputs were added; `prepare` sees what they have written.
    func run(_ request: inout URLRequest) throws {
        for input in inputs { try input.run(&request, orWithout: mayLackInputs) }
        try prepare?(&request)
    }
}

extension OperationCore {
    /// Takes what prepares the request; nil if nothing does.
    mutating func takePreparation() -> RequestPreparation? {
        guard var preparation = rareHandlers?.takePreparation() else { return nil }
        preparation.mayLackInputs = common.values.chosenDependencyFailurePolicy == .run
        return preparation
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
    /// Lets the operation depend on others, and write what they have brought into its request. Too late for one that has
    /// begun.
    final func add(_ input: DependencyInput) {
        core.withLock { core in
            // Nobody will call it, or let go of it.
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
    /// Says under which context the requests of an attempt go out; nil sends none. An error that it throws becomes the
    /// operation's.
    public typealias TraceContextProvider =
        @Sendable (_ operation: URLConnectionOperation) throws -> TraceContext?

    /// Called as each attempt begins, on one of the library's threads, which it may block: the place to begin a span of a
    /// tracer's, which an ``EventMonitor`` ends at `attemptEnded`. The requests have its `traceparent` and `tracestate`,
    /// unless the operation's request has set them; those of redirects as well. That of the manager, and nil by default.
    ///
    /// Operations that have one share no transfers.
    public final var traceContextProvider: TraceContextProvider? {
        get { core.withLock { $0.rareHandlers?.traceContext } }
        set { setHandler(\.traceContext, newValue) }
    }

    /// The context under which the latest attempt goes out; nil for none.
    public final var traceContext: TraceContext? { core.withLock { $0.traceContext } }
}
