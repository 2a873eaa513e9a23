import ConvoySupport
import Foundation

/// Reads one value of JSON from bytes. Nesting deeper than a hundred levels is an error.
struct JSONParser {
    private var rest: ArraySlice<UInt8>
    private var position = JSONPosition()
    private static let maximumDepth = 100

    static func value(of data: Data) throws(JSONProblem) -> JSONValue {
        var parser = JSONParser(rest: [UInt8](data)[...])
        if parser.rest.starts(with: [0xEF, 0xBB, 0xBF]) { parser.rest = parser.rest.dropFirst(3) }
        let value = try parser.value(depth: 0)
        parser.skipSpace()
        guard parser.rest.isEmpty else { throw parser.problem("something follows the end of the value") }
        return value
    }

    private init(rest: ArraySlice<UInt8>) { self.rest = rest }

    private mutating func value(depth: Int) throws(JSONProblem) -> JSONValue {
        skipSpace()
        guard depth <= Self.maximumDepth else { throw problem("nested too deep") }
        let start = position
        let content: JSONValue.Content
        switch rest.first {
        case UInt8(ascii: "{"): content = .object(try members(depth))
        case UInt8(ascii: "["): content = .array(try elements(depth))
        case UInt8(ascii: "\""): content = .string(try string())
        case UInt8(ascii: "t"): content = try word("true", .bool(true))
        case UInt8(ascii: "f"): content = try word("false", .bool(false))
        case UInt8(ascii: "n"): content = try word("null", .null)
        case let byte? where byte == UInt8(ascii: "-") || ASCII.isDigit(byte): content = .number(try number())
        default: throw unexpected("a value")
        }
        return JSONValue(content: content, position: start)
    }

    private mutating func members(_ depth: Int) throws(JSONProblem) -> [JSONValue.Member] {
        take()
        var members: [JSONValue.Member] = []
        var keys: Set<String> = []
        skipSpace()
        if takeIf("}") { return [] }
        while true {
            skipSpace()
            let start = position
            guard rest.first == UInt8(ascii: "\"") else { throw unexpected("a key in quotes") }
            let key = try string()
            guard keys.insert(key).inserted else {
                throw JSONProblem(text: "the key \"\(Printable.line(key))\" is there twice", position: start)
            }
            skipSpace()
            guard takeIf(":") else { throw unexpected("':'") }
            members.append(JSONValue.Member(key: key, position: start, value: try value(depth: depth + 1)))
            skipSpace()
            if takeIf("}") { return members }
            guard takeIf(",") else { throw unexpected("',' or '}'") }
        }
    }

    private mutating func elements(_ depth: Int) throws(JSONProblem) -> [JSONValue] {
        take()
        var elements: [JSONValue] = []
        skipSpace()
        if takeIf("]") { return [] }
        while true {
            elements.append(try value(depth: depth + 1))
            skipSpace()
            if takeIf("]") { return elements }
            guard takeIf(",") else { throw unexpected("',' or ']'") }
        }
    }

    private mutating func string() throws(JSONProblem) -> String {
        let start = position
        take()
        var bytes: [UInt8] = []
        while let byte = rest.first {
            switch byte {
            case UInt8(ascii: "\""):
                take()
                guard let text = String(validating: bytes, as: UTF8.self) else {
                    throw JSONProblem(text: "the string is not UTF-8", position: start)
                }
                return text
            case UInt8(ascii: "\\"): try escape(into: &bytes)
            case 0..<0x20: throw problem("a control character in a string")
            default:
                bytes.append(byte)
                take()
            }
        }
        throw JSONProblem(text: "the string has no end", position: start)
    }

    private mutating func escape(into bytes: inout [UInt8]) throws(JSONProblem) {
        let start = position
        take()
        guard let letter = rest.first else { throw problem("the text ends in a string") }
        take()
        switch letter {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): bytes.append(letter)
        case UInt8(ascii: "b"): bytes.append(8)
        case UInt8(ascii: "f"): bytes.append(12)
        case UInt8(ascii: "n"): bytes.append(10)
        case UInt8(ascii: "r"): bytes.append(13)
        case UInt8(ascii: "t"): bytes.append(9)
        case UInt8(ascii: "u"):
            var units = [try hexadecimal(start)]
            if 0xD800..<0xDC00 ~= units[0], takeIf("\\"), takeIf("u") { units.append(try hexadecimal(start)) }
            guard let text = String(validating: units, as: UTF16.self) else {
                throw JSONProblem(text: "half of a surrogate pair", position: start)
            }
            bytes += text.utf8
        default: throw JSONProblem(text: "unknown escape in a string", position: start)
        }
    }

    private mutating func hexadecimal(_ start: JSONPosition) throws(JSONProblem) -> UInt16 {
        let digits = rest.prefix(4)
        let text = String(decoding: digits, as: UTF8.self)
        guard digits.count == 4, !text.hasPrefix("+"), !text.hasPrefix("-"), let unit = UInt16(text, radix: 16) else {
            throw JSONProblem(text: "unknown escape in a string", position: start)
        }
        for _ in 0..<4 { take() }
        return unit
    }

    private mutating func number() throws(JSONProblem) -> String {
        let start = position
        var text = ""
        let bad = JSONProblem(text: "a number that JSON does not know", position: start)
        while let byte = rest.first, ASCII.isDigit(byte) || "+-.eE".utf8.contains(byte) {
            text.unicodeScalars.append(Unicode.Scalar(byte))
            take()
        }
        guard text.wholeMatch(of: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/) != nil else { throw bad }
        return text
    }

    private mutating func word(_ word: String, _ content: JSONValue.Content) throws(JSONProblem) -> JSONValue.Content {
        guard rest.starts(with: word.utf8) else { throw unexpected("a value") }
        for _ in word.utf8 { take() }
        return content
    }

    private mutating func skipSpace() {
        while let byte = rest.first, [0x20, 0x09, 0x0A, 0x0D].contains(byte) { take() }
    }

    private mutating func take() {
        if rest.popFirst() == 0x0A {
            position.line += 1
            position.column = 1
        } else {
            position.column += 1
        }
    }

    private mutating func takeIf(_ character: Unicode.Scalar) -> Bool {
        guard rest.first == UInt8(ascii: character) else { return false }
        take()
        return true
    }

    private func unexpected(_ wanted: String) -> JSONProblem {
        problem(rest.isEmpty ? "the text ends where \(wanted) should be" : "expected \(wanted)")
    }

    private func problem(_ text: String) -> JSONProblem { JSONProblem(text: text, position: position) }
}
