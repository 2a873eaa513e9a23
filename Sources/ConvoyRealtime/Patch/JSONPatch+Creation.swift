import ConvoySerialization
import Foundation

extension JSONPatch {
    /// A patch that makes one document of another. Its text is never longer than that of the patch that replaces the
    /// whole.
    ///
    /// Members are compared by key, and elements of arrays as in a comparison of texts: those that both arrays have in the
    /// same order stay. Arrays with more than a thousand differences are compared by position. What is equal in the sense
    /// of RFC 6902 stays as it is, such as a `1.0` that is now `1`, and the order of members.
    public init(from old: JSON, to new: JSON) {
        operations = JSONDifference.operations(from: old, to: new)
    }

    /// A patch that makes the JSON of one value of that of another.
    ///
    /// - Throws: the encoder's error.
    public init<Value: Encodable>(from old: Value, to new: Value, encoder: JSONEncoder = JSONEncoder()) throws {
        self.init(from: try JSON(encoding: old, by: encoder), to: try JSON(encoding: new, by: encoder))
    }
}
