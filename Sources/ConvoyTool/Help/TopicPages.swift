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
