/// Lays out the text of the pages of help.
enum HelpLayout {
    /// The longest line of a page: a screen of 80 columns with a free one, as some terminals wrap in the last.
    static let columns = 79

    /// Texts with explanations beside them, all at the same column.
    static func rows(_ pairs: [(left: String, right: String)]) -> [String] {
        let column = 2 + (pairs.map(\.left.count).max() ?? 0) + 2
        return pairs.flatMap { pair in
            let lines = wrapped(pair.right, to: columns - column)
            let first = padded("  \(pair.left)", to: column) + (lines.first ?? "")
            return [first] + lines.dropFirst().map { String(repeating: " ", count: column) + $0 }
        }
    }

    /// Names with explanations, two of them on a line.
    static func grid(_ pairs: [(left: String, right: String)]) -> [String] {
        let column = (pairs.map(\.left.count).max() ?? 0) + 2
        let cells = pairs.map { padded($0.left, to: column) + $0.right }
        let half = 2 + (cells.enumerated().filter { $0.offset % 2 == 0 }.map(\.element.count).max() ?? 0) + 2
        return stride(from: 0, to: cells.count, by: 2).map { index in
            guard index + 1 < cells.count else { return "  \(cells[index])" }
            return padded("  \(cells[index])", to: half) + cells[index + 1]
        }
    }

    /// The words of a text in lines of at most this many characters.
    static func wrapped(_ text: String, to columns: Int = columns) -> [String] {
        var lines: [String] = []
        for word in text.split(separator: " ") {
            if let last = lines.last, last.count + word.count < columns {
                lines[lines.count - 1] = "\(last) \(word)"
            } else {
                lines.append(String(word))
            }
        }
        return lines
    }

    private static func padded(_ text: String, to columns: Int) -> String {
        text + String(repeating: " ", count: max(0, columns - text.count))
    }
}

/// The pages of help about the options of one topic.
enum TopicPages {
    static func page(of topic: Topic, _ command: Command) -> [String] {
        let options = OptionTable.options(of: command).filter { $0.topic == topic }
        let repeated = options.filter(\.repeats).map { "--\($0.name)" }
        var lines = [Help.usage(of: command), "", "\(topic.rawValue.capitalized): \(topic.title)", ""] + rows(options)
        lines.append("")
        if !repeated.isEmpty {
            lines += HelpLayout.wrapped("May be given several times: \(repeated.joined(separator: ", ")).")
        }
        lines.append("More about each option: convoy manual | man -l -")
        return lines
    }

    /// Options and what they do, with those without a letter below the names of the others.
    static func rows(_ options: [ToolOption]) -> [String] {
        HelpLayout.rows(
            options.map { option in
                (option.letter == nil ? "    \(option.usage)" : option.usageWithLetter, option.summary)
            })
    }
}

/// What the exit statuses mean, for the help and the manual page.
enum ExitStatusText {
    /// All of them in a few words.
    static var short: String {
        let kinds = FailureKind.allCases.compactMap { kind in kind.term.map { "\(kind.exitStatus) \($0)" } }
        return "0 all succeeded; 1 several kinds of failure, or another; 2 usage; "
            + "\(kinds.joined(separator: "; ")). A signal ends it by that signal."
    }

    /// Each of them, in sentences without a full stop.
    static var rows: [(status: String, meaning: String)] {
        [
            ("0", "Everything succeeded"),
            ("1", "There were failures of several kinds, or one that is not in this list"),
            (
                "2",
                "The command line, a list, the manifest or the configuration has a mistake or cannot be read, and nothing was sent"
            ),
        ]
            + FailureKind.allCases.compactMap { kind in
                kind.meaning.map { ("\(kind.exitStatus)", $0) }
            }
    }
}

extension FailureKind {
    /// The kind in a word or two; nil for one without an exit status of its own.
    var term: String? {
        switch self {
        case .name: "name not found"
        case .connection: "connection"
        case .tls: "TLS or trust"
        case .timeout: "timeout"
        case .status: "HTTP status"
        case .disk: "disk"
        case .checksum: "checksum"
        case .other, .usage, .cancelled, .dependency: nil
        }
    }

    /// What happened; nil for a kind without an exit status of its own.
    var meaning: String? {
        switch self {
        case .name: "The name of a server or of a proxy was not found"
        case .connection: "There was no connection, it was lost, or the answer was not HTTP"
        case .tls: "TLS failed, or the server is not trusted"
        case .timeout: "It took longer than an option allows"
        case .status: "A server answered with an error"
        case .disk: "A file could not be read or written, or was there already"
        case .checksum: "A file is not what it must be"
        case .other, .usage, .cancelled, .dependency: nil
        }
    }
}
