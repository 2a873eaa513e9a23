/// The pages of help. Each fits a screen of 80 columns and 24 rows.
enum Help {
    static let columns = 80

    /// The page of the program.
    static var program: String {
        let commands = Command.allCases.map { row($0.rawValue, $0.summary, indent: 12) }
        return """
            convoy: HTTP requests as operations that wait for each other

            Usage: convoy COMMAND [OPTION]…

            Commands:
            \(commands.joined(separator: "\n"))

            Options:
            \(row("-h, --help", "print this help, or a command's: convoy get --help", indent: 14))
            \(row("--version", "print the version", indent: 14))
            """
    }

    private static func row(_ left: String, _ right: String, indent: Int) -> String {
        let room = columns - indent - 2
        let lines = wrapped(right, to: room)
        let gap = String(repeating: " ", count: max(1, indent - left.count))
        let rest = lines.dropFirst().map { "\n" + String(repeating: " ", count: indent + 2) + $0 }
        return "  \(left)\(gap)\(lines.first ?? "")\(rest.joined())"
    }

    /// The words of a text in lines of at most this many characters.
    static func wrapped(_ text: String, to columns: Int) -> [String] {
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
}

extension Help {
    /// The page that words ask for: of the program, of a command, or of a topic.
    static func page(_ words: [String]) throws(ToolError) -> String { program }
}
