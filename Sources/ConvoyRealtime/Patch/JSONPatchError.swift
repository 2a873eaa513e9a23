import ConvoySerialization
import ConvoySupport
import Foundation

/// An error in parsing or applying a patch: the operation, the pointer and the reason.
public struct JSONPatchError: Error, Sendable, Hashable {
    /// The reason of the error.
    public enum Reason: Error, Sendable, Hashable {
        /// The patch is not an array.
        case notAnArray
        /// The operation is not an object.
        case notAnObject
        /// The operation lacks a member that it needs.
        case missingMember(String)
        /// The member is not a string.
        case notAString(String)
        /// There is no such operation.
        case unknownOperation
        /// The text is not a JSON Pointer: it does not begin with `/`, or has a `~` without a `0` or `1` after it.
        case invalidPointer
        /// The document has nothing there.
        case notFound
        /// The value that should contain it is neither an array nor an object.
        case notAContainer
        /// The array that should contain it has no such index: the token is not a number, or has leading zeros.
        case invalidIndex
        /// The index is beyond the array that should contain it, which has this many elements.
        case indexOutOfBounds(count: Int)
        /// The value differs from the expected one.
        case testFailed
        /// A value cannot be moved into itself.
        case movedIntoItself
        /// The root cannot be removed.
        case removedRoot
        /// The document would be nested more deeply than this.
        case tooDeep(maximumDepth: Int)
        /// The patch copies more text than this, in bytes.
        case tooLarge(maximumCopiedLength: Int)
    }

    /// The reason of the error.
    public let reason: Reason
    /// The number of the operation, counted from 0; nil if the error is about the patch as a whole.
    public let operationIndex: Int?
    /// The name of the operation, as it is in the patch; nil if it has none.
    public let operation: String?
    /// The text of the pointer in question: the operation's `path` or `from`; nil if it has none.
    public let pointer: String?

    /// An error for a reason.
    public init(_ reason: Reason, operationIndex: Int? = nil, operation: String? = nil, pointer: String? = nil) {
        self.reason = reason
        self.operationIndex = operationIndex
        self.operation = operation
        self.pointer = pointer
    }
}

extension JSONPatchError: CustomStringConvertible, LocalizedError {
    /// The operation, the pointer and the reason, in a line. Long text is truncated, and control characters are
    /// escaped.
    public var description: String {
        guard let operationIndex else { return "The JSON Patch cannot be used: \(reason)." }
        var subject = "Operation \(operationIndex) of the JSON Patch"
        let named = [operation.map { Self.shown($0) }, pointer.map { "at \(Self.shown($0))" }].compactMap { $0 }
        if !named.isEmpty { subject += " (\(named.joined(separator: " ")))" }
        return "\(subject) failed: \(reason)."
    }

    /// The same as `description`.
    public var errorDescription: String? { description }

    private static let shownLength = 100

    /// The text in quotes, truncated and escaped for a single line.
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
        case .unknownOperation: "there is no such operation"
        case .invalidPointer: "the text is not a JSON Pointer"
        case .notFound: "the document has nothing there"
        case .notAContainer: "the value that should contain it is neither an array nor an object"
        case .invalidIndex: "a token is not an index of the array"
        case .indexOutOfBounds(let count): "the array has \(count == 1 ? "one element" : "\(count) elements")"
        case .testFailed: "the value is another"
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
        (self.reason, self.pointer, self.name) = (reason, pointer, name)
    }

    func error(at index: Int, _ operation: String? = nil) -> JSONPatchError {
        JSONPatchError(reason, operationIndex: index, operation: operation ?? name, pointer: pointer)
    }
}
