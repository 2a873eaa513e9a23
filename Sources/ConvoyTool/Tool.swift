import ConvoyTransport
import ConvoyWorkflow

/// The entry point of the program, which finds the command and runs it.
enum Tool {
    static func run(_ arguments: [String]) -> ExitStatus {
        StandardStreams.openClosed()
        DescriptorLimit.raise
        Interruption.shared.begin(Display.terminal.and(SilentTerminal.terminal))
        let display = Display()
        let status = status(of: arguments, display)
        // If the output could not be written, the run has failed.
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

    /// The first argument that is not valid UTF-8, as repaired by Swift. It names a different file or URL.
    private static var repairedArgument: String? {
        for number in 1..<max(1, Int(CommandLine.argc)) {
            guard let argument = CommandLine.unsafeArgv[number], String(validatingCString: argument) == nil else { continue }
            return String(cString: argument)
        }
        return nil
    }

    private static func dispatch(_ arguments: [String], _ display: Display) throws -> ExitStatus {
        if let argument = repairedArgument {
            throw ToolError.usage("invalid UTF-8 in the argument '\(Printable.line(argument))'")
        }
        guard let first = arguments.first else {
            // A missing command is an error rather than a request for help, so the message goes to standard error.
            display.complain("no command; try 'convoy --help'")
            return .wrongUsage
        }
        let rest = Array(arguments.dropFirst())
        switch first {
        case "-h", "--help": return try help(rest, display)
        case "--version":
            display.say(Program.description)
            return .success
        default: break
        }
        guard let command = Command(rawValue: first) else {
            let isOption = first.hasPrefix("-")
            let advice = (isOption ? nil : adviceOn(word: first)) ?? "try 'convoy --help'"
            throw ToolError.usage(
                "unknown \(isOption ? "option" : "command") '\(Printable.line(Shown.url(first)))'; \(advice)")
        }
        var options = try Options(rest, command: command)
        if command == .help || options.has("help") {
            return try help(command == .help ? options.arguments : [first] + topics(rest, options), display)
        }
        Shown.secrets = options.has("show-secrets")
        if Command.transferring.contains(command), !options.has("no-config") { options.merge(try Configuration.read()) }
        switch command {
        case .demo: return try DemoCommand.run(options, display)
        case .get: return try GetCommand.run(options)
        case .put: return try PutCommand.run(options)
        case .storage: return try StorageCommand.run(options)
        case .run: return try RunCommand.run(options)
        case .check: return try CheckCommand.run(options, display)
        case .send: return try SendCommand.run(options)
        case .importing: return try ImportCommand.run(options, display)
        case .events: return try EventsCommand.run(options)
        case .work: return try WorkCommand.run(options)
        case .queue: return try QueueCommand.run(options)
        case .completion:
            let script = try Completion.script(options)
            display.say(script)
            return .success
        case .manual:
            guard options.arguments.isEmpty else { throw options.usage("manual takes no arguments") }
            display.say(Manual.text)
            return .success
        case .help: return try help(options.arguments, display)
        }
    }

    /// Returns a suggestion for a first argument that is not a command: a file, a URL, a method, another program or a typo.
    private static func adviceOn(word: String) -> String? {
        if [".yaml", ".yml", ".json"].contains(where: word.hasSuffix), !word.contains("://") {
            return "try 'convoy run FILE'"
        }
        if word.contains("://") || word.contains("/") && word.contains(".") || word.contains(":") {
            return "try 'convoy get URL' or 'convoy send GET URL'"
        }
        if ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"].contains(word) {
            return "try 'convoy send \(word) URL'"
        }
        if word == "curl" { return "try \"convoy import curl 'curl ...'\"" }
        return Suggestion.nearest(to: word, among: Command.allCases.map(\.rawValue)).map { "did you mean 'convoy \($0)'?" }
    }

    /// Returns the words after `--help`. The arguments before it belong to the command that would have run.
    private static func topics(_ arguments: [String], _ options: Options) -> [String] {
        arguments.drop { $0 != "--help" && $0 != "-h" }.filter(options.arguments.contains)
    }

    private static func help(_ words: [String], _ display: Display) throws(ToolError) -> ExitStatus {
        let page = try Help.page(words)
        display.say(page)
        return .success
    }
}
