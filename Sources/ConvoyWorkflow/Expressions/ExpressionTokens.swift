import ConvoySerialization
import Foundation

/// A mistake in an expression.
struct ExpressionProblem: Error, Equatable {
    var message: String
    /// The position in the text, in Unicode scalars.
    var offset: Int
}

/// A word of an expression.
struct ExpressionToken: Sendable, Equatable {
    enum Kind: Sendable, Equatable {
        case name(String)
        /// A name in `${…}`.
        case reference(String)
        case number(JSONNumber)
        case text(String)
        /// A bracket, a separator or a comparison operator.
        case mark(String)
    }

    let kind: Kind
    /// The position in the text, in Unicode scalars.
    let range: Range<Int>

    var description: String {
        switch kind {
        case .name(let text), .text(let text), .mark(let text): quoted(text)
        case .reference(let text): quoted("${\(text)}")
        case .number(let number): quoted(number.text)
        }
    }

    private static let marks = ["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", "{", "}", ",", ":", "|"]

    /// Splits a text into its words.
    static func all(in scalars: [Unicode.Scalar]) throws(ExpressionProblem) -> [ExpressionToken] {
        var tokens: [ExpressionToken] = [], index = 0
        while index < scalars.count {
            let first = scalars[index]
            if first.properties.isWhitespace {
                index += 1
                continue
            }
            let (kind, length) = try next(in: scalars, at: index)
            tokens.append(ExpressionToken(kind: kind, range: index..<index + length))
            index += length
        }
        return tokens
    }

    private static func next(
        in scalars: [Unicode.Scalar], at start: Int
    ) throws(ExpressionProblem) -> (kind: Kind, length: Int) {
        let rest = scalars[start...]
        func problem(_ message: String) -> ExpressionProblem { ExpressionProblem(message: message, offset: start) }
        switch rest[start] {
        case "'", "\"":
            return try text(in: rest)
        case "$":
            let name = rest.dropFirst(2).prefix { $0 != "}" }
            guard rest.dropFirst().first == "{", name.endIndex < rest.endIndex else { throw problem("unexpected \"$\"") }
            return (.reference(string(name).trimmingCharacters(in: .whitespaces)), name.count + 3)
        case "-", "0"..."9":
            let digits = rest.prefix { "-+.eE0123456789".unicodeScalars.contains($0) }
            guard let number = JSONNumber(string(digits)) else {
                throw problem("invalid number \(quoted(string(digits)))")
            }
            return (.number(number), digits.count)
        default: break
        }
        let two = string(rest.prefix(2))
        if two == "||" || two == "&&" { throw problem("unexpected \(quoted(two)); use \(two == "||" ? "or" : "and")") }
        if let mark = marks.first(where: { two.unicodeScalars.starts(with: $0.unicodeScalars) }) {
            return (.mark(mark), mark.unicodeScalars.count)
        }
        let name = rest.prefix {
            $0.properties.isAlphabetic || $0 == "_" || $0 == "-" || $0 == "." || ("0"..."9").contains($0)
        }
        guard name.isEmpty else { return (.name(string(name)), name.count) }
        switch rest[start] {
        case "=": throw problem("unexpected \"=\"; use == to compare")
        case "!": throw problem("unexpected \"!\"; use not")
        default: throw problem("unexpected \(quoted(String(rest[start])))")
        }
    }

    /// Reads a string in quotes, in which a doubled quote stands for one quote.
    private static func text(
        in rest: ArraySlice<Unicode.Scalar>
    ) throws(ExpressionProblem) -> (kind: Kind, length: Int) {
        let mark = rest[rest.startIndex]
        var text = String.UnicodeScalarView(), index = rest.startIndex + 1
        while index < rest.endIndex {
            if rest[index] == mark {
                guard index + 1 < rest.endIndex, rest[index + 1] == mark else {
                    return (.text(String(text)), index + 1 - rest.startIndex)
                }
                index += 1
            }
            text.append(rest[index])
            index += 1
        }
        throw ExpressionProblem(message: "the closing quote is missing", offset: rest.startIndex)
    }

    private static func string(_ scalars: some Sequence<Unicode.Scalar>) -> String {
        var view = String.UnicodeScalarView()
        view.append(contentsOf: scalars)
        return String(view)
    }
}
