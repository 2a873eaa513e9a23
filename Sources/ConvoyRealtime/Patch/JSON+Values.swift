import ConvoySerialization
import Foundation

/// Trees of values that can be encoded, and back.
extension JSON {
    /// The JSON of a value.
    init(encoding value: some Encodable, by encoder: JSONEncoder) throws {
        if let json = value as? JSON {
            self = json
        } else {
            try self.init(parsing: try encoder.encode(value))
        }
    }

    /// The value of the JSON.
    func decoded<Value: Decodable>(as type: Value.Type, by decoder: JSONDecoder) throws -> Value {
        if let value = self as? Value { return value }
        return try decoder.decodeIndexed(type, from: Data(description.utf8))
    }
}
