/// An option of the command line, as the table has it. What parses, explains and completes options reads this.
struct ToolOption: Sendable {
    /// What follows an option.
    struct Value: Sendable {
        /// What a shell can offer for it.
        enum Offer: Sendable, Equatable {
            case nothing, file, directory
            case oneOf([String])
        }

        /// What stands for it in the help: `SECONDS`.
        let placeholder: String
        var offer = Offer.nothing
    }

    /// Without the hyphens: `output`.
    let name: String
    /// Another name, which other programs have for it.
    var alias: String?
    var letter: Character?
    /// nil for an option that is there or not.
    var value: Value?
    /// Whether it may be given more than once.
    var repeats = false
    let topic: Topic
    /// The commands that have it.
    var commands = Command.transferring
    /// Whether it may stand in the configuration: what is about one run may not.
    var isConfigurable = true
    /// What it does, for the help: part of a sentence, without a full stop.
    let summary: String
    /// More, for the manual page: whole sentences.
    var details = ""

    /// As it is written: `--output FILE`.
    var usage: String { value.map { "--\(name) \($0.placeholder)" } ?? "--\(name)" }

    /// With its letter: `-o, --output FILE`.
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
