import Foundation

/// The parameters of a call: a literal, a dictionary or array in a variable, or an `Encodable` value.
///
/// ```swift
/// try await manager.get("users", parameters: ["page": page, "sort": order, "team": nil])
/// try await manager.get("users", parameters: .init(filters))  // a dictionary in a variable
/// try await manager.post("users", parameters: .encoding(user))  // an `Encodable` value
/// ```
///
/// The values of a literal can be constants, variables, optionals and nested literals of the types that
/// ``ParameterValue/converting(_:)`` lists. If the value of a key is nil, the key is omitted; use `ParameterValue.null`
/// to send null. A value of another type is an error that the call throws or reports.
public struct RequestParameters: ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral {
    /// All payloads have the size of a pointer, so that parameters fit in a register.
    private enum Content {
        case literal([(String, Any?)])
        case dictionary([String: Any?])
        case array([Any?])
        indirect case tree(ParameterValue)
        indirect case encodable(any Encodable)
    }

    private let content: Content

    /// Creates parameters by key. If a key is repeated, its last value is used.
    public init(dictionaryLiteral elements: (String, Any?)...) { content = .literal(elements) }

    /// Creates an ordered list of values.
    public init(arrayLiteral elements: Any?...) { content = .array(elements) }

    /// Creates parameters from a dictionary.
    public init(_ dictionary: [String: Any?]) { content = .dictionary(dictionary) }

    /// Creates parameters from an ordered list of values.
    public init(_ array: [Any?]) { content = .array(array) }

    /// Creates parameters from a tree.
    public init(_ tree: ParameterValue) { content = .tree(tree) }

    /// Returns parameters that a manager's `encoder` encodes, exactly as it encodes the `body` of a call: with the same
    /// keys, the same dates, and data as Base64. nil is sent as no parameters.
    ///
    /// A serializer for formats other than forms and JSON, such as ``PropertyListRequestSerializer``, receives dates and
    /// data unchanged.
    public static func encoding(_ value: some Encodable) -> RequestParameters {
        RequestParameters(content: .encodable(value))
    }

    private init(content: Content) { self.content = content }

    /// Returns the parameters as a tree; nil for an encoded nil.
    ///
    /// - Parameter encode: A closure that encodes a value of a type that is not known.
    /// - Throws: The errors of ``ParameterValue/converting(_:)``, and those of `encode`.
    package func tree(
        encodingWith encode: ParameterValue.Encode = { try ParameterValue(encoding: $0) }
    ) throws -> ParameterValue? {
        switch content {
        case .literal(let members): try ParameterValue.converting(members, encodingWith: encode)
        case .dictionary(let members): try ParameterValue.converting(members, encodingWith: encode)
        case .array(let values): try ParameterValue.converting(values, encodingWith: encode)
        case .tree(let tree): tree
        case .encodable(let value): try ParameterValue.encoding(value, with: encode)
        }
    }
}

extension ParameterValue {
    /// Encodes a value as an encoder of bodies does.
    ///
    /// - Throws: The encoder's error, or the error of a value that is not JSON.
    package init(encoding value: some Encodable, by encoder: JSONEncoder) throws {
        switch value {
        // An encoder would change the digits of numbers.
        case is ParameterValue, is JSON, is JSONNumber: try self.init(encoding: value)
        default: self.init(try JSON(parsing: try encoder.encode(value)))
        }
    }
}
