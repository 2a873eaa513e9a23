/// Writes a page in the language of roff, with the macros of man(7).
struct Roff {
    private var lines: [String] = []

    var text: String { lines.joined(separator: "\n") }

    /// Begins the page.
    mutating func title(_ name: String, section: Int, date: String, source: String, manual: String) {
        lines.append(".TH \(name) \(section) \(date) \"\(Self.escaped(source))\" \"\(manual)\"")
        // Options and paths can be copied only if they are not hyphenated, and without that, lines cannot be even.
        lines += [".nh", ".ad l"]
    }

    mutating func section(_ name: String) { lines.append(".SH \(Self.escaped(name))") }

    mutating func subsection(_ name: String) { lines.append(".SS \(Self.escaped(name))") }

    /// A paragraph of plain text.
    mutating func paragraph(_ text: String) {
        beginParagraph()
        add(text)
    }

    /// Plain text.
    private mutating func add(_ text: String) {
        lines += HelpLayout.wrapped(text, to: 76).map { Self.line(Self.escaped($0)) }
    }

    /// A paragraph of one line that has its escapes.
    mutating func paragraph(styled line: String) {
        beginParagraph()
        lines.append(Self.line(line))
    }

    /// A term that has its escapes, and its explanation.
    mutating func term(_ term: String, _ text: String) {
        lines += [".TP", Self.line(term)]
        add(text)
    }

    /// Lines that stay as they are.
    mutating func example(_ example: [String]) {
        beginParagraph()
        lines += [".RS 4", ".nf"]
        lines += example.map { Self.line(Self.escaped($0)) }
        lines += [".fi", ".RE"]
    }

    /// Begins a paragraph; a heading has done that already.
    private mutating func beginParagraph() {
        let isBelowHeading = lines.last.map { $0.hasPrefix(".SH") || $0.hasPrefix(".SS") } ?? true
        if !isBelowHeading { lines.append(".PP") }
    }

    // MARK: Escapes

    static func bold(_ text: String) -> String { "\\fB\(escaped(text))\\fR" }

    static func italic(_ text: String) -> String { "\\fI\(escaped(text))\\fR" }

    /// A text that roff prints as it is, with hyphens that can be copied into a command line.
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

    /// A line that is no request, even if it begins with a dot.
    private static func line(_ text: String) -> String { text.hasPrefix(".") ? "\\&\(text)" : text }

    /// At least four digits, as roff wants them.
    private static func hexadecimal(_ scalar: Unicode.Scalar) -> String {
        let digits = String(scalar.value, radix: 16, uppercase: true)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }
}
