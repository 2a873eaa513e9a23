import ConvoySupport

/// What can go wrong when a `TestServer` is started or asked.
public enum TestServerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A system call failed: its name, and its `errno`.
    case system(call: String, code: Int32)
    /// The wait timed out. The text says what the server had seen by then.
    case timedOut(String)
    /// The server was stopped while something was waited for.
    case stopped
    /// What `TestServer.expect(_:_:count:where:)` announced and what came differ: one sentence for each difference.
    case unmetExpectations([String])

    public var description: String {
        switch self {
        case .system(let call, let code): "\(call) failed with errno \(code) (\(SystemError(code: code).text))"
        case .timedOut(let text): "timed out: \(text)"
        case .stopped: "the server has been stopped"
        case .unmetExpectations(let list): "unmet expectations:\n" + list.map { "- \($0)" }.joined(separator: "\n")
        }
    }
}
