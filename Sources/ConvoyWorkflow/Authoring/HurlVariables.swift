import ConvoySerialization
import Foundation

/// The variables of a file of Hurl, and the values of a manifest that they become.
struct HurlVariables {
    /// The variables that the manifest declares, with their values; null for those that a run must set.
    private(set) var needed = JSONObject()
    /// The requests that have captured a variable last.
    private var owners: [String: String] = [:]

    /// Returns a name that a manifest allows.
    static func name(_ name: String) -> String {
        ReservedName.all.contains(name) || ReservedName.ofRequests.contains(name) ? "\(name)_value" : name
    }

    mutating func capture(_ name: String, by request: String) { owners[name] = request }

    mutating func set(_ name: String, to value: JSON) {
        guard Reference.isName(Self.name(name)) else { return }
        needed[Self.name(name)] = value
    }

    /// Returns the expression for a variable or a function, or nil if it has none.
    mutating func expression(_ name: String) -> String? {
        switch name {
        case "newUuid": return "uuid()"
        case "newDate": return "now()"
        default: break
        }
        let known = Self.name(name)
        guard Reference.isName(known) else { return nil }
        if let owner = owners[name] { return "\(owner).\(known)" }
        if needed[known] == nil { needed[known] = .null }
        return known
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
}

/// Strings of Hurl.
enum HurlText {
    /// Returns a text without its escapes.
    static func unescaped(_ text: String) -> String {
        var result = String.UnicodeScalarView(), rest = Array(text.unicodeScalars)[...]
        while let scalar = rest.popFirst() {
            guard scalar == "\\", let next = rest.popFirst() else {
                result.append(scalar)
                continue
            }
            switch next {
            case "n": result.append("\n")
            case "r": result.append("\r")
            case "t": result.append("\t")
            case "b": result.append("\u{8}")
            case "f": result.append("\u{C}")
            case "u" where rest.first == "{":
                let digits = rest.dropFirst().prefix { $0 != "}" }
                if let value = UInt32(String(String.UnicodeScalarView(digits)), radix: 16), let found = Unicode.Scalar(value)
                {
                    result.append(found)
                }
                rest = rest.dropFirst(digits.count + 2)
            default: result.append(next)
            }
        }
        return String(result)
    }

    /// Returns a string as a constant of an expression.
    static func constant(_ text: String) -> String {
        guard text.contains("'"), !text.contains("\"") else {
            return "'\(text.replacing("'", with: "''"))'"
        }
        return "\"\(text)\""
    }
}
