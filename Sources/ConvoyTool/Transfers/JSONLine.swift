import Foundation

/// A JSON object (RFC 8259) on one line, with its keys in the order of addition.
struct JSONLine {
    private var members: [String] = []

    var text: String { "{\(members.joined(separator: ","))}" }

    mutating func add(_ key: String, _ value: String?) { append(key, value.map(Self.quoted) ?? "null") }
    mutating func add(_ key: String, _ value: Int64?) { append(key, value.map { String($0) } ?? "null") }

    mutating func add(_ key: String, _ value: Bool) { append(key, value ? "true" : "false") }

    /// A number of seconds, to the microsecond.
    mutating func add(_ key: String, _ value: Double) {
        append(key, value.isFinite ? String(format: "%.6f", value) : "null")
    }

    mutating func add(_ key: String, _ objects: [JSONLine]) {
        append(key, "[\(objects.map(\.text).joined(separator: ","))]")
    }

    private mutating func append(_ key: String, _ value: String) { members.append("\(Self.quoted(key)):\(value)") }

    /// A JSON string, in which characters that control a terminal are escaped.
    static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case "\r": quoted += "\\r"
            case "\t": quoted += "\\t"
            case _ where Printable.isObeyed(scalar):
                for unit in String(scalar).utf16 { quoted += String(format: "\\u%04x", Int(unit)) }
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
