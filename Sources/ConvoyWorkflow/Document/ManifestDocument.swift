import ConvoySerialization
import Foundation

/// The text of a manifest as a tree, with the position of each value.
///
/// Text that begins with `{` or `[` is JSON; any other text is YAML.
final class ManifestDocument: Sendable {
    /// The positions of a value and its key.
    struct Mark: Sendable {
        var value: Position
        var key: Position?
    }

    /// A line and a column, from 1.
    struct Position: Sendable, Equatable {
        var line = 1
        var column = 1
    }

    static let maximumDepth = 64
    /// The maximum size of a manifest, in bytes.
    static let maximumLength = 16 << 20

    let name: String
    /// The files that the manifest may send or read.
    let files: FileRoot
    let json: JSON
    private let text: Data
    /// Whether the document is JSON, in which positions are looked up on demand.
    private let isWrittenInJSON: Bool
    /// The positions in a YAML document, keyed by JSON Pointer.
    private let marks: [String: Mark]
    /// The positions of request names in a JSON document. They are stored because all of them are looked up.
    private let requests: [String: JSONPosition]

    init(parsing data: Data, name: String, files: FileRoot = .none) throws(ManifestError) {
        self.name = name
        self.files = files
        guard data.count <= Self.maximumLength else {
            throw ManifestError(
                file: name, line: 1, column: 1, message: "the manifest is larger than \(Self.maximumLength >> 20) MiB")
        }
        text = data
        isWrittenInJSON = Self.isJSON(data)
        if isWrittenInJSON {
            do throws(JSONSyntaxError) {
                json = try JSON(parsing: data, maximumDepth: Self.maximumDepth, rejectsDuplicateKeys: true)
            } catch {
                throw ManifestError(
                    file: name, line: error.position.line, column: error.position.column, message: error.reason)
            }
            marks = [:]
            requests = JSONParser.keyPositions(of: JSONPointer(tokens: ["requests"]), in: data)
        } else {
            do throws(YAMLProblem) {
                (json, marks) = try YAMLReader.read(data, maximumDepth: Self.maximumDepth)
            } catch {
                throw ManifestError(
                    file: name, line: error.position.line, column: error.position.column, message: error.message)
            }
            requests = [:]
        }
    }

    var root: ManifestValue { ManifestValue(json: json, pointer: JSONPointer(), document: self) }

    func position(of pointer: JSONPointer, key: Bool) -> Position {
        if isWrittenInJSON {
            if key, pointer.tokens.count == 2, pointer.tokens[0] == "requests", let known = requests[pointer.tokens[1]] {
                return Position(line: known.line, column: known.column)
            }
            return JSONParser.position(of: pointer, key: key, in: text).map { Position(line: $0.line, column: $0.column) }
                ?? Position()
        }
        guard let mark = marks[pointer.description] else { return Position() }
        return key ? mark.key ?? mark.value : mark.value
    }

    /// Returns the position of a character of a string.
    ///
    /// The characters of the string appear in the document in the same order, between quotes, escapes and line breaks.
    func position(of pointer: JSONPointer, text string: String, character offset: Int) -> Position {
        let start = position(of: pointer, key: false)
        let limit = start.line + Self.maximumLines
        let content = text.starts(with: [0xEF, 0xBB, 0xBF]) ? text.dropFirst(3) : text
        let lines = content.split(separator: 0x0A, maxSplits: limit, omittingEmptySubsequences: false)
        let wanted = Array(string.unicodeScalars.prefix(offset + 1)).filter { !$0.properties.isWhitespace }
        var found = 0, isFirst = true, last = start
        for index in lines.indices.dropFirst(start.line - 1).prefix(Self.maximumLines) {
            var column = 1
            for scalar in String(decoding: lines[index], as: UTF8.self).unicodeScalars {
                defer { column += isWrittenInJSON ? String(scalar).utf8.count : 1 }
                guard !isFirst || column >= start.column else { continue }
                if isFirst {
                    isFirst = false
                    if scalar == "\"" || scalar == "'" { continue }
                    // A block begins on the next line.
                    if scalar == "|" || scalar == ">" { break }
                }
                guard found < wanted.count, scalar == wanted[found] else { continue }
                found += 1
                last = Position(line: index + 1, column: column)
                if found == wanted.count { return last }
            }
        }
        // An escaped character does not appear as itself.
        return last
    }

    /// The maximum number of lines in which a character of a string is searched.
    private static let maximumLines = 1000

    static func isJSON(_ data: Data) -> Bool {
        let start = data.starts(with: [0xEF, 0xBB, 0xBF]) ? data.dropFirst(3) : data
        let first = start.first { $0 != 0x20 && $0 != 0x09 && $0 != 0x0A && $0 != 0x0D }
        return first == UInt8(ascii: "{") || first == UInt8(ascii: "[")
    }
}

/// A value in a manifest, with the position that errors report.
struct ManifestValue: Sendable {
    let json: JSON
    let pointer: JSONPointer
    let document: ManifestDocument
    /// Whether errors point to the key instead of the value.
    var isKey = false

    struct Member {
        let key: String
        let value: ManifestValue

        /// Returns an error that points to the key instead of the value.
        func problem(_ message: String) -> ManifestError { value.problem(message, atKey: true) }
    }

    var isNull: Bool { json == .null }

    var line: Int { document.position(of: pointer, key: false).line }

    func problem(_ message: String, atKey: Bool = false) -> ManifestError {
        let position = document.position(of: pointer, key: atKey || isKey)
        return ManifestError(file: document.name, line: position.line, column: position.column, message: message)
    }

    /// Returns an error that points to a character of a string.
    ///
    /// - Parameter offset: The position in the string, in Unicode scalars.
    func problem(_ message: String, atCharacter offset: Int) -> ManifestError {
        let position = position(ofCharacter: offset)
        return ManifestError(file: document.name, line: position.line, column: position.column, message: message)
    }

    /// Returns the position of a character of a string in the manifest.
    func position(ofCharacter offset: Int) -> ManifestDocument.Position {
        guard case .string(let text) = json, !isKey else { return document.position(of: pointer, key: isKey) }
        return document.position(of: pointer, text: text, character: offset)
    }

    func child(_ json: JSON, _ token: String) -> ManifestValue {
        ManifestValue(json: json, pointer: pointer.appending(token), document: document)
    }

    // MARK: Types

    /// Returns the members of an object with arbitrary keys.
    func members(_ what: String) throws(ManifestError) -> [Member] {
        guard case .object(let object) = json else { throw problem("\(what) must be a mapping, not \(typeName)") }
        return object.members.map { Member(key: $0.key, value: child($0.value, $0.key)) }
    }

    /// Returns the members of an object with arbitrary keys, or those of a list of objects, in which a key may be repeated.
    func pairs(_ what: String) throws(ManifestError) -> [Member] {
        guard case .array = json else { return try members(what) }
        var pairs: [Member] = []
        for element in try elements(what) { pairs += try element.members("an element of \(what)") }
        return pairs
    }

    /// Returns the members of an object with known keys, without those that are null.
    func fields(_ what: String, knowing keys: [String]) throws(ManifestError) -> [String: ManifestValue] {
        var fields: [String: ManifestValue] = [:]
        for member in try members(what) {
            guard keys.contains(member.key) else {
                throw member.problem(
                    "unknown key \(quoted(member.key)) in \(what)\(Suggestion.text(for: member.key, among: keys))")
            }
            if !member.value.isNull { fields[member.key] = member.value }
        }
        return fields
    }

    func elements(_ what: String) throws(ManifestError) -> [ManifestValue] {
        guard case .array(let values) = json else { throw problem("\(what) must be a list, not \(typeName)") }
        return values.enumerated().map { child($1, "\($0)") }
    }

    func string(_ what: String) throws(ManifestError) -> String {
        guard case .string(let text) = json else { throw problem("\(what) must be text, not \(typeName)") }
        return text
    }

    func bool(_ what: String) throws(ManifestError) -> Bool {
        guard case .bool(let value) = json else { throw problem("\(what) must be true or false, not \(typeName)") }
        return value
    }

    func integer(_ what: String, in range: ClosedRange<Int>) throws(ManifestError) -> Int {
        guard case .number(let number) = json, let value: Int = number.integer(), range.contains(value) else {
            let limits =
                range.upperBound == .max
                ? "of at least \(range.lowerBound)" : "from \(range.lowerBound) to \(range.upperBound)"
            throw problem("\(what) must be a whole number \(limits)")
        }
        return value
    }

    /// Returns a number of seconds, given as a number or as a string with a unit: `500ms`, `30s`, `5m`, `1h`.
    func seconds(_ what: String) throws(ManifestError) -> Double {
        var value: Double?
        switch json {
        case .number(let number): value = number.double
        case .string(let text): value = Self.amount(text, units: ["ms": 0.001, "s": 1, "m": 60, "h": 3600])
        default: break
        }
        guard let value, value >= 0, value <= 1e9 else {
            throw problem("\(what) must be a number of seconds, or a time such as 500ms, 30s or 5m")
        }
        return value
    }

    /// Returns a number from 1 to 100 by which a time is multiplied.
    func factor(_ what: String) throws(ManifestError) -> Double {
        guard case .number(let number) = json, let factor = number.double, (1...100).contains(factor) else {
            throw problem("\(what) must be a number from 1 to 100")
        }
        return factor
    }

    /// Returns a number of requests per second.
    func rate(_ what: String) throws(ManifestError) -> Double {
        guard case .number(let number) = json, let rate = number.double, rate > 0, rate <= 1e6 else {
            throw problem("\(what) must be a number of requests greater than 0")
        }
        return rate
    }

    /// Returns a number of bytes, given as a whole number or as a string with a unit: `500kB`, `50MB`, `1MiB`.
    func bytes(_ what: String) throws(ManifestError) -> Int64 {
        var value: Double?
        switch json {
        case .number(let number): value = number.double
        case .string(let text): value = Self.amount(text.lowercased(), units: Self.byteUnits)
        default: break
        }
        guard let value, value >= 0, value <= 1e15, value == value.rounded() else {
            throw problem("\(what) must be a number of bytes, or a size such as 500kB, 50MB or 1MiB")
        }
        return Int64(value)
    }

    private static let byteUnits: [String: Double] = [
        "b": 1, "k": 1e3, "kb": 1e3, "m": 1e6, "mb": 1e6, "g": 1e9, "gb": 1e9, "kib": 1024, "mib": 1_048_576,
        "gib": 1_073_741_824,
    ]

    private static func amount(_ text: String, units: [String: Double]) -> Double? {
        let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        let unit = text[digits.endIndex...].drop { $0 == " " }
        guard let number = Double(digits) else { return nil }
        if unit.isEmpty { return number }
        return units[String(unit)].map { ($0 * number * 1e6).rounded() / 1e6 }
    }

    /// The type of the value, for messages.
    var typeName: String {
        switch json {
        case .null: "nothing"
        case .bool: "true or false"
        case .number: "a number"
        case .string: "text"
        case .array: "a list"
        case .object: "a mapping"
        }
    }
}
