import ConvoySerialization
import Foundation

/// The variables of an imported file, and the values of a manifest that they become.
struct ImportedVariables {
    /// The expressions for functions that have the form of variables: `newUuid`.
    let functions: [String: String]
    /// The variables that the manifest declares, with their values; null for those that a run must set.
    private(set) var needed = JSONObject()
    /// The requests that have captured a variable last.
    private var owners: [String: String] = [:]

    init(functions: [String: String]) { self.functions = functions }

    /// Returns a name that a manifest allows.
    static func name(_ name: String) -> String {
        if ReservedName.all.contains(name) || ReservedName.ofRequests.contains(name) { return "\(name)_value" }
        let plain = String.UnicodeScalarView(
            name.unicodeScalars.map { Reference.isName("a\($0)") ? $0 : "_" })
        return Reference.isName(String(plain)) ? String(plain) : "_\(String(plain))"
    }

    mutating func capture(_ name: String, by request: String) { owners[name] = request }

    mutating func set(_ name: String, to value: JSON) {
        needed[Self.name(name)] = value
    }

    /// Sets a variable that a single request sets. A variable of a manifest has one value for all requests, so a second
    /// value becomes a note of the request.
    mutating func setOnce(_ name: String, to constant: JSON, or draft: inout RequestDraft) {
        let known = Self.name(name), value = templated(constant), old = needed[known]
        if owners[name] == nil, old == nil || old == .null || old == value {
            needed[known] = value
        } else {
            draft.notes.append("not expressed: \(name) = \(constant)")
        }
    }

    /// Returns the expression for a variable or a function, or nil if it has none.
    mutating func expression(_ name: String) -> String? {
        if let function = functions[name] { return function }
        if name.hasPrefix("process.env."), let variable = Reference(name.dropFirst(8)), variable.path.count == 1 {
            return variable.description
        }
        guard !name.isEmpty, !name.contains(where: \.isWhitespace) else { return nil }
        let known = Self.name(name)
        if let owner = owners[name] { return "\(owner).\(known)" }
        if needed[known] == nil { needed[known] = .null }
        return known
    }

    /// Returns a value whose templates are references to other variables.
    mutating func templated(_ json: JSON) -> JSON {
        switch json {
        case .string(let string):
            var draft = RequestDraft(method: "GET", url: "")
            let text = text(string, &draft)
            return draft.templated(.string(text))
        case .array(let values): return .array(values.map { templated($0) })
        case .object(let object):
            var result = JSONObject()
            for member in object.members { result[member.key] = templated(member.value) }
            return .object(result)
        default: return json
        }
    }

    /// Returns a text whose templates are placeholders of a draft.
    mutating func text(_ text: String, _ draft: inout RequestDraft) -> String {
        var result = "", rest = Substring(text)
        while let start = rest.range(of: "{{"), let end = rest[start.upperBound...].range(of: "}}") {
            result += rest[..<start.lowerBound]
            let name = rest[start.upperBound..<end.lowerBound].trimmingCharacters(in: .whitespaces)
            if let expression = expression(name) {
                result += draft.placeholder(for: expression)
            } else {
                result += rest[start.lowerBound..<end.upperBound]
            }
            rest = rest[end.upperBound...]
        }
        return result + rest
    }
}

extension RequestDraft {
    /// Returns the placeholder for an expression.
    mutating func placeholder(for expression: String) -> String {
        variables.insert(expression)
        substitutions[expression] = "${\(expression)}"
        return Self.reference(to: expression)
    }

    /// Returns JSON whose templates are placeholders, or nil if the text is not JSON.
    mutating func json(_ text: String, _ variables: inout ImportedVariables) -> JSON? {
        var result = "", rest = Substring(text), isString = false, isEscaped = false
        while let character = rest.first {
            // A longer name is none: otherwise, the time would be quadratic.
            if rest.hasPrefix("{{"), let end = rest.prefix(400).range(of: "}}"),
                let value = variables.expression(
                    rest[rest.index(rest.startIndex, offsetBy: 2)..<end.lowerBound].trimmingCharacters(in: .whitespaces))
            {
                let mark = placeholder(for: isString ? "\(value) | toString" : value)
                let escaped = mark.replacing("\0", with: "\\u0000")
                result += isString ? escaped : "\"\(escaped)\""
                rest = rest[end.upperBound...]
                continue
            }
            if isString {
                if character == "\"", !isEscaped { isString = false }
                isEscaped = !isEscaped && character == "\\"
            } else if character == "\"" {
                isString = true
            }
            result.append(character)
            rest.removeFirst()
        }
        return try? JSON(parsing: Data(result.utf8), maximumDepth: 50, rejectsDuplicateKeys: true)
    }
}
