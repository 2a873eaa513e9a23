/// A command-line option. Parsing, help and completion all use this description.
struct ToolOption: Sendable {
    /// The value of an option.
    struct Value: Sendable {
        /// The completions that a shell can offer.
        enum Offer: Sendable, Equatable {
            case nothing, file, directory
            case oneOf([String])
        }

        /// The name of the value in the help: `SECONDS`.
        let placeholder: String
        var offer = Offer.nothing
    }

    /// The name without hyphens: `output`.
    let name: String
    /// An alternative name, used by other programs.
    var alias: String?
    var letter: Character?
    /// The value, or nil for a flag.
    var value: Value?
    /// Whether the option may be given more than once.
    var repeats = false
    let topic: Topic
    /// The commands that support the option.
    var commands = Command.transferring
    /// Whether the option may be set in the configuration. Options that concern a single run may not.
    var isConfigurable = true
    /// A description for the help: a phrase without a final period.
    let summary: String
    /// Details for the manual page: complete sentences.
    var details = ""

    /// The option as written on a command line: `--output FILE`.
    var usage: String { value.map { "--\(name) \($0.placeholder)" } ?? "--\(name)" }

    /// The option with its letter: `-o, --output FILE`.
    var usageWithLetter: String { letter.map { "-\($0), \(usage)" } ?? usage }
}

extension ToolOption {
    static func flag(
        _ name: String, _ letter: Character?, in topic: Topic, of commands: Set<Command> = Command.transferring,
        once: Bool = false, alias: String? = nil, _ summary: String, _ details: String = ""
    ) -> Self {
        ToolOption(
            name: name, alias: alias, letter: letter, topic: topic, commands: commands, isConfigurable: !once,
            summary: summary, details: details)
    }

    static func value(
        _ name: String, _ letter: Character?, _ placeholder: String, completes offer: Value.Offer = .nothing,
        in topic: Topic, of commands: Set<Command> = Command.transferring, repeats: Bool = false, once: Bool = false,
        _ summary: String, _ details: String = ""
    ) -> Self {
        ToolOption(
            name: name, letter: letter, value: Value(placeholder: placeholder, offer: offer),
            repeats: repeats, topic: topic, commands: commands, isConfigurable: !once, summary: summary,
            details: details)
    }
}
