import ConvoySerialization
import Foundation

/// A change to a JSON document, as a document with the new values (JSON Merge Patch, RFC 7396): its members are set,
/// except that `null` removes a member; all other members are unchanged.
///
/// ```swift
/// JSONMergePatch(["title": "Hello", "author": ["familyName": nil]]).apply(to: &document)
/// ```
///
/// A merge patch cannot set a member to `null` or change a single element of an array. Use a ``JSONPatch`` for that.
public struct JSONMergePatch: Sendable, Hashable {
    /// The new values. A value that is not an object replaces the whole document.
    public var json: JSON

    /// Creates a patch with new values.
    public init(_ json: JSON) { self.json = json }

    /// Parses a patch from UTF-8 text.
    ///
    /// - Parameters:
    ///   - data: The text.
    ///   - maximumDepth: The maximum nesting of arrays and objects.
    public init(parsing data: Data, maximumDepth: Int = 512) throws(JSONSyntaxError) {
        json = try JSON(parsing: data, maximumDepth: maximumDepth, rejectsDuplicateKeys: true)
    }

    // MARK: Applying

    /// Applies the patch to a document. This cannot fail.
    public func apply(to document: inout JSON) { document.merge(json) }

    /// Applies the patch to a value through its JSON.
    ///
    /// - Parameters:
    ///   - value: The value, which is encoded, patched and decoded again. After an error it is unchanged.
    ///   - encoder: The encoder, whose keys must match those of the patch.
    ///   - decoder: The decoder for the patched value.
    /// - Throws: The encoder's error, or the decoder's if the patched document cannot be decoded as the value's type.
    public func apply<Value: Codable>(
        to value: inout Value, encoder: JSONEncoder = JSONEncoder(), decoder: JSONDecoder = JSONDecoder()
    ) throws {
        var document = try JSON(encoding: value, by: encoder)
        apply(to: &document)
        value = try document.decoded(as: Value.self, by: decoder)
    }

    // MARK: Creating

    /// Creates the patch that transforms one document into another; nil if such a patch would have to set a member to
    /// `null`, which is impossible.
    public init?(from old: JSON, to new: JSON) {
        guard let json = JSON.mergePatch(from: old, to: new) else { return nil }
        self.json = json
    }
}

extension JSONMergePatch: CustomStringConvertible {
    /// The JSON text, without whitespace.
    public var description: String { json.description }
}

extension JSONMergePatch: ExpressibleByDictionaryLiteral {
    /// Creates a patch from members; nil removes a member.
    public init(dictionaryLiteral elements: (String, JSON)...) {
        var object = JSONObject()
        for (key, value) in elements { object[key] = value }
        json = .object(object)
    }
}

extension JSONMergePatch: HTTPBodyCodable {
    /// The media type `application/merge-patch+json` (RFC 7396, section 4).
    public static let mediaType = "application/merge-patch+json"

    /// Parses a patch from the body of a message.
    public init(httpBody: Data, limits: ResponseLimits = .standard) throws {
        try self.init(parsing: httpBody, maximumDepth: limits.maximumNestingDepth)
    }

    /// Returns the JSON text, in UTF-8.
    public func httpBody() -> Data { Data(description.utf8) }

    /// Decodes any JSON. Decoders convert numbers; ``init(parsing:maximumDepth:)`` keeps their digits.
    public init(from decoder: any Decoder) throws { json = try JSON(from: decoder) }

    /// Encodes the new values.
    public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}

extension JSON {
    /// Returns the tree with a merge patch applied to it.
    public func applying(_ patch: JSONMergePatch) -> JSON {
        var document = self
        document.merge(patch.json)
        return document
    }

    /// Applies a patch by the algorithm of RFC 7396, section 2. Each level of the patch takes a stack frame.
    fileprivate mutating func merge(_ patch: JSON) {
        guard case .object(let changes) = patch else { return self = patch }
        // Move the object out, so that it is changed in place.
        var object = takeObject() ?? JSONObject()
        for change in changes.members {
            if case .null = change.value {
                object.removeValue(forKey: change.key)
            } else if let position = object.position(of: change.key) {
                object.withValue(at: position) { $0.merge(change.value) }
            } else {
                var value = JSON.null
                value.merge(change.value)
                object.append(key: change.key, value: value)
            }
        }
        self = .object(object)
    }

    fileprivate static func mergePatch(from old: JSON, to new: JSON) -> JSON? {
        guard case .object(let newObject) = new else { return new }
        var oldObject = JSONObject()
        if case .object(let object) = old { oldObject = object }
        var patch = JSONObject()
        for member in oldObject.members where newObject.position(of: member.key) == nil {
            patch.append(key: member.key, value: .null)
        }
        for member in newObject.members {
            let value = oldObject[member.key]
            if value == member.value { continue }
            guard member.value != .null, let change = mergePatch(from: value ?? .null, to: member.value) else { return nil }
            patch.append(key: member.key, value: change)
        }
        return .object(patch)
    }
}

/// Conversion from and to `Codable` values.
extension JSON {
    /// Encodes a value as JSON.
    init(encoding value: some Encodable, by encoder: JSONEncoder) throws {
        if let json = value as? JSON {
            self = json
        } else {
            try self.init(parsing: try encoder.encode(value))
        }
    }

    /// Decodes a value from the JSON.
    func decoded<Value: Decodable>(as type: Value.Type, by decoder: JSONDecoder) throws -> Value {
        if let value = self as? Value { return value }
        return try decoder.decodeIndexed(type, from: Data(description.utf8))
    }
}
