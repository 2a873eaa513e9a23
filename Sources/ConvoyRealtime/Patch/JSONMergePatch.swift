import ConvoySerialization
import Foundation

/// Changes to a JSON document as a document with the new values (JSON Merge Patch, RFC 7396): members that are in it are
/// set, those that are `null` in it are removed, all others stay.
///
/// ```swift
/// JSONMergePatch(["title": "Hello", "author": ["familyName": nil]]).apply(to: &document)
/// ```
///
/// It cannot set a member to `null`, nor change a single element of an array. A ``JSONPatch`` can.
public struct JSONMergePatch: Sendable, Hashable {
    /// The new values. One that is not an object takes the place of the whole document.
    public var json: JSON

    /// A patch of new values.
    public init(_ json: JSON) { self.json = json }

    /// A patch from its text, in UTF-8.
    ///
    /// - Parameters:
    ///   - data: the text.
    ///   - maximumDepth: how deep arrays and objects may be nested in it.
    public init(parsing data: Data, maximumDepth: Int = 512) throws(JSONSyntaxError) {
        json = try JSON(parsing: data, maximumDepth: maximumDepth, rejectsDuplicateKeys: true)
    }

    // MARK: Applying

    /// Applies the patch to a document, which cannot fail.
    public func apply(to document: inout JSON) { document.merge(json) }

    /// Applies the patch to a value through its JSON.
    ///
    /// - Parameters:
    ///   - value: what is encoded, patched, and decoded again. After an error it is as it was before.
    ///   - encoder: makes the JSON; it must suit the names that the patch has.
    ///   - decoder: makes a value of it again.
    /// - Throws: the encoder's error, or the decoder's for a document that is no such value any more.
    public func apply<Value: Codable>(
        to value: inout Value, encoder: JSONEncoder = JSONEncoder(), decoder: JSONDecoder = JSONDecoder()
    ) throws {
        var document = try JSON(encoding: value, by: encoder)
        apply(to: &document)
        value = try document.decoded(as: Value.self, by: decoder)
    }

    // MARK: Creating

    /// A patch that makes one document of another; nil if there is none, as a member would have to be set to `null`.
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
    /// A patch of members; nil removes one.
    public init(dictionaryLiteral elements: (String, JSON)...) {
        var object = JSONObject()
        for (key, value) in elements { object[key] = value }
        json = .object(object)
    }
}

extension JSONMergePatch: HTTPBodyCodable {
    /// `application/merge-patch+json` (RFC 7396, section 4).
    public static let mediaType = "application/merge-patch+json"

    /// A patch from the body of a message.
    public init(httpBody: Data, limits: ResponseLimits = .standard) throws {
        try self.init(parsing: httpBody, maximumDepth: limits.maximumNestingDepth)
    }

    /// The JSON text, in UTF-8.
    public func httpBody() -> Data { Data(description.utf8) }

    /// Reads any JSON. The decoder has read the numbers before; ``init(parsing:maximumDepth:)`` keeps their digits.
    public init(from decoder: any Decoder) throws { json = try JSON(from: decoder) }

    /// Writes the new values.
    public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}

extension JSON {
    /// Applies a merge patch. See ``JSONMergePatch``.
    public mutating func apply(_ patch: JSONMergePatch) { merge(patch.json) }

    /// The tree with a merge patch applied to it.
    public func applying(_ patch: JSONMergePatch) -> JSON {
        var document = self
        document.merge(patch.json)
        return document
    }

    /// RFC 7396, section 2. Each level of the patch takes a stack frame.
    fileprivate mutating func merge(_ patch: JSON) {
        guard case .object(let changes) = patch else { return self = patch }
        // Taken out, so that it is changed in place.
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
