import ConvoySecurity
import ConvoySerialization
import Foundation

/// The secrets in a response, which messages about the response must not show.
struct ResponseSecrets {
    /// The maximum number of secrets that are searched in texts.
    private static let maximumCount = 1000

    let mask: SecretMask
    /// The secrets that are known without the response.
    private let known: SecretMask
    /// Whether the response has too many secrets to search for all of them, so that no text is shown.
    let isCrowded: Bool

    init(_ response: ReceivedResponse, _ secrets: SecretMask) {
        mask = SecretMask(extending: secrets)
        known = secrets
        var found: [String] = []
        if secrets.hidesNamed {
            found = response.json.map { NamedSecrets.values(of: $0, named: "") } ?? []
            for field in response.fields { found += NamedSecrets.values(ofField: field.name, field.value) }
            if case .object(let cookies)? = response.cookie(at: []) { found += cookies.members.map(\.value.text) }
        }
        isCrowded = found.count > Self.maximumCount
        if !isCrowded { mask.add(named: found) }
    }

    /// Returns whether a value contains a secret that is known without the response.
    func isKnown(_ value: ExpressionValue) -> Bool {
        switch value {
        case .json(let json): known.finds(in: json)
        case .bytes(let data): known.finds(in: data)
        case .date, .missing: false
        }
    }
}

/// Values as messages show them: without secrets, shortened, and with their types.
struct ShownValues {
    private static let maximumLength = 160
    private static let maximumDifferences = 5
    /// The maximum number of values of a list or object that are examined to show its start.
    private static let maximumCount = 200
    /// The maximum length of a string that is examined to show its start, in Unicode scalars.
    private static let maximumText = 1 << 16
    /// The maximum length of a string in which differences are searched, in Unicode scalars.
    private static let maximumCompared = 1 << 18

    private let names: [String]
    private let secrets: SecretMask
    private let isCrowded: Bool
    private let hidesAll: Bool

    /// - Parameter hidesAll: Whether to show no value except true, false and null.
    init(names: [String], secrets: ResponseSecrets, hidesAll: Bool = false) {
        self.names = names
        self.secrets = secrets.mask
        self.hidesAll = hidesAll
        // The values of members are masked by their names instead.
        isCrowded = secrets.isCrowded && names.contains(ResponseName.body.rawValue)
    }

    /// Whether the names of the expression denote secrets.
    private var isSecret: Bool {
        hidesAll || secrets.hidesNamed && (names.contains("cookies") || names.contains(where: NamedSecrets.isSecret))
    }

    // MARK: Texts

    /// Returns an expression, or a part of it, on one line. The constants of an expression about a secret are masked.
    func source(of expression: Expression, _ range: Range<Int>? = nil) -> String {
        let scalars = Array(expression.source.unicodeScalars)
        let range = (range ?? 0..<scalars.count).clamped(to: 0..<scalars.count)
        var text = String.UnicodeScalarView(), index = range.lowerBound
        let constants = isSecret ? expression.constants.filter { range.contains($0.lowerBound) } : []
        for constant in constants.sorted(by: { $0.lowerBound < $1.lowerBound }) where constant.lowerBound >= index {
            text.append(contentsOf: scalars[index..<constant.lowerBound])
            text.append(contentsOf: "***".unicodeScalars)
            index = constant.upperBound
        }
        text.append(contentsOf: scalars[index..<max(index, range.upperBound)])
        let words = String(text).split(whereSeparator: \.isWhitespace).joined(separator: " ")
        return cut(secrets.masked(foreign: words), to: 200)
    }

    func shown(_ text: String) -> String { cut(secrets.masked(foreign: Self.start(of: text))) }

    /// Returns the message of an error, which may quote a value.
    func shown(message: String) -> String {
        guard isSecret, let start = message.firstIndex(of: "\""), let end = message.lastIndex(of: "\"") else {
            return shown(message)
        }
        return shown("\(message[..<start])\"***\"\(message[end...].dropFirst())")
    }

    private func cut(_ text: String, to limit: Int = maximumLength) -> String {
        text.count > limit ? "\(text.prefix(limit))…" : text
    }

    // MARK: Values

    /// Returns a constant of an expression with its type.
    func shown(constant json: JSON) -> String {
        guard !isSecret, case .string(let text) = json else { return shown(.json(json)) }
        return "\(cut(JSON.string(secrets.masked(foreign: text)).description)) (string)"
    }

    /// Returns a value with its type.
    func shown(_ value: ExpressionValue) -> String {
        switch value {
        case .missing(let reason): return reason.isEmpty ? "missing" : "missing (\(shown(reason)))"
        case .date(let date): return "\(ExpressionDate.text(of: date)) (date)"
        case .bytes(let data):
            guard !hidesText else { return "*** (bytes)" }
            // The first bytes must not be a part of a secret.
            let start = data.prefix(24)
            let text = String(decoding: data.prefix(Self.maximumText), as: UTF8.self)
            let isSafe = secrets.masked(text).utf8.starts(with: String(decoding: start, as: UTF8.self).utf8)
            let shown = isSafe ? start.hexadecimalString + (data.count > 24 ? "…" : "") : "***"
            return "\(shown) (\(Self.count(data.count, "byte")))"
        case .json(let json):
            let type: String
            switch json {
            case .array(let values): type = "list of \(values.count)"
            case .string(let text) where text.utf8.count > Self.maximumLength:
                type = "string, \(Self.count(text.unicodeScalars.count, "character"))"
            default: type = json.typeName
            }
            if case .null = json { return "null" }
            return "\(shown(json)) (\(type))"
        }
    }

    private var hidesText: Bool { isCrowded || isSecret }

    private func shown(_ json: JSON) -> String {
        let masked = masked(Self.start(of: json))
        // Mask before shortening, because a part of a secret is not recognized.
        guard case .string(let text) = masked else { return cut(secrets.masked(foreign: masked.description)) }
        return cut(JSON.string(text).description)
    }

    /// Returns a value without its secrets.
    private func masked(_ json: JSON) -> JSON {
        if hidesAll {
            switch json {
            case .null, .bool: return json
            default: return "***"
            }
        }
        var result = json
        if case .string(let text) = json {
            if isCrowded { return "***" }
            result = .string(secrets.masked(foreign: Self.start(of: text, limit: Self.maximumCompared)))
        }
        guard secrets.hidesNamed else { return secrets.masked(result, named: "") }
        if names.contains("cookies") { return "***" }
        result = secrets.masked(result, named: "")
        for name in names {
            result = secrets.masked(result, named: name)
            if case .string(let text) = result { result = .string(secrets.masked(field: name, text)) }
        }
        return result
    }

    private static func start(of text: String, limit: Int = maximumText) -> String {
        text.utf8.count <= limit ? text : String(text.unicodeScalars.prefix(limit))
    }

    /// Returns the start of a value that may be large.
    private static func start(of json: JSON) -> JSON {
        var remaining = maximumCount
        func start(_ json: JSON) -> JSON {
            remaining -= 1
            switch json {
            case .array(let values):
                var result: [JSON] = []
                for value in values where remaining > 0 { result.append(start(value)) }
                return .array(result)
            case .object(let object):
                var result = JSONObject()
                for member in object.members where remaining > 0 {
                    result.append(key: member.key, value: start(member.value))
                }
                return .object(result)
            case .string(let text):
                let part = Self.start(of: text, limit: maximumText)
                // All strings together are limited as well.
                remaining -= part.utf8.count * maximumCount / (4 * maximumText)
                return .string(part)
            default: return json
            }
        }
        return start(json)
    }

    private static func count(_ count: Int, _ unit: String) -> String { "\(count) \(unit)\(count == 1 ? "" : "s")" }

    // MARK: Differences

    /// Returns the differences between two long strings, lists or objects.
    func differences(_ actual: ExpressionValue, _ expected: ExpressionValue) -> [String] {
        guard case .json(let one) = actual, case .json(let other) = expected else { return [] }
        return differences(one, other)
    }

    func differences(_ actual: JSON, _ expected: JSON) -> [String] {
        if case .string = actual, case .string = expected {
            guard case .string(let one) = masked(actual), case .string(let other) = masked(expected),
                one.utf8.count > 40 || other.utf8.count > 40 || one.contains(where: \.isNewline)
            else { return [] }
            return difference(one, other).map { [$0] } ?? []
        }
        var lines: [String] = []
        compare(actual, expected, at: JSONPointer(), &lines)
        let more = lines.count > Self.maximumDifferences ? ["more values differ"] : []
        return lines.prefix(Self.maximumDifferences) + more
    }

    private func difference(_ one: String, _ other: String) -> String? {
        let first = Array(one.unicodeScalars), second = Array(other.unicodeScalars)
        var index = 0, line = 1, column = 1
        while index < first.count, index < second.count, first[index] == second[index] {
            if first[index] == "\n" { (line, column) = (line + 1, 1) } else { column += 1 }
            index += 1
        }
        guard index > 0, index < first.count || index < second.count else { return nil }
        func part(_ scalars: [Unicode.Scalar]) -> String {
            guard index < scalars.count else { return "the end" }
            var text = String.UnicodeScalarView()
            text.append(contentsOf: scalars[max(0, index - 10)..<min(scalars.count, index + 30)])
            return JSON.string(String(text)).description
        }
        let place = one.contains("\n") ? "line \(line), column \(column)" : "character \(index + 1)"
        return "they differ at \(place): \(part(first)), expected \(part(second))"
    }

    private func compare(_ one: JSON, _ other: JSON, at pointer: JSONPointer, _ lines: inout [String]) {
        guard lines.count <= Self.maximumDifferences, one != other else { return }
        func add(_ text: @autoclosure () -> String, at pointer: JSONPointer) {
            guard lines.count <= Self.maximumDifferences else { return }
            let path = pointer.tokens.isEmpty ? "the value" : pointer.description
            lines.append("\(cut(secrets.masked(path))): \(text())")
        }
        switch (one, other) {
        case (.object(let one), .object(let other)):
            for member in one.members {
                let place = pointer.appending(member.key)
                if let value = other[member.key] {
                    compare(member.value, value, at: place, &lines)
                } else {
                    add("\(brief(member.value, at: place)), not expected", at: place)
                }
            }
            for member in other.members where one[member.key] == nil {
                let place = pointer.appending(member.key)
                add("missing, expected \(brief(member.value, at: place))", at: place)
            }
        case (.array(let one), .array(let other)):
            for (index, pair) in zip(one, other).enumerated() {
                compare(pair.0, pair.1, at: pointer.appending("\(index)"), &lines)
            }
            if one.count != other.count {
                add("\(Self.count(one.count, "element")), expected \(other.count)", at: pointer)
            }
        default:
            guard !pointer.tokens.isEmpty else { return }
            let showsType = one.typeName != other.typeName
            let shown = [one, other].map { json in
                brief(json, at: pointer) + (showsType && json != .null ? " (\(json.typeName))" : "")
            }
            add("\(shown[0]), expected \(shown[1])", at: pointer)
        }
    }

    /// Returns a short form of a value, without its secrets.
    private func brief(_ json: JSON, at pointer: JSONPointer) -> String {
        let json = pointer.tokens.reduce(masked(Self.start(of: json))) { secrets.masked($0, named: $1) }
        return cut(secrets.masked(foreign: json.description), to: 60)
    }
}
