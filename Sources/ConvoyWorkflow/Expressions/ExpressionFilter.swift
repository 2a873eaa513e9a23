import CXML2
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import Foundation

/// A filter of an expression: `VALUE | filter(…)`.
enum ExpressionFilter: String, CaseIterable, Sendable {
    case count, first, last, nth, sort, unique, map
    case split, replace, regex, lower, upper, trim
    case toInt, toFloat, toString, parseJSON
    case base64, base64Decode, urlEncode, urlDecode, htmlUnescape, decode, toHex
    case date, format, daysFromNow, jsonpath, xpath

    /// The number of its arguments.
    var arguments: ClosedRange<Int> {
        switch self {
        case .nth, .map, .split, .decode, .format, .jsonpath, .xpath: 1...1
        case .replace: 2...2
        case .regex: 1...2
        case .date: 0...1
        default: 0...0
        }
    }
}

extension ExpressionEvaluation {
    /// Applies a filter. A missing value remains missing.
    mutating func apply(
        _ step: Expression.Step, to value: ExpressionValue
    ) throws(EvaluationError) -> ExpressionValue {
        guard !value.isMissing else { return value }
        switch step.filter {
        case .first, .last, .nth: try spend(1)
        case .count, .map: try spend(value.length)
        default: try spend(on: value)
        }
        let name = step.filter.rawValue
        switch step.filter {
        case .count: return .number(try count(of: value))
        case .first, .last, .nth, .sort, .unique, .map:
            guard case .json(.array(let values)) = value else { throw Self.problem(name, "a list", value) }
            return try apply(step, toList: values)
        case .toString:
            if case .bytes(let data) = value {
                guard let text = String(validating: data, as: UTF8.self) else {
                    throw EvaluationError(message: "toString: the bytes are not UTF-8; use decode(CHARSET)")
                }
                return .string(text)
            }
            if case .json(.string) = value { return value }
            if case .date(let date) = value { return .string(ExpressionDate.text(of: date)) }
            guard value.weight(limit: Self.maximumLength) <= Self.maximumLength else {
                throw EvaluationError(message: "toString: the result is larger than \(Self.maximumLength >> 20) MiB")
            }
            return .string(value.json?.description ?? "")
        case .toInt: return .json(.number(try integer(value)))
        case .toFloat: return .json(.number(try float(value)))
        case .base64, .toHex:
            guard let data = value.utf8 else { throw Self.problem(name, "a string or bytes", value) }
            return .string(step.filter == .base64 ? data.base64EncodedString() : data.hexadecimalString)
        case .decode:
            guard let data = value.utf8 else { throw Self.problem(name, "bytes", value) }
            let label = try text(step.arguments[0], name)
            guard let charset = Charset(named: label) else {
                throw EvaluationError(message: "unknown charset \(shown(label))")
            }
            guard let text = charset.text(of: data) else {
                throw EvaluationError(message: "decode: the bytes are not text in \(charset.name)")
            }
            return .string(text)
        case .format, .daysFromNow:
            guard case .date(let date) = value else { throw Self.problem(name, "a date", value) }
            guard step.filter == .format else {
                return .number(Int((date.timeIntervalSinceNow / 86_400).rounded(.towardZero)))
            }
            return .string(ExpressionDate.text(of: date, format: try text(step.arguments[0], name)))
        case .date:
            if case .date = value { return value }
            if case .json(.number(let number)) = value, step.arguments.isEmpty, let seconds = number.double,
                let date = ExpressionDate.date(secondsSince1970: seconds)
            {
                return .date(date)
            }
        case .jsonpath:
            let path = try text(step.arguments[0], name)
            guard case .json(let json) = value else { throw Self.problem(name, "JSON", value) }
            guard case .string(let text) = json else { return try query(path, in: json) }
            return try query(path, in: try JSON(body: Data(text.utf8), label: nil))
        default: break
        }
        guard case .json(.string(let text)) = value else { throw Self.problem(name, "a string", value) }
        return try apply(step, toString: text)
    }

    private static func problem(_ filter: String, _ wanted: String, _ value: ExpressionValue) -> EvaluationError {
        EvaluationError(message: "\(filter) requires \(wanted), but the value has the type \(value.typeName)")
    }

    // MARK: Lists

    private func count(of value: ExpressionValue) throws(EvaluationError) -> Int {
        switch value {
        case .json(.array(let values)): return values.count
        case .json(.object(let object)): return object.members.count
        case .json(.string(let text)): return text.unicodeScalars.count
        case .bytes(let data): return data.count
        default: throw Self.problem("count", "a list, an object, a string or bytes", value)
        }
    }

    private mutating func apply(
        _ step: Expression.Step, toList values: [JSON]
    ) throws(EvaluationError) -> ExpressionValue {
        func element(_ index: Int) -> ExpressionValue {
            let position = index < 0 ? values.count + index : index
            guard values.indices.contains(position) else {
                return .missing("the list has \(values.count == 1 ? "1 element" : "\(values.count) elements")")
            }
            return .json(values[position])
        }
        switch step.filter {
        case .first: return element(0)
        case .last: return element(-1)
        case .nth:
            guard let index: Int = try number(step.arguments[0], "nth").integer(), abs(index / 2) < Int.max / 2 else {
                throw EvaluationError(message: "nth takes a whole number")
            }
            return element(index)
        case .unique:
            var known: Set<JSON> = []
            return .json(.array(values.filter { known.insert($0).inserted }))
        case .sort: return .json(.array(try sorted(values)))
        default:
            var results: [JSON] = []
            results.reserveCapacity(values.count)
            for element in values {
                // An evaluation takes longer than visiting a value.
                try spend(16)
                let value = try value(of: step.arguments[0], for: element)
                try spend(on: .json(value))
                results.append(value)
            }
            return .json(.array(results))
        }
    }

    private mutating func sorted(_ values: [JSON]) throws(EvaluationError) -> [JSON] {
        try spend(on: .json(.array(values)))
        var numbers: [(double: Double, json: JSON)] = [], texts: [(text: String, json: JSON)] = []
        for json in values {
            switch json {
            case .number(let number):
                guard let double = number.double else {
                    throw EvaluationError(message: "a number is too large to be compared")
                }
                numbers.append((double, json))
            case .string(let text): texts.append((text, json))
            default: throw EvaluationError(message: "sort requires a list of numbers or of strings")
            }
        }
        guard numbers.isEmpty || texts.isEmpty else {
            throw EvaluationError(message: "sort requires a list of numbers or of strings")
        }
        guard texts.isEmpty else {
            return texts.sorted { $0.text.unicodeScalars.lexicographicallyPrecedes($1.text.unicodeScalars) }.map(\.json)
        }
        return numbers.sorted { $0.double < $1.double }.map(\.json)
    }

    // MARK: Numbers

    private func integer(_ value: ExpressionValue) throws(EvaluationError) -> JSONNumber {
        switch value {
        case .json(.number(let number)):
            if let integer: Int = number.integer() { return JSONNumber(integer) }
            guard let double = number.double, let integer = Int(exactly: double.rounded(.towardZero)) else { break }
            return JSONNumber(integer)
        case .json(.string(let text)):
            var digits = text.trimmingCharacters(in: .whitespaces)
            let sign = digits.hasPrefix("-") ? "-" : ""
            if digits.hasPrefix("-") || digits.hasPrefix("+") { digits.removeFirst() }
            guard !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { break }
            digits = String(digits.drop { $0 == "0" })
            if let number = JSONNumber(digits.isEmpty ? "0" : sign + digits) { return number }
        default: throw Self.problem("toInt", "a string or a number", value)
        }
        throw EvaluationError(message: "toInt: \(shown(value.json?.text ?? "")) is not an integer")
    }

    private func float(_ value: ExpressionValue) throws(EvaluationError) -> JSONNumber {
        switch value {
        case .json(.number(let number)): return number
        case .json(.string(let text)):
            let digits = text.trimmingCharacters(in: .whitespaces)
            guard let number = JSONNumber(digits) ?? Double(digits).flatMap({ JSONNumber($0) }) else {
                throw EvaluationError(message: "toFloat: \(shown(text)) is not a number")
            }
            return number
        default: throw Self.problem("toFloat", "a string or a number", value)
        }
    }

    // MARK: Strings

    private mutating func apply(
        _ step: Expression.Step, toString text: String
    ) throws(EvaluationError) -> ExpressionValue {
        let name = step.filter.rawValue
        switch step.filter {
        case .split:
            let parts = try pieces(of: text, by: try self.text(step.arguments[0], name), name)
            return .json(.array(parts.map { .string(String(decoding: $0, as: UTF8.self)) }))
        case .replace:
            let old = try self.text(step.arguments[0], name), new = try self.text(step.arguments[1], name)
            let parts = try pieces(of: text, by: old, name)
            let length = text.utf8.count + (parts.count - 1) * (new.utf8.count - old.utf8.count)
            guard length <= Self.maximumLength else {
                throw EvaluationError(message: "replace: the result is larger than \(Self.maximumLength >> 20) MiB")
            }
            try spend(length)
            return .string(String(decoding: Data(parts.joined(separator: Array(new.utf8))), as: UTF8.self))
        case .regex:
            let groups = try match(try self.text(step.arguments[0], name), in: text)
            var group: Int?
            if step.arguments.count > 1 { group = try number(step.arguments[1], name).integer() ?? -1 }
            guard let groups else { return .missing("nothing matches the regular expression") }
            let index = group ?? min(1, groups.count - 1)
            guard groups.indices.contains(index) else {
                throw EvaluationError(message: "regex: the group \(index) does not exist")
            }
            return groups[index].map { .string($0) } ?? .missing("the group matches nothing")
        case .lower: return .string(text.lowercased())
        case .upper: return .string(text.uppercased())
        case .trim: return .string(text.trimmingCharacters(in: .whitespacesAndNewlines))
        case .parseJSON: return .json(try JSON(body: Data(text.utf8), label: nil))
        case .base64Decode:
            let plain = text.replacing("-", with: "+").replacing("_", with: "/").filter { !$0.isWhitespace && $0 != "=" }
            let padding = String(repeating: "=", count: (4 - plain.utf8.count % 4) % 4)
            guard let data = Data(base64Encoded: plain + padding) else {
                throw EvaluationError(message: "base64Decode: the string is not Base64")
            }
            return .bytes(data)
        case .urlEncode: return .string(Escaping.url(text))
        case .urlDecode:
            guard let decoded = text.removingPercentEncoding else {
                throw EvaluationError(message: "urlDecode: the string is not percent-encoded UTF-8")
            }
            return .string(decoded)
        case .htmlUnescape: return .string(HTMLEntities.unescaped(text))
        case .xpath:
            let start = text.prefix(256).lowercased()
            let isHTML = start.contains("<!doctype html") || start.contains("<html")
            let path = try self.text(step.arguments[0], name)
            do throws(EvaluationError) {
                return try XPath.value(of: path, in: Data(text.utf8), label: "utf-8", isHTML: isHTML)
            } catch {
                throw shown(error)
            }
        case .date:
            if let node = step.arguments.first {
                let format = try self.text(node, name)
                guard let date = ExpressionDate.date(text, format: format) else {
                    throw EvaluationError(message: "date: \(shown(text)) does not have the format \(shown(format))")
                }
                return .date(date)
            }
            guard let date = ExpressionDate.date(text) else {
                throw EvaluationError(message: "date: \(shown(text)) is not a date of RFC 3339 or HTTP")
            }
            return .date(date)
        default: throw EvaluationError(message: "\(name) cannot be applied to a string")
        }
    }

    private mutating func pieces(
        of text: String, by separator: String, _ name: String
    ) throws(EvaluationError) -> [Data] {
        guard !separator.isEmpty else { throw EvaluationError(message: "\(name) cannot search for an empty string") }
        let data = Data(text.utf8), needle = Data(separator.utf8)
        guard let positions = ByteSearch.positions(of: needle, in: data, limit: Self.maximumCount) else {
            throw EvaluationError(message: "\(name) finds more than \(Self.maximumCount) occurrences")
        }
        try spend(positions.count * 32)
        var pieces: [Data] = [], start = 0
        for position in positions {
            pieces.append(data[start..<position])
            start = position + needle.count
        }
        return pieces + [data[start...]]
    }
}

/// Character references of HTML.
enum HTMLEntities {
    /// Returns a text with the characters that its references stand for. Unknown references are unchanged.
    static func unescaped(_ text: String) -> String {
        var result = "", rest = text.utf8[...]
        while let start = rest.firstIndex(of: UInt8(ascii: "&")) {
            result += String(Substring(rest[..<start]))
            // The longest name has 31 characters.
            let window = rest[start...].dropFirst().prefix(33)
            guard let end = window.firstIndex(of: UInt8(ascii: ";")),
                let scalar = scalar(named: String(Substring(window[..<end])))
            else {
                result += "&"
                rest = rest[start...].dropFirst()
                continue
            }
            result.unicodeScalars.append(scalar)
            rest = rest[end...].dropFirst()
        }
        return result + String(Substring(rest))
    }

    private static func scalar(named name: String) -> Unicode.Scalar? {
        if name == "apos" { return "'" }
        guard name.hasPrefix("#") else {
            return htmlEntityLookup(name).flatMap { Unicode.Scalar($0.pointee.value) }
        }
        let digits = name.dropFirst(), isHexadecimal = digits.first == "x" || digits.first == "X"
        return UInt32(isHexadecimal ? digits.dropFirst() : digits, radix: isHexadecimal ? 16 : 10).flatMap {
            $0 == 0 ? nil : Unicode.Scalar($0)
        }
    }
}

extension Charset {
    /// Returns whether a constant does not name a charset.
    static func isUnknown(_ json: JSON) -> Bool {
        guard case .string(let label) = json else { return true }
        return Charset(named: label) == nil
    }
}
