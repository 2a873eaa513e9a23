import ConvoyWorkflow

/// The options and arguments of a command.
///
/// Supports `--name`, `--name VALUE`, `--name=VALUE`, `-n`, `-n VALUE` and `-nVALUE`. All arguments after `--` are
/// treated as plain arguments. Options may come before and after other arguments. A lone `-` is an argument.
struct Options {
    let command: Command
    /// The arguments that are not options, in order.
    private(set) var arguments: [String] = []
    /// The options on the command line, in order.
    private(set) var given: [(option: ToolOption, value: String?)] = []
    private var values: [String: [String]] = [:]
    /// The names of the options that were set by the configuration only.
    private var configured: Set<String> = []
    /// The options that were given by their letter.
    private var lettered: Set<String> = []
    private let known: [ToolOption]

    /// Parses the arguments of a command.
    init(_ arguments: [String], command: Command) throws(ToolError) {
        self.command = command
        known = OptionTable.options(of: command)
        var rest = arguments[...]
        while let next = rest.popFirst() {
            if next == "--" {
                self.arguments += rest
                break
            } else if next.hasPrefix("--") {
                try readLong(next.dropFirst(2), &rest)
            } else if next.hasPrefix("-"), next != "-" {
                try readShort(next.dropFirst(), &rest)
            } else {
                self.arguments.append(next)
            }
        }
        for group in OptionTable.alternatives {
            let given = known.map(\.name).filter { group.contains($0) && has($0) }
            guard given.count < 2 else {
                throw usage("--\(given[0]) and --\(given[1]) cannot be combined")
            }
        }
    }

    /// The names of all given or configured options.
    var names: Dictionary<String, [String]>.Keys { values.keys }

    func has(_ name: String) -> Bool { values[name] != nil }

    /// Returns whether an option was given by its letter, which may have a different meaning in
    /// other programs.
    func wroteLetter(_ name: String) -> Bool { lettered.contains(name) }

    /// Returns the value of an option, or nil if it is not set.
    func value(_ name: String) -> String? { values[name]?.first }

    /// Returns all values of a repeatable option, in order.
    func all(_ name: String) -> [String] { values[name] ?? [] }

    /// Returns the value of an option as a whole number in a range, or nil if the option is not set.
    func integer(_ name: String, in range: ClosedRange<Int>) throws(ToolError) -> Int? {
        guard let text = value(name) else { return nil }
        guard let number = Int(text), range.contains(number) else {
            let advice = wroteLetter(name) && name == "segments" ? "; -q prints only errors" : ""
            throw usage("--\(name) takes a whole number from \(range.lowerBound) to \(range.upperBound)\(advice)")
        }
        return number
    }

    /// Returns the value of an option as a number of seconds, 0 or more, or nil if the option is not set.
    func seconds(_ name: String) throws(ToolError) -> Double? {
        guard let text = value(name) else { return nil }
        guard let number = Double(text), number.isFinite, number >= 0, number <= 1e9 else {
            throw usage("--\(name) takes a number of seconds")
        }
        return number
    }

    /// Returns the value of an option, which must be one of the words that the table allows, or nil if it is not set.
    func choice(_ name: String) throws(ToolError) -> String? {
        guard let text = value(name) else { return nil }
        guard case .oneOf(let words) = known.first(where: { $0.name == name })?.value?.offer else { return text }
        guard words.contains(text) else { throw usage("--\(name) takes \(WordChoice.text(words))") }
        return text
    }

    /// Adds the values of a configuration for options that are not on the command line. Values of
    /// repeatable options come before those of the command line.
    mutating func merge(_ configuration: [String: [String]]) {
        for option in known {
            guard let values = configuration[option.name] else { continue }
            guard !OptionTable.alternatives(to: option.name).contains(where: has) else { continue }
            if option.repeats {
                self.values[option.name] = values + all(option.name)
            } else if !has(option.name) {
                self.values[option.name] = values
            } else {
                continue
            }
            self.configured.insert(option.name)
        }
    }

    /// Returns these options with other values for some of them; nil removes an option.
    func replacing(_ values: [String: [String]?]) -> Options {
        var options = self
        for (name, value) in values { options.values[name] = value }
        return options
    }

    /// Returns an error that refers to the help. For each configured option in the text, the error mentions the
    /// configuration.
    func usage(_ text: String) -> ToolError {
        let words = text.split { !$0.isLetter && $0 != "-" }
        let origins = configured.sorted().filter { words.contains("--\($0)") }.map { "; --\($0) is in the configuration" }
        return .usage("\(text)\(origins.joined()); try 'convoy \(command.rawValue) --help'")
    }

    /// Returns an error that names the replacement for an option of another program.
    private func unknown(_ option: String) -> ToolError? {
        OtherPrograms.advice(on: option, for: command).map { usage("no option '\(option)': \($0)") }
    }

    private mutating func readLong(_ text: Substring, _ rest: inout ArraySlice<String>) throws(ToolError) {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = parts.first.map(String.init) ?? ""
        guard let option = known.first(where: { $0.name == name || $0.alias == name }) else {
            let near = Suggestion.nearest(to: name, among: known.flatMap { [$0.name, $0.alias].compactMap(\.self) })
            let question = near.map { "; did you mean '--\($0)'?" } ?? ""
            throw unknown("--\(name)") ?? usage("unknown option '--\(Printable.line(name))'\(question)")
        }
        try store(option, parts.count == 2 ? String(parts[1]) : nil, &rest)
    }

    private mutating func readShort(_ text: Substring, _ rest: inout ArraySlice<String>) throws(ToolError) {
        if text.count > 1, let error = unknown("-\(text)") { throw error }
        var letters = text
        while let letter = letters.popFirst() {
            guard let option = known.first(where: { $0.letter == letter }) else {
                throw unknown("-\(letter)") ?? usage("unknown option '-\(Printable.line(String(letter)))'")
            }
            lettered.insert(option.name)
            guard option.value != nil else {
                try store(option, nil, &rest)
                continue
            }
            return try store(option, letters.isEmpty ? nil : String(letters), &rest)
        }
    }

    private mutating func store(
        _ option: ToolOption, _ given: String?, _ rest: inout ArraySlice<String>
    ) throws(ToolError) {
        if values[option.name] != nil, option.value != nil, !option.repeats {
            throw usage("--\(option.name) is given twice")
        }
        if option.value != nil {
            guard let value = given ?? rest.popFirst() else { throw usage("--\(option.name) needs a value") }
            values[option.name, default: []].append(value)
            self.given.append((option, value))
        } else {
            guard given == nil else { throw usage("--\(option.name) takes no value") }
            values[option.name] = []
            self.given.append((option, nil))
        }
    }
}

/// Functions that format a list of alternatives.
enum WordChoice {
    /// Joins words: "a, b or c".
    static func text(_ words: [String]) -> String {
        guard let last = words.last, words.count > 1 else { return words.first ?? "" }
        return "\(words.dropLast().joined(separator: ", ")) or \(last)"
    }
}
