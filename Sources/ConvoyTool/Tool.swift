/// The command line as a whole: finds the command and runs it.
enum Tool {
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

        Exit status: 0 all succeeded, 1 something failed, 2 usage error, 130 interrupted by Ctrl-C.
        """

    static func run(_ arguments: [String]) -> ExitStatus {
        StandardStreams.openClosed()
        Interruption.shared.begin(Display.terminal.and(SilentTerminal.terminal))
        let display = Display()
        let status = status(of: arguments, display)
        // If output could not be written, that is a failure.
        return status == .success && Display.hasFailed ? .failure : status
    }

    private static func status(of arguments: [String], _ display: Display) -> ExitStatus {
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
            // An error, not a request for help, so the message goes to standard error.
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
            display.say("convoy \(Program.version)")
            return .success
        default:
            let kind = first.hasPrefix("-") ? "option" : "command"
            throw ToolError.usage("unknown \(kind) '\(Printable.line(first))'; try 'convoy --help'")
        }
    }
}
