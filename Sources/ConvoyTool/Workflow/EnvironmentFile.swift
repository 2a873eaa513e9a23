import Foundation

/// A reader for the files of `--env-file`, in the format of dotenv and Docker Compose, except that `$NAME` is not
/// expanded.
struct EnvironmentFile {
    struct Variable: Equatable {
        let name: String
        let value: String
        /// Whether the value is in quotes, and therefore a string.
        var isQuoted = false
    }

    private let scalars: [Unicode.Scalar]
    private var index = 0
    private var line = 1
    private let file: String

    /// Returns the variables, in order.
    ///
    /// A line is `NAME=VALUE`, with or without `export`. An unquoted value ends before a space followed by `#`.
    /// Single-quoted text is literal. In double quotes, `\n`, `\r`, `\t`, `\"`, `\$` and `\\` are escapes. A quoted
    /// value may span several lines.
    static func variables(in data: Data, _ file: String) throws(ToolError) -> [Variable] {
        let bytes = data.starts(with: [0xEF, 0xBB, 0xBF]) ? data.dropFirst(3) : data
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw .usage("\(Printable.line(file)) is not UTF-8")
        }
        var reader = EnvironmentFile(scalars: Array(text.replacing("\r\n", with: "\n").unicodeScalars), file: file)
        var variables: [Variable] = []
        while let variable = try reader.next() { variables.append(variable) }
        return variables
    }

    private init(scalars: [Unicode.Scalar], file: String) {
        self.scalars = scalars
        self.file = file
    }

    private func problem(_ message: String) -> ToolError { .usage("\(Printable.line(file)):\(line): \(message)") }

    /// Returns the next variable, or nil at the end.
    private mutating func next() throws(ToolError) -> Variable? {
        while let first = skipSpace() {
            if first == "\n" {
                advance()
            } else if first == "#" {
                skipLine()
            } else {
                return try variable()
            }
        }
        return nil
    }

    private mutating func variable() throws(ToolError) -> Variable {
        var name = ""
        while let next = peek, next != "=", next != "\n" {
            name.unicodeScalars.append(next)
            advance()
        }
        guard peek == "=" else { throw problem("expected NAME=VALUE") }
        if name.hasPrefix("export"), name.dropFirst(6).first?.isWhitespace == true { name = String(name.dropFirst(6)) }
        name = name.trimmingCharacters(in: .whitespaces)
        guard !name.isEmpty,
            !name.unicodeScalars.contains(where: { $0.properties.isWhitespace || "'\"".unicodeScalars.contains($0) })
        else { throw problem("expected NAME=VALUE") }
        advance()
        let hadSpace = peek == " " || peek == "\t"
        switch skipSpace() {
        case "'"?, "\""?: return Variable(name: name, value: try quotedValue(), isQuoted: true)
        default: return Variable(name: name, value: plainValue(afterSpace: hadSpace))
        }
    }

    private mutating func plainValue(afterSpace: Bool) -> String {
        var value = "", wasSpace = afterSpace
        while let next = peek, next != "\n" {
            if next == "#", wasSpace {
                skipLine()
                break
            }
            wasSpace = next == " " || next == "\t"
            value.unicodeScalars.append(next)
            advance()
        }
        return value.trimmingCharacters(in: .whitespaces)
    }

    private mutating func quotedValue() throws(ToolError) -> String {
        let mark = peek, start = problem("the closing quote is missing")
        advance()
        var value = String.UnicodeScalarView()
        while let next = peek, next != mark {
            advance()
            guard next == "\\", mark == "\"", let escaped = peek else {
                value.append(next)
                continue
            }
            advance()
            switch escaped {
            case "n": value.append("\n")
            case "r": value.append("\r")
            case "t": value.append("\t")
            case "\"", "\\", "$": value.append(escaped)
            default: value += ["\\", escaped]
            }
        }
        guard peek != nil else { throw start }
        advance()
        switch skipSpace() {
        case nil, "\n"?: break
        case "#"?: skipLine()
        default: throw problem("unexpected text after the closing quote")
        }
        return String(value)
    }

    // MARK: Characters

    private var peek: Unicode.Scalar? { index < scalars.count ? scalars[index] : nil }

    private mutating func advance() {
        if peek == "\n" { line += 1 }
        index += 1
    }

    /// Skips whitespace, and returns the next character.
    private mutating func skipSpace() -> Unicode.Scalar? {
        while let next = peek, next != "\n", next.properties.isWhitespace { advance() }
        return peek
    }

    private mutating func skipLine() { while let next = peek, next != "\n" { advance() } }
}
