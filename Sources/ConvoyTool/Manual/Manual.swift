/// The manual page, in roff.
enum Manual {
    /// The date of the version rather than of the run, so that the page is identical in each run of a version.
    static let date = "2026-11-23"

    static var text: String {
        var page = Roff()
        page.title("CONVOY", section: 1, date: date, source: "convoy \(Program.version)", manual: "User Commands")
        page.section("NAME")
        page.paragraph("convoy - \(Help.summary)")
        page.section("SYNOPSIS")
        for command in Command.allCases { page.paragraph(styled: synopsis(of: command)) }
        ManualTexts.addDescription(to: &page)
        addCommands(to: &page)
        addOptions(to: &page)
        for (name, guide) in [
            ("LISTS", Guide.lists), ("MANIFESTS", .manifest), ("KEYS OF MANIFESTS", .keys),
            ("SERVICES", .service), ("CONFIGURATION", .config),
        ] {
            page.section(name)
            add(guide, to: &page)
        }
        page.section("EXIT STATUS")
        for row in ExitStatusText.rows { page.term(Roff.bold(row.status), "\(row.meaning).") }
        page.paragraph(
            """
            If a signal such as that of Ctrl-C ends the program, running transfers are stopped and the received parts of \
            their files are stored; then the program ends with that signal. A shell reports 128 plus the number of the \
            signal.
            """)
        ManualTexts.addEnvironment(to: &page)
        ManualTexts.addFiles(to: &page)
        ManualTexts.addExamples(to: &page)
        page.section("SEE ALSO")
        page.paragraph(styled: "\(Roff.bold("aria2c"))(1), \(Roff.bold("curl"))(1), \(Roff.bold("wget"))(1)")
        return page.text
    }

    private static func synopsis(of command: Command) -> String {
        // Words in capitals are placeholders.
        let rest = command.usage.split(separator: " ").map { word in
            let variable = word.drop { !$0.isUppercase }.prefix { $0.isUppercase }
            guard !variable.isEmpty else { return Roff.escaped(String(word)) }
            return Roff.escaped(String(word[..<variable.startIndex])) + Roff.italic(String(variable))
                + Roff.escaped(String(word[variable.endIndex...]))
        }
        return ([Roff.bold("convoy \(command.rawValue)")] + rest).joined(separator: " ")
    }

    private static func addCommands(to page: inout Roff) {
        page.section("COMMANDS")
        for command in Command.allCases {
            page.term(Roff.bold(command.rawValue), sentence(command.summary))
        }
        page.subsection("Actions of queue")
        for row in QueueAction.rows { page.term(Roff.bold("queue \(row.left)"), sentence(row.right)) }
        page.subsection("Actions of s3")
        for row in StorageAction.rows { page.term(Roff.bold("s3 \(row.left)"), sentence(row.right)) }
        page.paragraph(
            styled:
                "\(Roff.bold("convoy --version")) prints the versions of the program and of the libraries that it has loaded."
        )
    }

    private static func addOptions(to page: inout Roff) {
        page.section("OPTIONS")
        page.paragraph(
            """
            Options may come before and after URLs. The value of --option is the next argument, or follows an =; the value \
            of -o may also follow directly. After --, nothing is an option. Options that do not concern a single run can be \
            set in the configuration, see CONFIGURATION.
            """)
        for topic in Topic.allCases {
            page.subsection("\(topic.rawValue.capitalized): \(topic.title)")
            for option in OptionTable.all where option.topic == topic {
                page.term(term(of: option), explanation(of: option))
            }
        }
    }

    private static func term(of option: ToolOption) -> String {
        let names = [option.letter.map { "-\($0)" }, "--\(option.name)"].compactMap(\.self).map(Roff.bold)
        return names.joined(separator: ", ") + (option.value.map { " \(Roff.italic($0.placeholder))" } ?? "")
    }

    private static func explanation(of option: ToolOption) -> String {
        var sentences = [sentence(option.summary)]
        if !option.details.isEmpty { sentences.append(option.details) }
        if let alias = option.alias { sentences.append("Also as --\(alias).") }
        if option.repeats { sentences.append("The option may be given several times.") }
        if option.commands.count == 1, let command = option.commands.first {
            sentences.append("Only with \(command.rawValue).")
        }
        return sentences.joined(separator: " ")
    }

    private static func add(_ guide: Guide, to page: inout Roff) {
        for part in guide.parts {
            switch part {
            case .text(let text): page.paragraph(text)
            case .example(let lines): page.example(lines)
            }
        }
    }

    /// Returns a summary as a sentence.
    private static func sentence(_ text: String) -> String {
        text.prefix(1).uppercased() + text.dropFirst() + (text.hasSuffix(".") ? "" : ".")
    }
}
