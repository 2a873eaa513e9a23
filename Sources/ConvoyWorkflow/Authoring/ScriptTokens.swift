import ConvoySerialization
import Foundation

/// A word of a test script in JavaScript, as far as the importers of collections read it.
enum ScriptToken: Equatable {
    case name(String)
    case number(String)
    case text(String)
    case regex(String)
    case mark(String)

    private static let marks = ["===", "!==", "=>", "==", "!=", ">=", "<=", "&&", "||"]

    /// Splits a script. Comments are left out.
    ///
    /// - Returns: The words, or nil if a string or a comment does not end.
    static func all(in script: String) -> [ScriptToken]? {
        var tokens: [ScriptToken] = [], rest = Array(script)[...]
        func starts(with text: String) -> Bool { rest.starts(with: Array(text)) }
        while let first = rest.first {
            if first.isWhitespace {
                rest.removeFirst()
            } else if starts(with: "//") {
                rest = rest.drop { !$0.isNewline }
            } else if starts(with: "/*") {
                rest = rest.dropFirst(2)
                while !starts(with: "*/") { guard rest.popFirst() != nil else { return nil } }
                rest = rest.dropFirst(2)
            } else if "'\"`".contains(first) {
                guard let text = string(&rest) else { return nil }
                tokens.append(.text(text))
            } else if first == "/", mayBeginRegex(after: tokens.last) {
                guard let pattern = regex(&rest) else { return nil }
                tokens.append(.regex(pattern))
            } else if first.isASCII, first.isNumber {
                let digits = rest.prefix { $0.isASCII && ($0.isNumber || $0.isLetter || $0 == ".") }
                tokens.append(.number(String(digits)))
                rest = rest.dropFirst(digits.count)
            } else if first.isLetter || first == "_" || first == "$" {
                let name = rest.prefix { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "$" }
                tokens.append(.name(String(name)))
                rest = rest.dropFirst(name.count)
            } else {
                let mark = marks.first(where: starts) ?? String(first)
                tokens.append(.mark(mark))
                rest = rest.dropFirst(mark.count)
            }
        }
        return tokens
    }

    private static func mayBeginRegex(after token: ScriptToken?) -> Bool {
        switch token {
        case nil: true
        case .mark(let mark)?: ![")", "]", "}"].contains(mark)
        default: false
        }
    }

    private static func string(_ rest: inout ArraySlice<Character>) -> String? {
        guard let quote = rest.popFirst() else { return nil }
        var text = ""
        while let character = rest.popFirst() {
            if character == quote { return text }
            // A template string with a value is not a constant.
            if quote == "`", character == "$", rest.first == "{" { return nil }
            guard character == "\\" else {
                text.append(character)
                continue
            }
            switch rest.popFirst() {
            case "n"?: text.append("\n")
            case "r"?: text.append("\r")
            case "t"?: text.append("\t")
            case "u"?:
                guard let code = UInt32(String(rest.prefix(4)), radix: 16), let scalar = Unicode.Scalar(code) else {
                    return nil
                }
                text.unicodeScalars.append(scalar)
                rest = rest.dropFirst(4)
            case let next?: text.append(next)
            case nil: return nil
            }
        }
        return nil
    }

    private static func regex(_ rest: inout ArraySlice<Character>) -> String? {
        rest.removeFirst()
        var pattern = "", isClass = false
        while let character = rest.popFirst() {
            if character == "\\", let next = rest.popFirst() {
                pattern += next == "/" ? "/" : "\\\(next)"
                continue
            }
            if character == "[" { isClass = true }
            if character == "]" { isClass = false }
            if character == "/", !isClass {
                let flags = rest.prefix { $0.isLetter }
                rest = rest.dropFirst(flags.count)
                guard flags.allSatisfy({ "igmsu".contains($0) }) else { return nil }
                let known = String(flags.filter { "ims".contains($0) })
                return known.isEmpty ? pattern : "(?\(known))\(pattern)"
            }
            guard !character.isNewline else { return nil }
            pattern.append(character)
        }
        return nil
    }

    /// The word as it is written in a note.
    var source: String {
        switch self {
        case .name(let text), .number(let text), .mark(let text): text
        case .text(let text): JSON.string(text).description
        case .regex(let pattern): "/\(pattern)/"
        }
    }

    /// Returns words as a line of a script.
    static func line(_ tokens: some Collection<ScriptToken>) -> String {
        var line = "", last: ScriptToken?
        for token in tokens {
            var isSpaced = false
            if let last {
                switch (last, token) {
                case (_, .mark("(")), (_, .mark(")")), (_, .mark(".")), (_, .mark(",")), (_, .mark("[")), (_, .mark("]")),
                    (.mark("("), _), (.mark("."), _), (.mark("["), _), (.mark("!"), _):
                    isSpaced = false
                default: isSpaced = true
                }
            }
            line += (isSpaced ? " " : "") + token.source
            last = token
        }
        return line
    }
}
