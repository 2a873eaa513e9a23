import ConvoySerialization
import Foundation

/// Changes to a JSON document, in order (RFC 6902).
///
/// ```swift
/// let patch: JSONPatch = [.test(path: ["version"], value: 7), .add(path: ["tags", "-"], value: "new")]
/// try patch.apply(to: &document)
/// ```
///
/// All of the operations are applied or none. Values are changed where they are: a patch takes the time of what it changes,
/// not of the document, where nobody else holds a copy of that.
///
/// The counterpart of the arrays of `AFJSONPatchOperation` of AFNetworking 2.0.0's release candidates.
public struct JSONPatch: Sendable, Hashable {
    /// The operations, in the order in which they are applied.
    public var operations: [Operation]

    /// A patch of these operations.
    public init(operations: [Operation] = []) { self.operations = operations }

    /// A patch from its JSON: an array of objects. Members that no operation has are ignored (RFC 6902, section 4).
    public init(_ json: JSON) throws(JSONPatchError) {
        guard case .array(let elements) = json else { throw JSONPatchError(.notAnArray) }
        operations = []
        operations.reserveCapacity(elements.count)
        for (index, element) in elements.enumerated() {
            do throws(JSONPatchProblem) {
                operations.append(try Operation(element))
            } catch {
                throw error.error(at: index)
            }
        }
    }

    /// A patch from its text, in UTF-8.
    ///
    /// - Parameters:
    ///   - data: the text.
    ///   - maximumDepth: how deep arrays and objects may be nested in it.
    /// - Throws: `JSONSyntaxError` for text that is not JSON, also for a repeated member and an unpaired surrogate;
    ///   ``JSONPatchError`` for JSON that is not a patch.
    public init(parsing data: Data, maximumDepth: Int = 512) throws {
        try self.init(JSON(parsing: data, maximumDepth: maximumDepth, rejectsDuplicateKeys: true))
    }

    /// The patch as JSON.
    public var json: JSON { .array(operations.map(\.json)) }

    // MARK: Applying

    /// Applies all operations to a document, or none.
    ///
    /// - Parameters:
    ///   - document: what is changed. After an error it is as it was before.
    ///   - limits: how much larger and deeper the document may become.
    /// - Throws: an error that names the first operation that cannot be applied.
    public func apply(to document: inout JSON, limits: Limits = .standard) throws(JSONPatchError) {
        var work = PatchTransaction(limits: limits)
        for (index, operation) in operations.enumerated() {
            do throws(JSONPatchProblem) {
                try work.run(operation, on: &document)
            } catch {
                work.undo(on: &document)
                throw error.error(at: index, operation.name)
            }
        }
    }

    /// Applies all operations to a value through its JSON, or none.
    ///
    /// - Parameters:
    ///   - value: what is encoded, patched, and decoded again. After an error it is as it was before.
    ///   - encoder: makes the JSON; it must suit the names that the pointers of the patch have.
    ///   - decoder: makes a value of it again.
    ///   - limits: how much larger and deeper the JSON may become.
    /// - Throws: the encoder's error, the decoder's for a document that is no such value any more, or ``JSONPatchError``.
    public func apply<Value: Codable>(
        to value: inout Value, encoder: JSONEncoder = JSONEncoder(), decoder: JSONDecoder = JSONDecoder(),
        limits: Limits = .standard
    ) throws {
        var document = try JSON(encoding: value, by: encoder)
        try apply(to: &document, limits: limits)
        value = try document.decoded(as: Value.self, by: decoder)
    }
}

extension JSONPatch: ExpressibleByArrayLiteral {
    /// A patch of these operations.
    public init(arrayLiteral operations: Operation...) { self.init(operations: operations) }
}

extension JSONPatch: CustomStringConvertible {
    /// The JSON text, without whitespace.
    public var description: String { json.description }
}

extension JSONPatch: HTTPBodyCodable {
    /// `application/json-patch+json` (RFC 6902, section 6).
    public static let mediaType = "application/json-patch+json"

    /// A patch from the body of a message.
    public init(httpBody: Data, limits: ResponseLimits = .standard) throws {
        try self.init(parsing: httpBody, maximumDepth: limits.maximumNestingDepth)
    }

    /// The JSON text, in UTF-8.
    public func httpBody() -> Data { Data(description.utf8) }

    /// Reads an array of operations. The decoder has read the numbers before; ``init(parsing:maximumDepth:)`` keeps their
    /// digits.
    public init(from decoder: any Decoder) throws {
        let json = try JSON(from: decoder)
        do throws(JSONPatchError) {
            try self.init(json)
        } catch {
            throw DecodingError.dataCorrupted(
                .init(codingPath: decoder.codingPath, debugDescription: error.description, underlyingError: error))
        }
    }

    /// Writes an array of operations.
    public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}

extension JSON {
    /// Applies all operations of a patch, or none. See ``JSONPatch/apply(to:limits:)-(JSON,_)``.
    public mutating func apply(_ patch: JSONPatch) throws(JSONPatchError) { try patch.apply(to: &self) }

    /// The tree with a patch applied to it.
    public func applying(_ patch: JSONPatch) throws(JSONPatchError) -> JSON {
        var document = self
        try patch.apply(to: &document)
        return document
    }
}
