/// A page in roff, written with the macros of man(7).
struct Roff {
    private var lines: [String] = []

    var text: String { lines.joined(separator: "\n") }

    /// Begins the page.
    mutating func title(_ name: String, section: Int, date: String, source: String, manual: String) {
        lines.append(".TH \(name) \(section) \(date) \"\(Self.escaped(source))\" \"\(manual)\"")
        // Disable hyphenation, which would break options and paths, and justification, which looks uneven without it.
        lines += [".nh", ".ad l"]
    }

    mutating func section(_ name: String) { lines.append(".SH \(Self.escaped(name))") }

    mutating func subsection(_ name: String) { lines.append(".SS \(Self.escaped(name))") }

    /// Adds a paragraph of plain text.
    mutating func paragraph(_ text: String) {
        beginParagraph()
        add(text)
    }

    /// Adds plain text.
    private mutating func add(_ text: String) {
        lines += HelpLayout.wrapped(text, to: 76).map { Self.line(Self.escaped($0)) }
    }

    /// Adds a paragraph of one line that is already escaped.
    mutating func paragraph(styled line: String) {
        beginParagraph()
        lines.append(Self.line(line))
    }

    /// Adds a term that is already escaped, with its explanation.
    mutating func term(_ term: String, _ text: String) {
        lines += [".TP", Self.line(term)]
        add(text)
    }

    /// Adds lines that are printed unchanged.
    mutating func example(_ example: [String]) {
        beginParagraph()
        lines += [".RS 4", ".nf"]
        lines += example.map { Self.line(Self.escaped($0)) }
        lines += [".fi", ".RE"]
    }

    /// Begins a paragraph, unless a heading has just done so.
    private mutating func beginParagraph() {
        let isBelowHeading = lines.last.map { $0.hasPrefix(".SH") || $0.hasPrefix(".SS") } ?? true
        if !isBelowHeading { lines.append(".PP") }
    }

    // MARK: Escapes

    static func bold(_ text: String) -> String { "\\fB\(escaped(text))\\fR" }

    static func italic(_ text: String) -> String { "\\fI\(escaped(text))\\fR" }

    /// Escapes text so that roff prints it unchanged, with hyphens that can be copied into a command line.
    static func escaped(_ text: String) -> String {
        text.unicodeScalars.reduce(into: "") { result, scalar in
            switch scalar {
            case "\\": result += "\\e"
            case "-": result += "\\-"
            case "'": result += "\\(aq"
            case "\"": result += "\\(dq"
            case "`": result += "\\(ga"
            case "^": result += "\\(ha"
            case "~": result += "\\(ti"
            case _ where !scalar.isASCII: result += "\\[u\(hexadecimal(scalar))]"
            default: result.unicodeScalars.append(scalar)
            }
        }
    }

    /// Returns a line that roff does not treat as a request, even if it begins with a dot.
    private static func line(_ text: String) -> String { text.hasPrefix(".") ? "\\&\(text)" : text }

    /// Returns a scalar as at least four hexadecimal digits, as roff requires.
    private static func hexadecimal(_ scalar: Unicode.Scalar) -> String {
        let digits = String(scalar.value, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }
}
