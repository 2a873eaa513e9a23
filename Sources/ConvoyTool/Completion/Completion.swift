/// The shell completion scripts, generated from ``OptionTable``.
enum Completion {
    enum Shell: String, CaseIterable, Sendable {
        case bash, zsh, fish
    }

    /// Returns the script for the shell that the arguments name.
    static func script(_ options: Options) throws(ToolError) -> String {
        let shells = WordChoice.text(Shell.allCases.map(\.rawValue))
        guard let name = options.arguments.first else { throw options.usage("the shell is missing: \(shells)") }
        guard options.arguments.count == 1 else { throw options.usage("only one shell can be given: \(shells)") }
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

    /// Returns the words that may follow `--help` and similar options.
    static func topics(of command: Command) -> [String] { Help.subjects(of: command).map(\.left) }

    /// The options of the program itself.
    static let programOptions: [(name: String, letter: Character?, summary: String)] = [
        ("help", "h", "print the help"), ("version", nil, "print the versions of the program and its libraries"),
    ]

    /// Returns the possible words for an argument of a command, or nil if the command takes other arguments.
    static func words(of command: Command) -> [String]? {
        switch command {
        case .completion: Shell.allCases.map(\.rawValue)
        case .help: commands
        case .importing: ["curl", "har"]
        case .queue: QueueAction.allCases.map(\.rawValue)
        case .storage: StorageAction.allCases.map(\.rawValue)
        case .get, .put, .run, .check, .send, .events, .work, .demo, .manual: nil
        }
    }

    /// Returns whether the arguments of a command are files. The arguments of `get` are URLs.
    static func takesFiles(_ command: Command) -> Bool { [.run, .check, .put, .storage].contains(command) }
}
