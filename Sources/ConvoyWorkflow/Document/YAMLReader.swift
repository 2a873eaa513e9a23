import CYAML
import ConvoySerialization
import Foundation

/// A mistake in YAML.
struct YAMLProblem: Error {
    var message: String
    var position: ManifestDocument.Position
}

/// A reader for one YAML document as a JSON tree, with libyaml and the core schema of YAML 1.2 (section 10.3): `no`,
/// `on` and `1:30` are strings, and only the tags of the schema are supported. Aliases and duplicate keys are rejected.
struct YAMLReader {
    /// An array or object that is being read.
    private struct Level {
        enum Content {
            case array([JSON])
            case object(JSONObject, key: String?)
        }
        var content: Content
        let position: ManifestDocument.Position
    }

    private let maximumDepth: Int
    private let text: Data
    private var levels: [Level] = []
    /// The path of the next value.
    private var path: [String] = []
    private var marks: [String: ManifestDocument.Mark] = [:]
    private var keyPosition: ManifestDocument.Position?
    private var root: JSON?

    static func read(
        _ data: Data, maximumDepth: Int
    ) throws(YAMLProblem) -> (JSON, [String: ManifestDocument.Mark]) {
        var reader = YAMLReader(maximumDepth: maximumDepth, text: data)
        try reader.read()
        guard let root = reader.root else {
            throw YAMLProblem(message: "the manifest is empty", position: ManifestDocument.Position())
        }
        return (root, reader.marks)
    }

    private init(maximumDepth: Int, text: Data) {
        self.maximumDepth = maximumDepth
        self.text = text
    }

    private mutating func read() throws(YAMLProblem) {
        // Allocate the parser on the heap, because it holds pointers to itself.
        let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
        defer { parser.deallocate() }
        guard yaml_parser_initialize(parser) == 1 else {
            throw YAMLProblem(message: "out of memory", position: ManifestDocument.Position())
        }
        defer { yaml_parser_delete(parser) }
        // When the encoding is given, libyaml treats a byte order mark as content.
        let bytes = Array(text.starts(with: [0xEF, 0xBB, 0xBF]) ? text.dropFirst(3) : text)
        let problem: YAMLProblem? = bytes.withUnsafeBufferPointer { buffer in
            yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
            yaml_parser_set_input_string(parser, buffer.baseAddress, buffer.count)
            do throws(YAMLProblem) {
                try readEvents(parser)
                return nil
            } catch {
                return error
            }
        }
        if let problem { throw problem }
    }

    private mutating func readEvents(_ parser: UnsafeMutablePointer<yaml_parser_t>) throws(YAMLProblem) {
        var documents = 0
        while true {
            var event = yaml_event_t()
            guard yaml_parser_parse(parser, &event) == 1 else { throw syntaxProblem(parser.pointee) }
            defer { yaml_event_delete(&event) }
            let position = Self.position(event.start_mark)
            switch event.type {
            case YAML_STREAM_END_EVENT: return
            case YAML_DOCUMENT_START_EVENT:
                documents += 1
                guard documents == 1 else { throw YAMLProblem(message: "only one document is allowed", position: position) }
            case YAML_ALIAS_EVENT: throw YAMLProblem(message: "aliases are not allowed", position: position)
            case YAML_SCALAR_EVENT:
                let scalar = event.data.scalar
                guard scalar.anchor == nil else { throw YAMLProblem(message: "anchors are not allowed", position: position) }
                let bytes = UnsafeBufferPointer(start: scalar.value, count: scalar.length)
                let text = String(decoding: bytes, as: UTF8.self)
                let isPlain = scalar.style == YAML_PLAIN_SCALAR_STYLE
                let value = try Self.value(of: text, isPlain: isPlain, tag: scalar.tag, at: position)
                try take(value, text: text, at: position)
            case YAML_SEQUENCE_START_EVENT:
                guard event.data.sequence_start.anchor == nil else {
                    throw YAMLProblem(message: "anchors are not allowed", position: position)
                }
                try Self.check(event.data.sequence_start.tag, of: "seq", at: position)
                try open(.array([]), at: position)
            case YAML_MAPPING_START_EVENT:
                guard event.data.mapping_start.anchor == nil else {
                    throw YAMLProblem(message: "anchors are not allowed", position: position)
                }
                try Self.check(event.data.mapping_start.tag, of: "map", at: position)
                try open(.object(JSONObject(), key: nil), at: position)
            case YAML_SEQUENCE_END_EVENT, YAML_MAPPING_END_EVENT:
                guard let level = levels.popLast() else { break }
                switch level.content {
                case .array(let values):
                    path.removeLast()
                    try add(.array(values), at: level.position, isMarked: true)
                case .object(let object, _): try add(.object(object), at: level.position, isMarked: true)
                }
            default: break
            }
        }
    }

    private mutating func open(_ content: Level.Content, at position: ManifestDocument.Position) throws(YAMLProblem) {
        guard levels.count < maximumDepth else { throw YAMLProblem(message: "nested too deeply", position: position) }
        if case .object(_, nil)? = levels.last?.content {
            throw YAMLProblem(message: "a key must be text" + hint(at: position), position: position)
        }
        mark(position)
        levels.append(Level(content: content, position: position))
        if case .array = content { path.append("0") }
    }

    /// Adds a scalar, as a key if one is expected, or else as a value.
    private mutating func take(_ value: JSON, text: String, at position: ManifestDocument.Position) throws(YAMLProblem) {
        if case .object(let object, nil)? = levels.last?.content {
            // `<<` is an ordinary key: merge keys belong to YAML 1.1 and would need aliases.
            guard object[text] == nil else {
                throw YAMLProblem(message: "duplicate key \(quoted(text))", position: position)
            }
            levels[levels.count - 1].content = .object(object, key: text)
            path.append(text)
            keyPosition = position
            return
        }
        try add(value, at: position, isMarked: false)
    }

    private mutating func add(
        _ value: JSON, at position: ManifestDocument.Position, isMarked: Bool
    ) throws(YAMLProblem) {
        if !isMarked { mark(position) }
        // Remove the level temporarily, so that its contents are not copied for each element.
        guard var level = levels.popLast() else {
            root = value
            return
        }
        switch level.content {
        case .array(var values):
            level.content = .array([])
            values.append(value)
            path[path.count - 1] = "\(values.count)"
            level.content = .array(values)
        case .object(var object, let key):
            level.content = .array([])
            object.append(key: key ?? "", value: value)
            path.removeLast()
            level.content = .object(object, key: nil)
        }
        levels.append(level)
    }

    private mutating func mark(_ position: ManifestDocument.Position) {
        marks[JSONPointer(tokens: path).description] = ManifestDocument.Mark(value: position, key: keyPosition)
        keyPosition = nil
    }

    // MARK: Tags

    private static let tagPrefix = "tag:yaml.org,2002:"

    /// Returns the value of a scalar, which must match its tag.
    private static func value(
        of text: String, isPlain: Bool, tag: UnsafeMutablePointer<yaml_char_t>?, at position: ManifestDocument.Position
    ) throws(YAMLProblem) -> JSON {
        guard let tag = tag.map({ String(cString: $0) }) else { return isPlain ? plain(text) : .string(text) }
        let value = plain(text)
        switch (tag.hasPrefix(tagPrefix) ? String(tag.dropFirst(tagPrefix.count)) : tag, value) {
        case ("!", _), ("str", _): return .string(text)
        case ("null", .null), ("bool", .bool), ("float", .number): return value
        case ("int", .number(let number)) where !number.text.contains { ".eE".contains($0) }: return value
        case ("null", _), ("bool", _), ("float", _), ("int", _):
            throw YAMLProblem(
                message: "\(quoted(text)) does not match the tag \(shown(tag))", position: position)
        default: throw problem(with: tag, at: position)
        }
    }

    /// Checks the tag of a collection.
    private static func check(
        _ tag: UnsafeMutablePointer<yaml_char_t>?, of kind: String, at position: ManifestDocument.Position
    ) throws(YAMLProblem) {
        guard let tag = tag.map({ String(cString: $0) }), tag != "!", tag != tagPrefix + kind else { return }
        throw problem(with: tag, at: position)
    }

    private static func problem(with tag: String, at position: ManifestDocument.Position) -> YAMLProblem {
        let known = ["str", "int", "float", "bool", "null", "seq", "map"]
        guard tag.hasPrefix(tagPrefix), known.contains(String(tag.dropFirst(tagPrefix.count))) else {
            return YAMLProblem(
                message: "unknown tag \(shown(tag)); the tags are \(known.map { "!!\($0)" }.joined(separator: ", "))",
                position: position)
        }
        return YAMLProblem(message: "the tag \(shown(tag)) does not apply to this value", position: position)
    }

    /// Returns a tag as written, on one line.
    private static func shown(_ tag: String) -> String {
        let text = tag.hasPrefix(tagPrefix) ? "!!\(tag.dropFirst(tagPrefix.count))" : tag
        return String(quoted(text).dropFirst().dropLast())
    }

    // MARK: Scalars

    /// Returns the value of a plain scalar in the core schema.
    static func plain(_ text: String) -> JSON {
        switch text {
        case "", "~", "null", "Null", "NULL": return .null
        case "true", "True", "TRUE": return .bool(true)
        case "false", "False", "FALSE": return .bool(false)
        default: return number(text).map(JSON.number) ?? .string(text)
        }
    }

    /// Parses decimal, `0o…` and `0x…` integers, and fractions. Infinity and NaN, which JSON cannot express, are
    /// strings.
    private static func number(_ text: String) -> JSONNumber? {
        if text.hasPrefix("0o"), let value = UInt64(text.dropFirst(2), radix: 8), !text.contains("_") {
            return JSONNumber(value)
        }
        if text.hasPrefix("0x"), let value = UInt64(text.dropFirst(2), radix: 16) { return JSONNumber(value) }
        guard let first = text.utf8.first, first != UInt8(ascii: "+") || text.utf8.count > 1 else { return nil }
        var digits = first == UInt8(ascii: "+") ? String(text.dropFirst()) : text
        if digits.hasPrefix("+") || digits.hasPrefix("+-") { return nil }
        let sign = digits.hasPrefix("-") ? "-" : ""
        digits = String(digits.dropFirst(sign.count))
        guard let start = digits.utf8.first, start == UInt8(ascii: ".") || (0x30...0x39).contains(start) else { return nil }
        if digits.hasPrefix(".") {
            guard let next = digits.utf8.dropFirst().first, (0x30...0x39).contains(next) else { return nil }
            digits = "0" + digits
        }
        // In the core schema, 007 is 7, and 1. is 1.
        while digits.utf8.count > 1, digits.hasPrefix("0"),
            digits.utf8.dropFirst().first.map({ (0x30...0x39).contains($0) }) == true
        {
            digits.removeFirst()
        }
        if digits.hasSuffix(".") { digits.removeLast() }
        digits = digits.replacing(".e", with: "e").replacing(".E", with: "E")
        return JSONNumber(sign + digits)
    }

    // MARK: Mistakes

    private static func position(_ mark: yaml_mark_t) -> ManifestDocument.Position {
        ManifestDocument.Position(line: Int(mark.line) + 1, column: Int(mark.column) + 1)
    }

    private func syntaxProblem(_ parser: yaml_parser_t) -> YAMLProblem {
        let message = parser.problem.map { String(cString: $0) } ?? "not YAML"
        guard parser.error != YAML_READER_ERROR else {
            let before = text.prefix(parser.problem_offset)
            let line = before.reduce(1) { $1 == 0x0A ? $0 + 1 : $0 }
            let column = before.reversed().prefix { $0 != 0x0A }.count + 1
            return YAMLProblem(message: message, position: ManifestDocument.Position(line: line, column: column))
        }
        let position = Self.position(parser.problem_mark)
        // libyaml searches only the first 1,024 characters for the colon after a key.
        let isLongKey = position.column > 1024 && message.hasPrefix("mapping values are not allowed")
        let isInBrackets = message.hasPrefix("did not find expected ',' or")
        let quoting = isInBrackets ? "; inside { } or [ ], text that contains brackets or commas must be quoted" : ""
        let found = hint(at: position)
        let hint = isLongKey ? "; a key can have at most 1024 characters" : found.isEmpty ? quoting : found
        return YAMLProblem(message: message + hint, position: position)
    }

    /// Returns a hint for a confusing error: in a flow mapping, the brace of `${` begins a nested mapping.
    private func hint(at position: ManifestDocument.Position) -> String {
        let lines = text.split(separator: 0x0A, omittingEmptySubsequences: false)
        guard lines.indices.contains(position.line - 1) else { return "" }
        let line = String(decoding: lines[position.line - 1], as: UTF8.self)
        var isQuoted = false, depth = 0, before: Character = " ", isUnquoted = false
        for character in line {
            if character == "\"" { isQuoted.toggle() }
            if !isQuoted {
                if character == "{", before == "$" { isUnquoted = isUnquoted || depth > 0 }
                if character == "{" || character == "[" { depth += 1 }
                if character == "}" || character == "]" { depth -= 1 }
            }
            before = character
        }
        return isUnquoted ? "; inside { } or [ ], a ${…} must be quoted: \"${…}\"" : ""
    }
}
