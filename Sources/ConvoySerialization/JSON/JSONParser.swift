import ConvoySupport
import Foundation

/// A parser for JSON in UTF-8 (RFC 8259), which can also locate values in the text.
package struct JSONParser {
    private let bytes: [UInt8]
    private var index = 0
    private let maximumDepth: Int
    private let rejectsDuplicateKeys: Bool

    static func value(
        of data: Data, maximumDepth: Int, rejectsDuplicateKeys: Bool
    ) throws(JSONSyntaxError) -> JSON {
        var parser = JSONParser(data, maximumDepth: maximumDepth, rejectsDuplicateKeys: rejectsDuplicateKeys)
        let value = try parser.value(depth: 0)
        parser.skipSpace()
        guard parser.index == parser.bytes.count else { throw parser.problem("unexpected text after the value") }
        return value
    }

    /// Returns the position of the value at a pointer, or of its key.
    ///
    /// Parsing again is cheaper than storing a position with every value, because positions are rarely needed.
    package static func position(of pointer: JSONPointer, key wantsKey: Bool = false, in data: Data) -> JSONPosition? {
        var parser = JSONParser(data, maximumDepth: 512)
        guard let offset = try? parser.offset(of: pointer, key: wantsKey) else { return nil }
        return JSONPosition(offset: offset, in: parser.bytes)
    }

    /// Returns the positions of the keys of an object, found in a single pass. If a key is repeated, its first position
    /// is used. The result is empty if the pointer does not lead to an object.
    package static func keyPositions(of pointer: JSONPointer, in data: Data) -> [String: JSONPosition] {
        var parser = JSONParser(data, maximumDepth: 512)
        guard let offset = try? parser.offset(of: pointer, key: false) else { return [:] }
        parser.index = offset
        guard parser.next == UInt8(ascii: "{") else { return [:] }
        var positions: [String: JSONPosition] = [:]
        var (position, seen) = (JSONPosition(), 0)
        try? parser.members(0) { parser, key, start throws(JSONSyntaxError) in
            position.advance(over: parser.bytes[seen..<start])
            seen = start
            positions[key] = positions[key] ?? position
            _ = try parser.value(depth: 0)
        }
        return positions
    }

    private init(_ data: Data, maximumDepth: Int, rejectsDuplicateKeys: Bool = false) {
        bytes = Array(data)
        self.maximumDepth = maximumDepth
        self.rejectsDuplicateKeys = rejectsDuplicateKeys
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { index = 3 }
    }

    // MARK: Values

    private mutating func value(depth: Int) throws(JSONSyntaxError) -> JSON {
        skipSpace()
        switch next {
        case UInt8(ascii: "{"):
            var object = JSONObject()
            try members(depth) { parser, key, start throws(JSONSyntaxError) in
                let isNew = object.append(key: key, value: try parser.value(depth: depth + 1))
                guard isNew || !parser.rejectsDuplicateKeys else { throw parser.problem("duplicate key", at: start) }
            }
            return .object(object)
        case UInt8(ascii: "["):
            var array: [JSON] = []
            try elements(depth) { parser throws(JSONSyntaxError) in
                array.append(try parser.value(depth: depth + 1))
            }
            return .array(array)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        case let byte? where byte == UInt8(ascii: "-") || ASCII.isDigit(byte): return .number(try number())
        default: throw unexpected("a value")
        }
    }

    /// Parses the members of an object. The closure is called after each colon and reads the value.
    private mutating func members(
        _ depth: Int, _ read: (inout JSONParser, String, Int) throws(JSONSyntaxError) -> Void
    ) throws(JSONSyntaxError) {
        try open(depth)
        if take("}") { return }
        while true {
            skipSpace()
            let start = index
            guard next == UInt8(ascii: "\"") else { throw unexpected("a key in quotes") }
            let key = try string()
            skipSpace()
            guard take(":") else { throw unexpected("':'") }
            try read(&self, key, start)
            skipSpace()
            if take("}") { return }
            guard take(",") else { throw unexpected("',' or '}'") }
        }
    }

    /// Parses the elements of an array. The closure reads each element.
    private mutating func elements(
        _ depth: Int, _ read: (inout JSONParser) throws(JSONSyntaxError) -> Void
    ) throws(JSONSyntaxError) {
        try open(depth)
        if take("]") { return }
        while true {
            try read(&self)
            skipSpace()
            if take("]") { return }
            guard take(",") else { throw unexpected("',' or ']'") }
        }
    }

    private mutating func open(_ depth: Int) throws(JSONSyntaxError) {
        guard depth < maximumDepth else { throw problem("nested too deeply") }
        index += 1
        skipSpace()
    }

    private mutating func string() throws(JSONSyntaxError) -> String {
        let start = index
        index += 1
        var content: [UInt8] = []
        while let byte = next {
            switch byte {
            case UInt8(ascii: "\""):
                index += 1
                guard let text = String(validating: content, as: UTF8.self) else {
                    throw problem("invalid UTF-8 in a string", at: start)
                }
                return text
            case UInt8(ascii: "\\"): try escape(into: &content)
            case 0..<0x20: throw problem("unescaped control character in a string")
            default:
                let end = bytes[index...].firstIndex { $0 == 0x22 || $0 == 0x5C || $0 < 0x20 } ?? bytes.count
                content += bytes[index..<end]
                index = end
            }
        }
        throw problem("unterminated string", at: start)
    }

    private mutating func escape(into content: inout [UInt8]) throws(JSONSyntaxError) {
        let start = index
        index += 2
        switch start + 1 < bytes.count ? bytes[start + 1] : 0 {
        case UInt8(ascii: "\""): content.append(0x22)
        case UInt8(ascii: "\\"): content.append(0x5C)
        case UInt8(ascii: "/"): content.append(0x2F)
        case UInt8(ascii: "b"): content.append(8)
        case UInt8(ascii: "f"): content.append(12)
        case UInt8(ascii: "n"): content.append(10)
        case UInt8(ascii: "r"): content.append(13)
        case UInt8(ascii: "t"): content.append(9)
        case UInt8(ascii: "u"):
            var units = [try hexadecimal(start)]
            if 0xD800..<0xDC00 ~= units[0], take("\\"), take("u") { units.append(try hexadecimal(start)) }
            guard let text = String(validating: units, as: UTF16.self) else {
                throw problem("unpaired surrogate", at: start)
            }
            content += text.utf8
        default: throw problem("unknown escape in a string", at: start)
        }
    }

    private mutating func hexadecimal(_ start: Int) throws(JSONSyntaxError) -> UInt16 {
        var unit: UInt16 = 0
        for _ in 0..<4 {
            guard let digit = next.flatMap(ASCII.hexadecimalValue) else {
                throw problem("unknown escape in a string", at: start)
            }
            unit = unit << 4 | UInt16(digit)
            index += 1
        }
        return unit
    }

    private mutating func number() throws(JSONSyntaxError) -> JSONNumber {
        // Consume all characters that can occur in numbers, so that `01` is not parsed as `0` followed by other text.
        let end = bytes[index...].firstIndex { !ASCII.isDigit($0) && !"+-.eE".utf8.contains($0) } ?? bytes.count
        guard let number = JSONNumber(String(decoding: bytes[index..<end], as: UTF8.self)) else {
            throw problem("invalid number")
        }
        index = end
        return number
    }

    private mutating func word(_ word: String, _ value: JSON) throws(JSONSyntaxError) -> JSON {
        guard bytes[index...].starts(with: word.utf8) else { throw unexpected("a value") }
        index += word.utf8.count
        return value
    }

    // MARK: Positions

    private mutating func offset(of pointer: JSONPointer, key wantsKey: Bool) throws(JSONSyntaxError) -> Int? {
        var found: Int?
        skipSpace()
        guard let token = pointer.tokens.first else { return index }
        let rest = JSONPointer(tokens: Array(pointer.tokens.dropFirst()))
        var count = 0
        switch next {
        case UInt8(ascii: "{"):
            try members(0) { parser, key, start throws(JSONSyntaxError) in
                if found == nil, key.utf8.elementsEqual(token.utf8) {
                    var there = parser
                    found = wantsKey && rest.tokens.isEmpty ? start : try there.offset(of: rest, key: wantsKey)
                }
                _ = try parser.value(depth: 0)
            }
        case UInt8(ascii: "["):
            try elements(0) { parser throws(JSONSyntaxError) in
                if count == JSONPointer.index(token) {
                    var there = parser
                    found = try there.offset(of: rest, key: wantsKey)
                }
                _ = try parser.value(depth: 0)
                count += 1
            }
        default: break
        }
        return found
    }

    // MARK: Bytes

    private var next: UInt8? { index < bytes.count ? bytes[index] : nil }

    private mutating func skipSpace() {
        while let byte = next, ASCII.isWhitespace(byte) { index += 1 }
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard next == UInt8(ascii: character) else { return false }
        index += 1
        return true
    }

    private func unexpected(_ wanted: String) -> JSONSyntaxError {
        problem(next == nil ? "expected \(wanted), but the text ends" : "expected \(wanted)")
    }

    private func problem(_ reason: String, at offset: Int? = nil) -> JSONSyntaxError {
        JSONSyntaxError(reason, at: JSONPosition(offset: offset ?? index, in: bytes))
    }
}

/// A JSON syntax error and its position.
public struct JSONSyntaxError: Error, Sendable, Equatable, SelfDescribingError {
    /// A short description, which contains no part of the text.
    public let reason: String
    /// The position of the error.
    public let position: JSONPosition
    /// The URL of the response that contains the error; nil if the text did not come from a response.
    public private(set) var url: URL?

    /// Creates an error with a reason and a position.
    package init(_ reason: String, at position: JSONPosition) {
        self.reason = reason
        self.position = position
    }

    /// The position and the reason, and the URL without its secrets.
    public var description: String {
        let source = url.map { ", in the response from \(Redaction.url($0.absoluteString))" } ?? ""
        return "line \(position.line), column \(position.column): \(reason)\(source)"
    }

    func naming(_ url: URL?) -> JSONSyntaxError {
        var error = self
        error.url = url
        return error
    }
}

/// A position in text. Both numbers start at 1.
public struct JSONPosition: Sendable, Equatable {
    /// The line number, starting at 1.
    public var line = 1
    /// The column, in UTF-8 bytes.
    public var column = 1

    /// Creates the position at the start of the text.
    package init() {}

    /// Creates the position of the byte at an offset.
    init(offset: Int, in bytes: some Collection<UInt8>) { advance(over: bytes.prefix(offset)) }

    mutating func advance(over bytes: some Collection<UInt8>) {
        for byte in bytes {
            if byte == 0x0A {
                line += 1
                column = 1
            } else {
                column += 1
            }
        }
    }
}
