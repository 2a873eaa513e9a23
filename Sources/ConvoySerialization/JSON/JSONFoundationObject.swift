import Foundation

/// A parser that creates Foundation objects with `JSONSerialization`, but uses the first value of a repeated key.
///
/// `JSONSerialization` returns the last value, and `JSONDecoder` the first. All of Convoy's parsers use the first
/// value, so that a body is always interpreted in the same way.
enum JSONFoundationObject {
    /// Parses JSON into Foundation objects.
    ///
    /// - Parameter bytes: JSON in UTF-8.
    /// - Throws: `JSONSerialization`'s error.
    static func parse(_ bytes: Data, options: JSONSerialization.ReadingOptions) throws -> Any {
        let object = try JSONSerialization.jsonObject(with: bytes, options: options)
        // If the object has fewer members than the text, keys are repeated.
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

    /// Returns the tree with only the first value of each repeated key. Keys are compared by canonical equivalence, as
    /// in a dictionary.
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
