/// The help pages. Each page fits a screen of 80 columns and 24 rows, with one row left for the prompt.
enum Help {
    /// A short description of the program.
    static let summary = "downloads, uploads, and HTTP requests that depend on each other"

    /// Returns the help page of the program, a command or a topic.
    ///
    /// - Parameter words: Nothing, a command, or a command and a topic.
    /// - Throws: A usage error that lists the available pages.
    static func page(_ words: [String]) throws(ToolError) -> String {
        guard let name = words.first else { return text(program) }
        guard let command = Command(rawValue: name) else {
            throw .usage(
                "unknown command '\(Printable.line(name))'; the commands are \(list(Command.allCases.map(\.rawValue)))"
            )
        }
        guard words.count > 1 else { return text(CommandPages.page(of: command)) }
        let known = subjects(of: command)
        guard !known.isEmpty else { throw .usage("the help of \(name) has no topics") }
        let names = list(known.map(\.left))
        guard words.count == 2 else { throw .usage("only one topic can be given; the topics of \(name) are \(names)") }
        if let topic = Topic(rawValue: words[1]), Topic.topics(of: command).contains(topic) {
            return text(TopicPages.page(of: topic, command))
        }
        guard let guide = Guide(rawValue: words[1]), guide.commands.contains(command) else {
            throw .usage("unknown topic '\(Printable.line(words[1]))'; the topics of \(name) are \(names)")
        }
        return text(guide.page)
    }

    /// Returns the topics of a command, with their descriptions.
    static func subjects(of command: Command) -> [(left: String, right: String)] {
        Topic.topics(of: command).map { ($0.rawValue, $0.title) }
            + Guide.allCases.filter { $0.commands.contains(command) }.map { ($0.rawValue, $0.title) }
    }

    /// Returns the first line of the pages of a command.
    static func usage(of command: Command) -> String { "Usage: convoy \(command.rawValue)\(command.usage)" }

    private static var program: [String] {
        ["convoy: \(summary)", "Usage: convoy COMMAND [OPTION]...", "", "Commands:"]
            + HelpLayout.rows(Command.allCases.map { ($0.rawValue, $0.summary) })
            + ["", "Options:"]
            + HelpLayout.rows([
                ("-h, --help", "print this help; that of a command: convoy get --help"),
                ("    --version", "print the versions of the program and its libraries"),
            ])
            + ["Example: convoy get https://example.com/disk.iso"]
    }

    private static func text(_ lines: [String]) -> String { lines.joined(separator: "\n") }

    private static func list(_ words: [String]) -> String { words.joined(separator: ", ") }
}
