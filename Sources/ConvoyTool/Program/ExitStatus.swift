import Foundation

/// How the program ends.
enum ExitStatus: RawRepresentable, Equatable, Sendable {
    case success
    case failure
    case wrongUsage
    /// Ended by a signal. A shell shows 128 plus the signal's number.
    case interrupted(signal: Int32)

    var rawValue: Int32 {
        switch self {
        case .success: 0
        case .failure: 1
        case .wrongUsage: 2
        case .interrupted(let signal): 128 + signal
        }
    }

    init?(rawValue: Int32) {
        switch rawValue {
        case 0: self = .success
        case 1: self = .failure
        case 2: self = .wrongUsage
        case 129...: self = .interrupted(signal: rawValue - 128)
        default: return nil
        }
    }

    /// Ends the program.
    func end() -> Never {
        if case .interrupted(let signal) = self { Interruption.end(by: signal) }
        exit(rawValue)
    }
}

/// An error that ends the program: a line for the user, and the exit status.
struct ToolError: Error, Sendable {
    let text: String
    let status: ExitStatus

    static func usage(_ text: String) -> ToolError { ToolError(text: text, status: .wrongUsage) }
    static func failure(_ text: String) -> ToolError { ToolError(text: text, status: .failure) }
}

extension ToolError: LocalizedError {
    var errorDescription: String? { text }
}
