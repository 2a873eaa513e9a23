import ConvoySerialization
import Foundation

/// A value of a test script: a part of the response, a variable, or a constant.
enum ScriptValue {
    /// The objects `pm`, `pm.response`, `pm.environment` and the like, which are not values.
    case object(String)
    case status
    /// The duration, which scripts give in milliseconds.
    case duration
    case body
    case headers
    case cookies
    case header(String)
    case cookie(String)
    /// A part of the body: the keys and indices that lead to it.
    case json([JSON])
    /// The number of elements of a part of the body, or of its characters.
    indirect case count(ScriptValue)
    case variable(String)
    case constant(JSON)

    /// The value of a name, or nil for a name that the script defines.
    init?(root name: String) {
        switch name {
        case "pm", "res", "bru", "JSON", "responseCode": self = .object(name)
        case "responseBody": self = .body
        case "responseTime": self = .duration
        default: return nil
        }
    }

    func member(_ key: JSON) -> ScriptValue? {
        switch self {
        case .object(let object):
            guard case .string(let name) = key else { return nil }
            switch "\(object).\(name)" {
            case "pm.response", "pm.environment", "pm.collectionVariables", "pm.globals", "pm.variables":
                return .object(name)
            case "pm.cookies": return .cookies
            case "response.code", "res.status", "res.statusCode", "responseCode.code": return .status
            case "response.responseTime", "res.responseTime": return .duration
            case "response.headers", "res.headers": return .headers
            case "response.cookies": return .cookies
            case "res.body": return .json([])
            default: return nil
            }
        case .headers: return .header(key.text)
        case .json(let path):
            if key == "length" { return .count(self) }
            return .json(path + [key])
        case .body where key == "length": return .count(self)
        default: return nil
        }
    }

    func call(_ name: String, _ arguments: [ScriptValue]) -> ScriptValue? {
        var text: String?
        if case .constant(.string(let first))? = arguments.first { text = first }
        switch (self, name) {
        case (.object("response"), "json") where arguments.isEmpty, (.object("res"), "getBody") where arguments.isEmpty:
            return .json([])
        case (.object("response"), "text") where arguments.isEmpty: return .body
        case (.object("res"), "getStatus"): return .status
        case (.object("res"), "getResponseTime"): return .duration
        case (.object("res"), "getHeaders"): return .headers
        case (.object("JSON"), "parse"):
            if case .body? = arguments.first { return .json([]) }
            return nil
        case (.headers, "get"), (.object("res"), "getHeader"): return text.map { .header($0) }
        case (.cookies, "get"): return text.map { .cookie($0) }
        case (.object("environment"), "get"), (.object("collectionVariables"), "get"), (.object("globals"), "get"),
            (.object("variables"), "get"), (.object("bru"), "getVar"), (.object("bru"), "getEnvVar"),
            (.object("bru"), "getCollectionVar"):
            return text.map { .variable($0) }
        default: return nil
        }
    }

    /// The expression of a manifest, or nil for an object or a variable.
    var expression: String? {
        switch self {
        case .object, .variable: nil
        case .status: "status"
        case .duration: "duration"
        case .body: "body"
        case .headers: "headers"
        case .cookies: "cookies"
        case .header(let name): "headers[\(HurlText.constant(name))]"
        case .cookie(let name): "cookies[\(HurlText.constant(name))]"
        case .json(let path):
            path.reduce("json") { text, key -> String in
                if case .string(let name) = key, Reference.isName(name) { return "\(text).\(name)" }
                return "\(text)[\(Self.text(of: key))]"
            }
        case .count(let value): value.expression.map { "(\($0) | count)" }
        case .constant(let json): Self.text(of: json)
        }
    }

    /// The source of a capture, or nil if there is none.
    var capture: String? {
        switch self {
        case .status: "status"
        case .body: "text:"
        case .header(let name): "header:\(name)"
        case .cookie(let name): "cookie:\(name)"
        case .json(let path):
            path.reduce("json:$") { text, key -> String in
                if case .string(let name) = key {
                    return Reference.isName(name) && !name.contains("-")
                        ? "\(text).\(name)" : "\(text)['\(name.replacing("\\", with: "\\\\").replacing("'", with: "\\'"))']"
                }
                return "\(text)[\(key.text)]"
            }
        default: nil
        }
    }

    /// Returns a constant of an expression.
    static func text(of json: JSON) -> String {
        switch json {
        case .string(let text): HurlText.constant(text)
        case .array(let values): "[\(values.map(text).joined(separator: ", "))]"
        case .object(let object):
            "{\(object.members.map { "\(HurlText.constant($0.key)): \(text(of: $0.value))" }.joined(separator: ", "))}"
        default: json.description
        }
    }
}
