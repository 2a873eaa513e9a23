import Foundation

/// How the program ends.
enum ExitStatus: RawRepresentable, Equatable, Sendable {
    case success
    /// Something failed that has no status of its own, or several things in several ways.
    case failure
    case wrongUsage
    /// Everything that failed did so in this way.
    case failed(FailureKind)
    /// Ended by a signal. A shell shows 128 plus the signal's number.
    case interrupted(signal: Int32)

    /// The status of a run in which transfers failed in these ways.
    init(failures: some Sequence<FailureKind>) {
        let kinds = Set(failures)
        switch kinds.count {
        case 0: self = .success
        case 1: self = kinds.first.map { .failed($0) } ?? .failure
        default: self = .failure
        }
    }

    var rawValue: Int32 {
        switch self {
        case .success: 0
        case .failure: 1
        case .wrongUsage: 2
        case .failed(let kind): kind.exitStatus
        case .interrupted(let signal): 128 + signal
        }
    }

    init?(rawValue: Int32) {
        switch rawValue {
        case 0: self = .success
        case 1: self = .failure
        case 2: self = .wrongUsage
        case 129...: self = .interrupted(signal: rawValue - 128)
        default:
            guard let kind = FailureKind.allCases.first(where: { $0.exitStatus == rawValue }) else { return nil }
            self = .failed(kind)
        }
    }

    /// Ends the program.
    func end() -> Never {
        if case .interrupted(let signal) = self { Interruption.end(by: signal) }
        // Not `exit`: that clears away what OpenSSL needs, while other threads may still use it.
        fflush(nil)
        _exit(rawValue)
    }
}

/// An error that ends the program: a line for the user, and the exit status.
struct ToolError: Error, Sendable {
    let text: String
    let status: ExitStatus

    static func usage(_ text: String) -> ToolError { ToolError(text: text, status: .wrongUsage) }
    static func failure(_ text: String) -> ToolError { ToolError(text: text, status: .failure) }
    /// A file that cannot be read or written, or is in the way.
    static func disk(_ text: String) -> ToolError { ToolError(text: text, status: .failed(.disk)) }
}

extension ToolError: LocalizedError {
    var errorDescription: String? { text }
}
