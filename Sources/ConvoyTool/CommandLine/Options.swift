/// The options and arguments of a command.
///
/// It supports `--name`, `--name VALUE`, `--name=VALUE`, `-n`, `-n VALUE`, `-nVALUE`, and `--`, after which nothing is
/// an option. Options may come before and after other arguments. A lone `-` is an argument.
struct Options {
    /// An option that a command understands.
    struct Option {
        let long: String
        var short: Character?
        var takesValue = false
        /// Whether it may be given more than once.
        var repeats = false

        static func flag(_ long: String, _ short: Character? = nil) -> Option { Option(long: long, short: short) }
        static func value(_ long: String, _ short: Character? = nil, repeats: Bool = false) -> Option {
            Option(long: long, short: short, takesValue: true, repeats: repeats)
        }
    }

    /// The arguments that are not options, in order.
    private(set) var arguments: [String] = []
    private var values: [String: [String]] = [:]
    private let command: String
    private let known: [Option]

    /// Parses the arguments of a command. Every command has `--help`.
    init(_ arguments: [String], command: String, known: [Option]) throws(ToolError) {
        self.command = command
        self.known = known + [.flag("help", "h")]
        var rest = arguments[...]
        while let next = rest.popFirst() {
            if next == "--" {
                self.arguments += rest
                return
            } else if next.hasPrefix("--") {
                try readLong(next.dropFirst(2), &rest)
            } else if next.hasPrefix("-"), next != "-" {
                try readShort(next.dropFirst(), &rest)
            } else {
                self.arguments.append(next)
            }
        }
    }

    func has(_ long: String) -> Bool { values[long] != nil }

    /// The value of an option, or nil without it.
    func value(_ long: String) -> String? { values[long]?.first }

    /// All values of an option that may be repeated, in order.
    func all(_ long: String) -> [String] { values[long] ?? [] }

    /// A whole number in a range.
    func integer(_ long: String, in range: ClosedRange<Int>) throws(ToolError) -> Int? {
        guard let text = value(long) else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw usage("--\(long) takes a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A number of seconds, 0 or more.
    func seconds(_ long: String) throws(ToolError) -> Double? {
        guard let text = value(long) else { return nil }
        guard let number = Double(text), number.isFinite, number >= 0, number <= 1e9 else {
            throw usage("--\(long) takes a number of seconds")
        }
        return number
    }

    /// An error that says where to find help.
    func usage(_ text: String) -> ToolError { .usage("\(text); try 'convoy \(command) --help'") }

    private mutating func readLong(_ text: Substring, _ rest: inout ArraySlice<String>) throws(ToolError) {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = parts.first.map(String.init) ?? ""
        guard let option = known.first(where: { $0.long == name }) else {
            throw usage("unknown option '--\(Printable.line(name))'")
        }
        try store(option, parts.count == 2 ? String(parts[1]) : nil, &rest)
    }

    private mutating func readShort(_ text: Substring, _ rest: inout ArraySlice<String>) throws(ToolError) {
        var letters = text
        while let letter = letters.popFirst() {
            guard let option = known.first(where: { $0.short == letter }) else {
                throw usage("unknown option '-\(Printable.line(String(letter)))'")
            }
            guard option.takesValue else {
                try store(option, nil, &rest)
                continue
            }
            return try store(option, letters.isEmpty ? nil : String(letters), &rest)
        }
    }

    private mutating func store(
        _ option: Option, _ given: String?, _ rest: inout ArraySlice<String>
    ) throws(ToolError) {
        if values[option.long] != nil, option.takesValue, !option.repeats {
            throw usage("--\(option.long) is given twice")
        }
        if option.takesValue {
            guard let value = given ?? rest.popFirst() else { throw usage("--\(option.long) needs a value") }
            values[option.long, default: []].append(value)
        } else {
            guard given == nil else { throw usage("--\(option.long) takes no value") }
            values[option.long] = []
        }
    }
}
