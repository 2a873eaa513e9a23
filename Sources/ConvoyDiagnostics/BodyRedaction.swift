import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation

/// Functions that mask secrets in displayed bodies: the values whose names ``SecretClassifier`` considers secret.
package enum BodyRedaction {
    /// Returns the body of a form or of JSON with its secrets masked. Other bodies are returned unchanged.
    ///
    /// - Parameter type: The value of `Content-Type`.
    static func shown(_ body: Data, type: String?, _ secrets: SecretClassifier) -> Data {
        let type = type?.lowercased() ?? ""
        if type.hasPrefix("application/x-www-form-urlencoded") {
            return Data(Redaction.items(String(decoding: body, as: UTF8.self), secrets).utf8)
        }
        guard type.contains("json"), let tree = try? JSON(parsing: body) else { return body }
        let shown = shown(tree, secrets)
        return shown == tree ? body : Data(shown.description.utf8)
    }

    /// Returns a value with the secrets among its members masked.
    package static func shown(_ value: JSON, _ secrets: SecretClassifier = .standard) -> JSON {
        switch value {
        case .array(let values): return .array(values.map { shown($0, secrets) })
        case .object(let object):
            var result = JSONObject()
            for member in object.members {
                let isSecret = secrets.hides(member: member.key, text(of: member.value))
                result.append(key: member.key, value: isSecret ? .string(Redaction.mask) : shown(member.value, secrets))
            }
            return .object(result)
        default: return value
        }
    }

    /// Returns a value in the form of a query item; nil for an array or an object.
    private static func text(of value: JSON) -> String? {
        switch value {
        case .array, .object: nil
        case .string(let text): text
        default: value.description
        }
    }
}
