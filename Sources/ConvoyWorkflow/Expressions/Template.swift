import ConvoySerialization
import Foundation

/// A string with references: `reports/${item}`. `$${` is an escaped `${`.
struct Template: Sendable {
    enum Piece: Sendable {
        case literal(String)
        case reference(Reference)
    }

    let pieces: [Piece]
    /// The position in the manifest.
    let source: ManifestValue

    var references: [Reference] {
        pieces.compactMap { if case .reference(let reference) = $0 { reference } else { nil } }
    }

    /// The reference, if it is the entire string.
    var wholeReference: Reference? {
        guard pieces.count == 1, case .reference(let reference)? = pieces.first else { return nil }
        return reference
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
            guard let end = behind.firstIndex(of: UInt8(ascii: "}")) else {
                throw source.problem("the closing } of a ${ is missing")
            }
            let name = String(Substring(behind[..<end].dropFirst())).trimmingCharacters(in: .whitespaces)
            guard let reference = Reference(name) else { throw source.problem("invalid reference ${\(name)}") }
            if !literal.isEmpty { pieces.append(.literal(literal)) }
            literal = ""
            pieces.append(.reference(reference))
            rest = rest[rest.index(after: end)...]
        }
        literal += String(Substring(rest))
        if !literal.isEmpty { pieces.append(.literal(literal)) }
        (self.pieces, self.source) = (pieces, source)
    }

    /// Returns the string with the references replaced by their values.
    ///
    /// - Parameter escape: Escapes a value for its destination.
    func text(
        in scope: some Scope,
        _ escape: (ScopedValue, Reference) throws(EvaluationError) -> String = { value, _ in value.json.text }
    ) throws(EvaluationError) -> String {
        var text = ""
        for part in pieces {
            switch part {
            case .literal(let literal): text += literal
            case .reference(let reference): text += try escape(try scope.value(of: reference), reference)
            }
        }
        return text
    }
}

/// A JSON tree whose strings are templates. A string that consists of one reference becomes its value, with its type.
indirect enum TreeTemplate: Sendable {
    case constant(JSON)
    case text(Template)
    case array([TreeTemplate])
    case object([(key: String, value: TreeTemplate)])

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
            var members: [(key: String, value: TreeTemplate)] = []
            for member in object.members {
                members.append((member.key, try TreeTemplate(value.child(member.value, member.key))))
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
        case .object(let members): members.flatMap(\.value.templates)
        }
    }

    func value(in scope: some Scope) throws(EvaluationError) -> ScopedValue {
        switch self {
        case .constant(let json): return ScopedValue(json: json)
        case .text(let template):
            if let reference = template.wholeReference { return try scope.value(of: reference) }
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
                let value = try member.value.value(in: scope)
                object.append(key: member.key, value: value.json)
                isHostile = isHostile || value.isHostile
            }
            return ScopedValue(json: .object(object), isHostile: isHostile)
        }
    }
}
