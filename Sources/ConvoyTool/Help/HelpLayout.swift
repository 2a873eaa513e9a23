/// Functions that format the text of help pages.
enum HelpLayout {
    /// The maximum line length. One of 80 columns stays free, because some terminals wrap a line that fills the last
    /// column.
    static let columns = 79

    /// Returns names with descriptions, all aligned in one column.
    static func rows(_ pairs: [(left: String, right: String)]) -> [String] {
        let column = 2 + (pairs.map(\.left.count).max() ?? 0) + 2
        return pairs.flatMap { pair in
            let lines = wrapped(pair.right, to: columns - column)
            let first = padded("  \(pair.left)", to: column) + (lines.first ?? "")
            return [first] + lines.dropFirst().map { String(repeating: " ", count: column) + $0 }
        }
    }

    /// Returns names with descriptions, two per line.
    static func grid(_ pairs: [(left: String, right: String)]) -> [String] {
        let column = (pairs.map(\.left.count).max() ?? 0) + 2
        let cells = pairs.map { padded($0.left, to: column) + $0.right }
        let half = 2 + (cells.enumerated().filter { $0.offset % 2 == 0 }.map(\.element.count).max() ?? 0) + 2
        return stride(from: 0, to: cells.count, by: 2).map { index in
            guard index + 1 < cells.count else { return "  \(cells[index])" }
            return padded("  \(cells[index])", to: half) + cells[index + 1]
        }
    }

    /// Breaks text into lines of at most the given number of characters.
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

/// The help pages of option topics.
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

    /// Returns options with descriptions. Options without a letter are aligned with the long names of other options.
    static func rows(_ options: [ToolOption]) -> [String] {
        HelpLayout.rows(
            options.map { option in
                (option.letter == nil ? "    \(option.usage)" : option.usageWithLetter, option.summary)
            })
    }
}

/// The meanings of the exit statuses, for the help and the manual page.
enum ExitStatusText {
    /// All exit statuses, in short form.
    static var short: String {
        let kinds = FailureKind.allCases.compactMap { kind in kind.term.map { "\(kind.exitStatus) \($0)" } }
        return "0 success; 1 several kinds of failure, or any other failure; 2 usage error; "
            + "\(kinds.joined(separator: "; ")); 128 + N terminated by signal N."
    }

    /// All exit statuses, as sentences without a final period.
    static var rows: [(status: String, meaning: String)] {
        [
            ("0", "Everything succeeded"),
            ("1", "Several kinds of failures occurred, or one that is not listed here"),
            (
                "2",
                "The command line, a list, the manifest or the configuration is invalid or unreadable; nothing was sent"
            ),
        ]
            + FailureKind.allCases.compactMap { kind in
                kind.meaning.map { ("\(kind.exitStatus)", $0) }
            }
    }
}

extension FailureKind {
    /// A short name, or nil for a kind without a dedicated exit status.
    var term: String? {
        switch self {
        case .name: "name not found"
        case .connection: "connection"
        case .tls: "TLS or trust"
        case .timeout: "timeout"
        case .status: "HTTP status"
        case .disk: "file error"
        case .checksum: "checksum"
        case .other, .usage, .cancelled, .dependency: nil
        }
    }

    /// An explanation, or nil for a kind without a dedicated exit status.
    var meaning: String? {
        switch self {
        case .name: "The name of a server or proxy could not be resolved"
        case .connection: "The connection could not be made or was lost, or the response was not HTTP"
        case .tls: "TLS failed, or the server is not trusted"
        case .timeout: "A timeout expired"
        case .status: "A server returned an error status"
        case .disk: "A file could not be read or written, or already exists"
        case .checksum: "A file does not match its checksum"
        case .other, .usage, .cancelled, .dependency: nil
        }
    }
}
