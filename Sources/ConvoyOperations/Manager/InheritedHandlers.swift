/// The handlers that a manager gives its operations, unless they are given others.
struct InheritedHandlers: Sendable {
    var challenge: URLConnectionOperation.AuthenticationChallengeHandler?
    var traceContext: URLConnectionOperation.TraceContextProvider?

    func give(to operation: URLConnectionOperation) {
        if let challenge { operation.authenticationChallengeHandler = challenge }
        if let traceContext { operation.traceContextProvider = traceContext }
    }
}
