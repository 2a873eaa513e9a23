import ConvoySerialization
import Foundation

/// A string with references and expressions: `reports/${item}`, `${uuid()}`. `$${` is an escaped `${`.
struct Template: Sendable {
    enum Piece: Sendable {
        case literal(String)
        case reference(Reference)
        case expression(Expression)

        func value(in scope: some Scope) throws(EvaluationError) -> ScopedValue {
            switch self {
            case .literal(let text): ScopedValue(json: .string(text))
            case .reference(let reference): try scope.value(of: reference)
            case .expression(let expression): try scope.value(of: expression)
            }
        }

        /// Returns the reference that makes the value untrusted: the first one to a response or to an item.
        func source(in scope: some Scope) -> Reference {
            switch self {
            case .literal: Reference(root: "", path: [])
            case .reference(let reference): reference
            case .expression(let expression): expression.source(in: scope)
            }
        }
    }

    let pieces: [Piece]
    /// The position in the manifest.
    let source: ManifestValue

    var references: [Reference] {
        pieces.flatMap { piece -> [Reference] in
            switch piece {
            case .literal: []
            case .reference(let reference): [reference]
            case .expression(let expression): expression.references
            }
        }
    }

    /// All references, including those to environment variables with a default.
    var allReferences: [Reference] {
        references
            + pieces.flatMap { piece -> [Reference] in
                if case .expression(let expression) = piece { expression.allReferences } else { [] }
            }
    }

    /// Whether the value differs from evaluation to evaluation.
    var isVolatile: Bool {
        pieces.contains { if case .expression(let expression) = $0 { expression.isVolatile } else { false } }
    }

    /// The reference or the expression, if it is the entire string.
    var wholeValue: Piece? {
        guard pieces.count == 1, let piece = pieces.first else { return nil }
        if case .literal = piece { return nil }
        return piece
    }

    /// The string as written, without its escapes.
    var title: String {
        pieces.map { piece in
            switch piece {
            case .literal(let text): text
            case .reference(let reference): "${\(reference)}"
            case .expression(let expression): "${\(expression.source)}"
            }
        }.joined()
    }

    /// The string, if it contains no reference.
    var literal: String? {
        switch pieces.count {
        case 0: ""
        case 1: if case .literal(let text) = pieces[0] { text } else { nil }
        default: nil
        }
    }

    /// Creates a template from a string value.
    init(_ value: ManifestValue, _ what: String) throws(ManifestError) {
        try self.init(try value.string(what), at: value)
    }

    init(_ text: String, at source: ManifestValue) throws(ManifestError) {
        // Search bytes, because each search by Foundation would examine the entire rest of the string.
        var pieces: [Piece] = [], literal = "", rest = text.utf8[...]
        while let dollar = rest.firstIndex(of: UInt8(ascii: "$")) {
            let behind = rest[dollar...].dropFirst()
            literal += String(Substring(rest[..<dollar]))
            if behind.starts(with: "${".utf8) {
                literal += "${"
                rest = behind.dropFirst(2)
                continue
            }
            guard behind.first == UInt8(ascii: "{") else {
                literal += "$"
                rest = behind
                continue
            }
            guard let end = Self.end(of: behind) else { throw source.problem("the closing } of a ${ is missing") }
            let content = String(Substring(behind[..<end].dropFirst()))
            let piece: Piece
            do throws(ExpressionProblem) {
                piece = try Self.piece(content)
            } catch {
                let start = String(Substring(text.utf8[..<dollar])).unicodeScalars.count + 2
                guard error.offset >= 0 else { throw source.problem(error.message) }
                throw source.problem(error.message, atCharacter: start + error.offset)
            }
            if case .expression(let expression) = piece { try expression.checkFiles(at: source) }
            if !literal.isEmpty { pieces.append(.literal(literal)) }
            literal = ""
            pieces.append(piece)
            rest = rest[rest.index(after: end)...]
        }
        literal += String(Substring(rest))
        if !literal.isEmpty { pieces.append(.literal(literal)) }
        for case .literal(let text) in pieces { try Self.checkMustache(in: text, at: source) }
        self.pieces = pieces
        self.source = source
    }

    /// Returns the position of the brace that closes a reference or an expression.
    private static func end(of text: Substring.UTF8View) -> Substring.UTF8View.Index? {
        var quote: UInt8?, depth = 0
        for index in text.indices {
            let byte = text[index]
            if let open = quote {
                if byte == open { quote = nil }
                continue
            }
            switch byte {
            case UInt8(ascii: "'"), UInt8(ascii: "\""): quote = byte
            case UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "}"):
                depth -= 1
                if depth == 0 { return index }
            default: break
            }
        }
        return nil
    }

    /// Rejects a placeholder in the syntax of Hurl, Postman, Bruno and Insomnia: `{{name}}`.
    private static func checkMustache(in text: String, at source: ManifestValue) throws(ManifestError) {
        var rest = text.utf8[...]
        while let brace = rest.firstIndex(of: UInt8(ascii: "{")) {
            rest = rest[brace...].dropFirst()
            guard rest.first == UInt8(ascii: "{") else { continue }
            let content = rest.dropFirst().prefix { !"{}".utf8.contains($0) }
            guard rest[content.endIndex...].starts(with: "}}".utf8) else { continue }
            let name = String(Substring(content)).trimmingCharacters(in: .whitespaces)
            let isName =
                !name.isEmpty
                && name.unicodeScalars.allSatisfy {
                    $0.properties.isAlphabetic || "0123456789_-.$".unicodeScalars.contains($0)
                }
            guard isName else { continue }
            let shown = String(Substring(content))
            throw source.problem(
                "\(quoted("{{\(shown)}}")) is not a reference: write ${\(name)} for the value, or ${'{{'}\(shown)}} for the text"
            )
        }
    }

    /// Reads the contents of a `${…}`.
    private static func piece(_ content: String) throws(ExpressionProblem) -> Piece {
        let name = content.trimmingCharacters(in: .whitespaces)
        if let reference = Reference(name) { return .reference(reference) }
        // Without an operator, the text is more likely a mistyped name, for which the parser has no better message.
        let words = name.split(whereSeparator: \.isWhitespace)
        let isExpression =
            content.contains { "(|['\"<>=".contains($0) } || words.contains { ["and", "or", "not", "in"].contains($0) }
            || words.count > 1 && words.last.flatMap { Predicate(name: String($0)) } != nil
        guard isExpression else {
            let parts = name.split(separator: ":-", maxSplits: 1), variable = parts.first.flatMap { Reference($0) }
            guard parts.count == 2, let variable, variable.root == "env", let first = variable.path.first else {
                throw ExpressionProblem(message: "invalid reference ${\(name)}", offset: -1)
            }
            throw ExpressionProblem(
                message: "invalid reference ${\(name)}; write ${env(\(first), '\(parts[1])')}", offset: -1)
        }
        return .expression(try ExpressionParser.parse(content))
    }

    /// Returns the string with the references replaced by their values.
    ///
    /// - Parameter escape: Escapes a value for its destination.
    func text(
        in scope: some Scope,
        _ escape: (ScopedValue, Reference) throws(EvaluationError) -> String = { value, _ in value.json.text }
    ) throws(EvaluationError) -> String {
        var text = ""
        for piece in pieces {
            if case .literal(let literal) = piece {
                text += literal
            } else {
                text += try escape(try piece.value(in: scope), piece.source(in: scope))
            }
        }
        return text
    }
}

extension ManifestValue.Member {
    /// Returns the key as a template.
    func name() throws(ManifestError) -> Template {
        var source = value
        source.isKey = true
        return try Template(key, at: source)
    }
}

/// A JSON tree whose strings are templates. A string that consists of one reference becomes its value, with its type.
indirect enum TreeTemplate: Sendable {
    case constant(JSON)
    case text(Template)
    case array([TreeTemplate])
    case object([(key: Template, value: TreeTemplate)])

    init(_ value: ManifestValue) throws(ManifestError) {
        switch value.json {
        case .string(let text):
            let template = try Template(text, at: value)
            self = template.literal.map { .constant(.string($0)) } ?? .text(template)
        case .array(let values):
            var elements: [TreeTemplate] = []
            for (index, element) in values.enumerated() {
                elements.append(try TreeTemplate(value.child(element, "\(index)")))
            }
            self = .array(elements)
        case .object(let object):
            var members: [(key: Template, value: TreeTemplate)] = []
            for member in object.members {
                let child = value.child(member.value, member.key)
                members.append((try ManifestValue.Member(key: member.key, value: child).name(), try TreeTemplate(child)))
            }
            self = .object(members)
        default: self = .constant(value.json)
        }
    }

    /// All templates in the tree.
    var templates: [Template] {
        switch self {
        case .constant: []
        case .text(let template): [template]
        case .array(let elements): elements.flatMap(\.templates)
        case .object(let members): members.flatMap { [$0.key] + $0.value.templates }
        }
    }

    func value(in scope: some Scope) throws(EvaluationError) -> ScopedValue {
        switch self {
        case .constant(let json): return ScopedValue(json: json)
        case .text(let template):
            if let piece = template.wholeValue { return try piece.value(in: scope) }
            var isHostile = false
            let text = try template.text(in: scope) { value, _ in
                isHostile = isHostile || value.isHostile
                return value.json.text
            }
            return ScopedValue(json: .string(text), isHostile: isHostile)
        case .array(let elements):
            var values: [JSON] = [], isHostile = false
            for element in elements {
                let value = try element.value(in: scope)
                values.append(value.json)
                isHostile = isHostile || value.isHostile
            }
            return ScopedValue(json: .array(values), isHostile: isHostile)
        case .object(let members):
            var object = JSONObject(), isHostile = false
            for member in members {
                let value = try member.value.value(in: scope), key = try member.key.text(in: scope)
                guard object.append(key: key, value: value.json) else {
                    throw EvaluationError(message: "duplicate key \(quoted(key))")
                }
                isHostile = isHostile || value.isHostile
            }
            return ScopedValue(json: .object(object), isHostile: isHostile)
        }
    }
}
