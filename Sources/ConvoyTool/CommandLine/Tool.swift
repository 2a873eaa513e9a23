import Foundation

/// How the program ends.
enum ExitStatus: RawRepresentable, Equatable, Sendable {
    case success
    case failure
    case wrongUsage
    /// Ended by a signal, as a shell reports it: 128 and the number of the signal.
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
}

/// What stops the program before or in the middle of its work: one line for people, and the status.
struct ToolError: Error, Sendable {
    let text: String
    let status: ExitStatus

    static func usage(_ text: String) -> ToolError { ToolError(text: text, status: .wrongUsage) }
    static func failure(_ text: String) -> ToolError { ToolError(text: text, status: .failure) }
}

/// The program as a whole: finds the command and runs it.
enum Tool {
    static let version = "0.1.0"

    static let help = """
        convoy: HTTP requests as operations that wait for each other

        Usage: convoy COMMAND [OPTION]…

        Commands:
          demo      show a chain, a batch and a paused download against a server inside the program
          get       download URLs, several at a time
          run       run the requests of a manifest, in the order of their dependencies

        Options:
          -h, --help     print this help, or a command's: convoy get --help
              --version  print the version

        Exit status: 0 all succeeded, 1 something failed, 2 wrong usage, 130 interrupted.
        """

    static func run(_ arguments: [String]) -> ExitStatus {
        Interruption.shared.begin()
        let display = Display()
        do {
            return try dispatch(arguments, display)
        } catch let error as ToolError {
            display.complain(error.text)
            return error.status
        } catch {
            display.complain(ErrorText.line(for: error))
            return .failure
        }
    }

    private static func dispatch(_ arguments: [String], _ display: Display) throws -> ExitStatus {
        guard let first = arguments.first else {
            // Nobody asked for help: it is not output.
            display.complain("no command; try 'convoy --help'")
            return .wrongUsage
        }
        let rest = Array(arguments.dropFirst())
        switch first {
        case "demo": return try DemoCommand.run(rest, display)
        case "get": return try GetCommand.run(rest, display)
        case "run": return try RunCommand.run(rest, display)
        case "-h", "--help", "help":
            display.say(help)
            return .success
        case "--version":
            display.say("convoy \(version)")
            return .success
        default:
            let kind = first.hasPrefix("-") ? "option" : "command"
            throw ToolError.usage("unknown \(kind) '\(Printable.line(first))'; try 'convoy --help'")
        }
    }
}
