/// The scripts that make shells complete the command line. They know what ``OptionTable`` knows.
enum Completion {
    enum Shell: String, CaseIterable, Sendable {
        case bash, zsh, fish
    }

    /// The script for the shell that the arguments name.
    static func script(_ options: Options) throws(ToolError) -> String {
        let shells = WordChoice.text(Shell.allCases.map(\.rawValue))
        guard let name = options.arguments.first else { throw options.usage("no shell: \(shells)") }
        guard options.arguments.count == 1 else { throw options.usage("one shell at a time: \(shells)") }
        guard let shell = Shell(rawValue: name) else {
            throw options.usage("unknown shell '\(Printable.line(name))': it must be \(shells)")
        }
        return script(for: shell)
    }

    static func script(for shell: Shell) -> String {
        switch shell {
        case .bash: BashCompletion.script
        case .zsh: ZshCompletion.script
        case .fish: FishCompletion.script
        }
    }

    static let commands = Command.allCases.map(\.rawValue)

    /// What may stand after `--help` and the like.
    static func topics(of command: Command) -> [String] { Help.subjects(of: command).map(\.left) }

    /// The options of the program itself.
    static let programOptions: [(name: String, letter: Character?, summary: String)] = [
        ("help", "h", "print the help"), ("version", nil, "print the versions of the program and its libraries"),
    ]

    /// The words for an argument of a command that is no option; nil for those that take others.
    static func words(of command: Command) -> [String]? {
        switch command {
        case .completion: Shell.allCases.map(\.rawValue)
        case .help: commands
        case .importing: ["curl", "har"]
        case .queue: QueueAction.allCases.map(\.rawValue)
        case .get, .put, .run, .check, .send, .events, .work, .demo, .manual: nil
        }
    }

    /// Whether the arguments of a command are files. Those of `get` are URLs.
    static func takesFiles(_ command: Command) -> Bool { command == .run || command == .check || command == .put }
}
