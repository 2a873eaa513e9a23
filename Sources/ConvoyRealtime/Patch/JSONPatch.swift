import ConvoySerialization
import ConvoySupport
import Foundation

/// Changes to a JSON document, in order (RFC 6902).
///
/// ```swift
/// let patch: JSONPatch = [.test(path: ["version"], value: 7), .add(path: ["tags", "-"], value: "new")]
/// try patch.apply(to: &document)
/// ```
///
/// Either all operations are applied or none. Values are changed in place: unless the document is shared, a patch takes
/// time in proportion to its changes, not to the document.
///
/// The counterpart of the arrays of `AFJSONPatchOperation` of AFNetworking 2.0.0's release candidates.
public struct JSONPatch: Sendable, Hashable {
    /// The operations, in order.
    public var operations: [Operation]

    /// Creates a patch from operations.
    public init(operations: [Operation] = []) { self.operations = operations }

    /// Creates a patch from its JSON: an array of objects. Unknown members are ignored (RFC 6902, section 4).
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

    /// Parses a patch from UTF-8 text.
    ///
    /// - Parameters:
    ///   - data: The text.
    ///   - maximumDepth: The maximum nesting of arrays and objects.
    /// - Throws: `JSONSyntaxError` for text that is not JSON, or that contains a repeated member or an unpaired
    ///   surrogate; ``JSONPatchError`` for JSON that is not a patch.
    public init(parsing data: Data, maximumDepth: Int = 512) throws {
        try self.init(JSON(parsing: data, maximumDepth: maximumDepth, rejectsDuplicateKeys: true))
    }

    /// The patch as JSON.
    public var json: JSON { .array(operations.map(\.json)) }

    // MARK: Applying

    /// Applies all operations to a document, or none.
    ///
    /// - Parameters:
    ///   - document: The document. After an error it is unchanged.
    ///   - limits: The limits on the growth of the document.
    /// - Throws: An error that identifies the first operation that cannot be applied.
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
    ///   - value: The value, which is encoded, patched and decoded again. After an error it is unchanged.
    ///   - encoder: The encoder, whose keys must match the pointers of the patch.
    ///   - decoder: The decoder for the patched value.
    ///   - limits: The limits on the growth of the JSON.
    /// - Throws: The encoder's error, the decoder's if the patched document cannot be decoded as the value's type, or
    ///   ``JSONPatchError``.
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
    /// Creates a patch from operations.
    public init(arrayLiteral operations: Operation...) { self.init(operations: operations) }
}

extension JSONPatch: CustomStringConvertible {
    /// The JSON text, without whitespace.
    public var description: String { json.description }
}

extension JSONPatch: HTTPBodyCodable {
    /// The media type `application/json-patch+json` (RFC 6902, section 6).
    public static let mediaType = "application/json-patch+json"

    /// Parses a patch from the body of a message.
    public init(httpBody: Data, limits: ResponseLimits = .standard) throws {
        try self.init(parsing: httpBody, maximumDepth: limits.maximumNestingDepth)
    }

    /// Returns the JSON text, in UTF-8.
    public func httpBody() -> Data { Data(description.utf8) }

    /// Decodes an array of operations. Decoders convert numbers; ``init(parsing:maximumDepth:)`` keeps their digits.
    public init(from decoder: any Decoder) throws {
        let json = try JSON(from: decoder)
        do throws(JSONPatchError) {
            try self.init(json)
        } catch {
            throw DecodingError.dataCorrupted(
                .init(codingPath: decoder.codingPath, debugDescription: error.description, underlyingError: error))
        }
    }

    /// Encodes an array of operations.
    public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}

extension JSON {
    /// Returns the tree with a patch applied to it.
    public func applying(_ patch: JSONPatch) throws(JSONPatchError) -> JSON {
        var document = self
        try patch.apply(to: &document)
        return document
    }
}

extension JSONPatch {
    /// A single change, or a condition for the other operations (RFC 6902, section 4). The counterpart of
    /// `AFJSONPatchOperation`.
    public enum Operation: Sendable, Hashable {
        /// Adds or replaces a member of an object, or inserts an element into an array: before the element at the index
        /// or, with the token `-`, at the end. The object or array must exist. With the pointer to the root, the value
        /// replaces the document.
        case add(path: JSONPointer, value: JSON)
        /// Removes a value, which must exist. The root cannot be removed, only replaced (``replace(path:value:)``).
        case remove(path: JSONPointer)
        /// Replaces a value, which must exist.
        case replace(path: JSONPointer, value: JSON)
        /// Moves a value to a different location, which must not be inside the value. Moving it to its current location
        /// has no effect.
        case move(from: JSONPointer, path: JSONPointer)
        /// Adds a copy of a value at a different location.
        case copy(from: JSONPointer, path: JSONPointer)
        /// Requires a value to be equal to the given one: numbers by value, strings by code points, members in any
        /// order.
        case test(path: JSONPointer, value: JSON)

        /// The location that the operation changes or tests.
        public var path: JSONPointer {
            switch self {
            case .add(let path, _), .remove(let path), .replace(let path, _), .test(let path, _), .move(_, let path),
                .copy(_, let path):
                path
            }
        }

        /// The name of the operation, as in the member `op`.
        public var name: String {
            switch self {
            case .add: "add"
            case .remove: "remove"
            case .replace: "replace"
            case .move: "move"
            case .copy: "copy"
            case .test: "test"
            }
        }

        /// The operation as JSON.
        public var json: JSON {
            var object = JSONObject()
            object.append(key: "op", value: .string(name))
            switch self {
            case .move(let from, let path), .copy(let from, let path):
                object.append(key: "from", value: .string(from.description))
                object.append(key: "path", value: .string(path.description))
            case .remove(let path): object.append(key: "path", value: .string(path.description))
            case .add(let path, let value), .replace(let path, let value), .test(let path, let value):
                object.append(key: "path", value: .string(path.description))
                object.append(key: "value", value: value)
            }
            return .object(object)
        }
    }
}

extension JSONPatch.Operation {
    init(_ json: JSON) throws(JSONPatchProblem) {
        guard case .object(let object) = json else { throw JSONPatchProblem(.notAnObject) }
        guard let op = object["op"] else { throw JSONPatchProblem(.missingMember("op")) }
        guard case .string(let name) = op else { throw JSONPatchProblem(.notAString("op")) }
        func pointer(_ key: String) throws(JSONPatchProblem) -> JSONPointer {
            guard let value = object[key] else { throw JSONPatchProblem(.missingMember(key), name: name) }
            guard case .string(let text) = value else { throw JSONPatchProblem(.notAString(key), name: name) }
            guard let pointer = JSONPointer(text) else { throw JSONPatchProblem(.invalidPointer, text, name: name) }
            return pointer
        }
        func value(_ path: JSONPointer) throws(JSONPatchProblem) -> JSON {
            guard let value = object["value"] else {
                throw JSONPatchProblem(.missingMember("value"), path.description, name: name)
            }
            return value
        }
        switch name {
        case "add":
            let path = try pointer("path")
            self = .add(path: path, value: try value(path))
        case "remove": self = .remove(path: try pointer("path"))
        case "replace":
            let path = try pointer("path")
            self = .replace(path: path, value: try value(path))
        case "move": self = .move(from: try pointer("from"), path: try pointer("path"))
        case "copy": self = .copy(from: try pointer("from"), path: try pointer("path"))
        case "test":
            let path = try pointer("path")
            self = .test(path: path, value: try value(path))
        default: throw JSONPatchProblem(.unknownOperation, name: name)
        }
    }
}

extension JSONPatch {
    /// Limits on the growth of a document. Without them, a few short `copy` operations could exhaust the memory.
    public struct Limits: Sendable, Hashable {
        /// The maximum length of the text of all values that are copied, or moved to a deeper location, in bytes. 64
        /// MiB by default. Values in the operations themselves do not count.
        public var maximumCopiedLength: Int
        /// The maximum nesting of arrays and objects where the patch adds a value. 512 by default, as in the parser.
        public var maximumDepth: Int

        /// Creates limits, each of which has a default.
        public init(maximumCopiedLength: Int = 64 << 20, maximumDepth: Int = 512) {
            self.maximumCopiedLength = maximumCopiedLength
            self.maximumDepth = maximumDepth
        }

        /// The default limits.
        public static let standard = Limits()
    }
}

/// A serializer that parses responses of the type `application/json-patch+json` as ``JSONPatch``. The counterpart of
/// `AFJSONPatchResponseSerializer` of AFNetworking 2.0.0's release candidates.
public typealias JSONPatchResponseSerializer = HTTPBodyResponseSerializer<JSONPatch>

/// A serializer that parses responses of the type `application/merge-patch+json` as ``JSONMergePatch``.
public typealias JSONMergePatchResponseSerializer = HTTPBodyResponseSerializer<JSONMergePatch>

/// An error in parsing or applying a patch: the operation, the pointer and the reason.
public struct JSONPatchError: Error, Sendable, Hashable {
    /// The reason why a patch could not be parsed or applied.
    public enum Reason: Error, Sendable, Hashable {
        /// The patch is not an array.
        case notAnArray
        /// The operation is not an object.
        case notAnObject
        /// The operation lacks a required member.
        case missingMember(String)
        /// The member is not a string.
        case notAString(String)
        /// The `op` of an operation is not one of the six in RFC 6902.
        case unknownOperation
        /// The string is not a JSON Pointer: it does not begin with `/`, or has a `~` without a `0` or `1` after it.
        case invalidPointer
        /// The document has no value at this location.
        case notFound
        /// The value that should contain the location is neither an array nor an object.
        case notAContainer
        /// The array that should contain the location has no such index: the token is not a number, or has leading
        /// zeros.
        case invalidIndex
        /// The index is beyond the end of the array, which has the given number of elements.
        case indexOutOfBounds(count: Int)
        /// The value differs from the expected one.
        case testFailed
        /// A value cannot be moved into itself.
        case movedIntoItself
        /// The root cannot be removed.
        case removedRoot
        /// The document would be nested more deeply than the maximum.
        case tooDeep(maximumDepth: Int)
        /// The length of the copied values as JSON exceeds the maximum, in bytes.
        case tooLarge(maximumCopiedLength: Int)
    }

    /// The reason for the error.
    public let reason: Reason
    /// The index of the operation, from 0; nil if the error concerns the whole patch.
    public let operationIndex: Int?
    /// The name of the operation in the patch, if any.
    public let operation: String?
    /// The operation's `path` or `from` that caused the error, as a string; nil if neither did.
    public let pointer: String?

    /// Creates an error.
    package init(_ reason: Reason, operationIndex: Int? = nil, operation: String? = nil, pointer: String? = nil) {
        self.reason = reason
        self.operationIndex = operationIndex
        self.operation = operation
        self.pointer = pointer
    }
}

extension JSONPatchError: SelfDescribingError {
    /// The operation, the pointer and the reason, on one line. Long strings are truncated, and control characters are
    /// escaped.
    public var description: String {
        guard let operationIndex else { return "Invalid JSON Patch: \(reason)." }
        var subject = "Operation \(operationIndex) of the JSON Patch"
        let named = [operation.map { Self.shown($0) }, pointer.map { "at \(Self.shown($0))" }].compactMap { $0 }
        if !named.isEmpty { subject += " (\(named.joined(separator: " ")))" }
        return "\(subject) failed: \(reason)."
    }

    private static let shownLength = 100

    /// Returns the string in quotes, truncated and escaped for a single line.
    private static func shown(_ text: String) -> String {
        var shown = "\""
        for scalar in text.unicodeScalars.prefix(shownLength) {
            if scalar.controlsDisplay || scalar == "\"" || scalar == "\\" {
                shown += scalar.escaped(asASCII: true)
            } else {
                shown.unicodeScalars.append(scalar)
            }
        }
        let isWhole = text.unicodeScalars.dropFirst(shownLength).isEmpty
        return shown + (isWhole ? "\"" : "…\" of \(text.utf8.count) bytes")
    }
}

extension JSONPatchError.Reason: CustomStringConvertible {
    /// The reason, as a part of a sentence.
    public var description: String {
        switch self {
        case .notAnArray: "it is not an array"
        case .notAnObject: "it is not an object"
        case .missingMember(let name): "the member \(name.debugDescription) is missing"
        case .notAString(let name): "the member \(name.debugDescription) is not a string"
        case .unknownOperation: "the operation does not exist"
        case .invalidPointer: "the text is not a JSON Pointer"
        case .notFound: "the document has no value at this location"
        case .notAContainer: "the parent value is neither an array nor an object"
        case .invalidIndex: "a token is not an index of the array"
        case .indexOutOfBounds(let count): "the array has \(count == 1 ? "one element" : "\(count) elements")"
        case .testFailed: "the value is different"
        case .movedIntoItself: "a value cannot be moved into itself"
        case .removedRoot: "the root of a document cannot be removed"
        case .tooDeep(let depth): "the document would be nested deeper than \(depth) levels"
        case .tooLarge(let length): "the patch copies more than \(length) bytes"
        }
    }
}

/// The error of an operation whose index is not known yet.
struct JSONPatchProblem: Error {
    let reason: JSONPatchError.Reason
    let pointer: String?
    let name: String?

    init(_ reason: JSONPatchError.Reason, _ pointer: String? = nil, name: String? = nil) {
        self.reason = reason
        self.pointer = pointer
        self.name = name
    }

    func error(at index: Int, _ operation: String? = nil) -> JSONPatchError {
        JSONPatchError(reason, operationIndex: index, operation: operation ?? name, pointer: pointer)
    }
}
