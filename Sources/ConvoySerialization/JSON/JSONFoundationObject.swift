import Foundation

/// Parses JSON into Foundation's objects with `JSONSerialization`, with the first value of a repeated key.
///
/// `JSONSerialization` returns the last value, `JSONDecoder` the first. As a body must not have two readings, the first
/// counts everywhere.
enum JSONFoundationObject {
    /// - Parameter bytes: JSON in UTF-8.
    /// - Throws: `JSONSerialization`'s error.
    static func parse(_ bytes: Data, options: JSONSerialization.ReadingOptions) throws -> Any {
        let object = try JSONSerialization.jsonObject(with: bytes, options: options)
        // Fewer members than the text has: keys are repeated.
        guard memberCount(of: object) < JSONScanner.memberCount(of: bytes), let tree = try? JSON(parsing: bytes) else {
            return object
        }
        return try JSONSerialization.jsonObject(
            with: Data(withoutRepeatedKeys(tree).description.utf8), options: options)
    }

    private static func memberCount(of object: Any) -> Int {
        switch object {
        case let array as [Any]: array.reduce(0) { $0 + memberCount(of: $1) }
        case let dictionary as [String: Any]:
            dictionary.values.reduce(dictionary.count) { $0 + memberCount(of: $1) }
        default: 0
        }
    }

    /// Keys are equal as in a dictionary: by canonical equivalence.
    private static func withoutRepeatedKeys(_ json: JSON) -> JSON {
        switch json {
        case .array(let values): return .array(values.map(withoutRepeatedKeys))
        case .object(let object):
            var (result, keys) = (JSONObject(), Set<String>())
            for member in object.members where keys.insert(member.key).inserted {
                _ = result.append(key: member.key, value: withoutRepeatedKeys(member.value))
            }
            return .object(result)
        default: return json
        }
    }
}
