import Foundation

/// The result of a decoding call, as text that shows every difference.
enum DecodingOutcome {
    static func of<Value>(_ decode: () throws -> Value) -> String {
        do {
            return "\(Value.self) \(text(of: try decode()))"
        } catch {
            return text(of: error)
        }
    }

    static func text(of error: any Error) -> String {
        func text(_ context: DecodingError.Context) -> String {
            let path = context.codingPath.map { "\($0.stringValue)|\($0.intValue.map(String.init) ?? "")" }
            let cause = context.underlyingError == nil ? "" : " because of another"
            return "at \(path) \(context.debugDescription)\(cause)"
        }
        return switch error {
        case DecodingError.typeMismatch(let type, let context): "typeMismatch \(type) \(text(context))"
        case DecodingError.valueNotFound(let type, let context): "valueNotFound \(type) \(text(context))"
        case DecodingError.keyNotFound(let key, let context): "keyNotFound \(key.stringValue) \(text(context))"
        case DecodingError.dataCorrupted(let context): "dataCorrupted \(text(context))"
        // Each decoder has its own error type for a number that does not fit. Both are converted to `dataCorrupted`.
        default: "another error"
        }
    }

    /// Returns the text of a value. Distinguishes zeros with different signs, and NaN.
    static func text(of value: Any) -> String {
        switch value {
        case let value as Double: "\(value) \(value.bitPattern)"
        case let value as Float: "\(value) \(value.bitPattern)"
        case let value as Date: "\(value.timeIntervalSinceReferenceDate.bitPattern)"
        case let value as Data: value.map { String($0, radix: 16) }.joined(separator: " ")
        case let value as URL: value.absoluteString
        case let value as String: "\(value.unicodeScalars.map { String($0.value, radix: 16) })"
        case let value as [Any]: "\(value.map(text(of:)))"
        case let value as [String: Any]:
            value.map { "\(text(of: $0.key)): \(text(of: $0.value))" }.sorted().joined(separator: ", ")
        default:
            if case let mirror = Mirror(reflecting: value), mirror.displayStyle == .struct, !mirror.children.isEmpty {
                mirror.children.map { "\($0.label ?? ""): \(text(of: $0.value))" }.joined(separator: ", ")
            } else {
                "\(value)"
            }
        }
    }
}
