import Foundation

extension Parameter {
    /// Converts any value that parameters can express, as calls with `[String: Any?]` and `Encodable` parameters do.
    ///
    /// These are dictionaries with `String` keys, arrays, sets, strings, numbers, booleans, `Data`, `Date`, `URL`,
    /// Foundation's classes for these, enumerations with such a raw value, and everything `Encodable`. A key whose
    /// value is nil is omitted from its dictionary; `Parameter.null` or `NSNull()` sends a null. In an array nil
    /// becomes null, which keeps the positions of the others.
    ///
    /// - Returns: nil for nil.
    /// - Throws: an `NSError` in ``URLRequestSerializationErrorDomain`` that names the key of a value that is none of
    ///   these, or that nests deeper than ``maximumDepth``; what `encode(to:)` of an `Encodable` value throws.
    public static func converting(_ value: Any?) throws -> Parameter? {
        try convert(value, at: [])
    }

    private static func convert(_ value: Any?, at path: [String]) throws -> Parameter? {
        guard let value else { return nil }
        // Fast path, as the casts below are slow.
        if type(of: value) == [String: Any?].self, let values = value as? [String: Any?] {
            return try convert(values, at: path)
        }
        // An optional inside `Any`, nested to any depth.
        if let optional = value as? any OptionalValue { return try convert(optional.wrapped, at: path) }
        guard path.count <= maximumDepth else {
            throw NSError.request(.parametersTooDeep, "The parameters nest deeper than \(maximumDepth) levels.")
        }
        if type(of: value) is NSNumber.Type, let value = value as? NSNumber { return number(value) }
        if let scalar = scalar(value) { return scalar }
        switch value {
        case let values as [String: Any?]: return try convert(values, at: path)
        case let values as [Any?]:
            return .array(
                try values.enumerated().map { try convert($0.element, at: path + [String($0.offset)]) ?? .null })
        case let values as Set<AnyHashable>:
            return .set(Set(try values.map { try convert($0.base, at: path + ["set"]) ?? .null }))
        case let value as any Encodable:
            return try Parameter(encoding: value)
        case let value as any RawRepresentable:
            return try convert(value.rawValue, at: path)
        default:
            let place = path.isEmpty ? "The parameters are" : "The parameter \(path.joined(separator: ".")) is"
            throw NSError.request(
                .invalidParameters, "\(place) of type \(type(of: value)), which cannot be sent.",
                subject: path.joined(separator: "."))
        }
    }

    private static func convert(_ values: [String: Any?], at path: [String]) throws -> Parameter {
        guard path.count <= maximumDepth else {
            throw NSError.request(.parametersTooDeep, "The parameters nest deeper than \(maximumDepth) levels.")
        }
        var converted = [String: Parameter](minimumCapacity: values.count)
        for (key, value) in values {
            if path.count < maximumDepth, let value, let leaf = common(value) {
                converted[key] = leaf
            } else {
                converted[key] = try convert(value, at: path + [key])
            }
        }
        return .dictionary(converted)
    }

    /// Fast path for the most common leaf types, which needs no search for conformances.
    private static func common(_ value: Any) -> Parameter? {
        let type = type(of: value)
        if type == String.self { return (value as? String).map { .string($0) } }
        if type == Int.self { return (value as? Int).map { .integer(Int64($0)) } }
        if type == Bool.self { return (value as? Bool).map { .bool($0) } }
        if type == Double.self { return (value as? Double).map { .double($0) } }
        return nil
    }

    /// The value if it is a leaf.
    private static func scalar(_ value: Any) -> Parameter? {
        switch value {
        case let value as Parameter: value
        case let value as String: .string(value)
        case let value as Bool: .bool(value)
        case let value as any BinaryInteger: Parameter(value)
        case let value as Double: .double(value)
        case let value as Decimal: Parameter(value)
        case let value as Data: .data(value)
        case let value as Date: .date(value)
        case let value as URL: Parameter(value)
        case let value as Substring: .string(String(value))
        case let value as JSON: Parameter(value)
        case let value as JSONNumber: Parameter(value)
        case is NSNull: .null
        default: nil
        }
    }

    /// Distinguishes the kinds of `NSNumber`, any of which Swift casts to `Bool`, `Int` and `Double`.
    private static func number(_ value: NSNumber) -> Parameter {
        if let decimal = value as? NSDecimalNumber { return Parameter(decimal.decimalValue) }
        switch UInt8(bitPattern: value.objCType.pointee) {
        case UInt8(ascii: "f"), UInt8(ascii: "d"): return .double(value.doubleValue)
        case UInt8(ascii: "Q"): return Parameter(value.uint64Value)
        // Booleans look like numbers of 8 bits, but there are only two instances.
        case _ where value === NSNumber(value: true): return true
        case _ where value === NSNumber(value: false): return false
        default: return Parameter(value.int64Value)
        }
    }
}

/// Unwraps an optional that is hidden in an `Any`.
private protocol OptionalValue {
    var wrapped: Any? { get }
}

extension Optional: OptionalValue {
    fileprivate var wrapped: Any? { self }
}
