import ConvoySupport

/// The errors of a `TestServer`.
public enum TestServerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A system call failed: its name, and its `errno`.
    case system(call: String, code: Int32)
    /// TLS is not possible with these settings: the reason.
    case unusableTLS(String)
    /// The wait timed out. The text has the counters at that time.
    case timedOut(String)
    /// The server was stopped during a wait.
    case stopped
    /// The requests differ from those that `TestServer.expect(_:_:count:where:)` expected: one sentence for each
    /// difference.
    case unmetExpectations([String])

    public var description: String {
        switch self {
        case .system(let call, let code): "\(call) failed with errno \(code) (\(SystemError(code: code).text))"
        case .unusableTLS(let reason): "these settings of TLS are unusable: \(reason)"
        case .timedOut(let text): "timed out: \(text)"
        case .stopped: "the server has been stopped"
        case .unmetExpectations(let list): "unmet expectations:\n" + list.map { "- \($0)" }.joined(separator: "\n")
        }
    }
}
