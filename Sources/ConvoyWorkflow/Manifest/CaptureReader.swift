import ConvoySecurity
import ConvoySerialization
import Foundation

/// A decoder for captures.
enum CaptureReader {
    private static let kinds = ["json", "xpath", "header", "cookie", "link", "status", "url", "text"]

    static func plan(of member: ManifestValue.Member) throws(ManifestError) -> CapturePlan {
        guard Reference.isName(member.key) else { throw member.problem("invalid capture name \(quoted(member.key))") }
        let source = try source(of: member.value, "a capture")
        // A capture such as `url: url` is allowed, because it has the same value.
        guard !ReservedName.ofRequests.contains(member.key) || source.text == member.key else {
            throw member.problem(
                "\(quoted(member.key)) is a value of every request and cannot be the name of a capture")
        }
        return CapturePlan(name: member.key, source: source)
    }

    static func source(of value: ManifestValue, _ what: String) throws(ManifestError) -> CaptureSource {
        if case .object = value.json {
            let fields = try value.fields(what, knowing: kinds + ["group"])
            let found = kinds.filter { fields[$0] != nil }
            guard found.count == 1, let kind = found.first, let content = fields[kind] else {
                throw value.problem("\(what) requires one of \(kinds.joined(separator: ", "))")
            }
            let group = try fields["group"].map { value throws(ManifestError) in try value.integer("group", in: 0...99) }
            return try source(kind, try content.string(kind), group: group, at: content)
        }
        let text = try value.string(what)
        let parts = text.split(separator: ":" as Character, maxSplits: 1, omittingEmptySubsequences: false).map {
            String($0)
        }
        return try source(parts[0], parts.count > 1 ? parts[1] : nil, group: nil, at: value)
    }

    /// Reads a JSON Pointer or a JSONPath query.
    static func location(
        _ text: String, at value: ManifestValue, isKey: Bool = false
    ) throws(ManifestError) -> JSONLocation {
        do throws(EvaluationError) {
            return try JSONLocation(text)
        } catch {
            throw value.problem(error.message, atKey: isKey)
        }
    }

    private static func source(
        _ kind: String, _ content: String?, group: Int?, at value: ManifestValue
    ) throws(ManifestError) -> CaptureSource {
        switch (kind, content) {
        case ("json", let pointer?):
            return .json(try location(pointer, at: value))
        case ("xpath", let expression?):
            guard XPath.isValid(expression) else { throw value.problem("invalid XPath \(quoted(expression))") }
            return .xpath(expression)
        case ("header", let name?) where !name.isEmpty: return .header(name)
        case ("cookie", let name?) where !name.isEmpty: return .cookie(name)
        case ("link", let relation?):
            guard !relation.isEmpty, relation.utf8.allSatisfy({ "abcdefghijklmnopqrstuvwxyz0123456789.-".utf8.contains($0) })
            else { throw value.problem("invalid link relation \(quoted(relation)): write link:next") }
            return .link(relation)
        case ("status", nil): return .status
        case ("url", nil): return .url
        case ("text", let pattern):
            guard let pattern, !pattern.isEmpty else { return .text(pattern: nil, group: 0) }
            let groups = try Pattern.groupCount(of: pattern, at: value)
            let group = group ?? min(1, groups)
            guard group <= groups else { throw value.problem("group \(group) does not exist; the last group is \(groups)") }
            return .text(pattern: pattern, group: group)
        case ("json", nil), ("xpath", nil), ("header", _), ("cookie", _), ("link", nil):
            throw value.problem("\(kind): requires a value after the colon")
        default:
            throw value.problem("unknown capture \(quoted(kind))\(Suggestion.text(for: kind, among: kinds))")
        }
    }
}

/// A decoder for expectations.
enum ExpectationReader {
    static let keys = [
        "status", "type", "header", "json", "bytes", "minBytes", "maxBytes", "maxTime", "checksum", "sha256", "md5",
    ]

    static func plan(of value: ManifestValue?) throws(ManifestError) -> ExpectationPlan {
        var plan = ExpectationPlan()
        guard let value else { return plan }
        guard case .array = value.json else {
            try read(try value.fields("expect", knowing: keys), into: &plan)
            return plan
        }
        var known: Set<String> = []
        for element in try value.elements("expect") {
            guard case .object = element.json else {
                let expression = try Expression(element, "expect", in: .response)
                plan.checks.append(CheckPlan(expression: expression, source: element))
                continue
            }
            let fields: [String: ManifestValue]
            do throws(ManifestError) {
                fields = try element.fields("expect", knowing: keys)
            } catch {
                // YAML reads an unquoted `a == "b: c"` as a mapping.
                let hint = error.message.hasPrefix("unknown key") ? "; quote an expression that contains \": \"" : ""
                throw ManifestError(
                    file: error.file, line: error.line, column: error.column, message: error.message + hint)
            }
            for (key, value) in fields where !known.insert(key).inserted {
                throw value.problem("\(quoted(key)) is given twice in expect", atKey: true)
            }
            try read(fields, into: &plan)
        }
        return plan
    }

    private static func read(
        _ fields: [String: ManifestValue], into plan: inout ExpectationPlan
    ) throws(ManifestError) {
        if let status = fields["status"] { try readStatuses(status, into: &plan) }
        if let type = fields["type"] { plan.type = try mediaType(type) }
        for member in try fields["header"]?.members("header") ?? [] { plan.headers.append(try header(member)) }
        if let value = fields["json"] { plan.json = try json(value) }
        if let bytes = fields["bytes"] {
            plan.minimumBytes = try bytes.bytes("bytes")
            plan.maximumBytes = plan.minimumBytes
        }
        if let bytes = fields["minBytes"] { plan.minimumBytes = try bytes.bytes("minBytes") }
        if let bytes = fields["maxBytes"] { plan.maximumBytes = try bytes.bytes("maxBytes") }
        if let time = fields["maxTime"] { plan.maximumTime = try time.seconds("maxTime") }
        if let value = fields["checksum"] {
            let text = try value.string("checksum")
            guard let equals = text.firstIndex(of: "=") else {
                throw value.problem("checksum must be ALGORITHM=HEX: sha-256=…")
            }
            let name = String(text[..<equals])
            guard let algorithm = ChecksumAlgorithm(name: name) else {
                let known = ChecksumAlgorithm.allCases.map(\.description)
                throw value.problem("unknown checksum \(quoted(name)); use \(known.joined(separator: ", "))")
            }
            plan.checksums.append(
                (algorithm, try hexadecimal(String(text[text.index(after: equals)...]), algorithm, at: value)))
        }
        for (key, algorithm) in [("sha256", ChecksumAlgorithm.sha256), ("md5", .md5)] {
            guard let value = fields[key] else { continue }
            plan.checksums.append((algorithm, try hexadecimal(try value.string(key), algorithm, at: value)))
        }
    }

    private static func mediaType(_ value: ManifestValue) throws(ManifestError) -> String {
        let text = try value.string("type").lowercased()
        guard text.split(separator: "/" as Character).count == 2 else {
            throw value.problem("type must be a media type, such as application/json")
        }
        return text
    }

    private static func hexadecimal(
        _ text: String, _ algorithm: ChecksumAlgorithm, at value: ManifestValue
    ) throws(ManifestError) -> Template {
        let template = try Template(text, at: value)
        let length = algorithm.digestLength * 2
        if let text = template.literal {
            guard text.count == length, text.allSatisfy({ $0.isHexDigit }) else {
                throw value.problem("a \(algorithm) must have \(length) hexadecimal digits")
            }
        }
        return template
    }

    private static func readStatuses(
        _ value: ManifestValue, into plan: inout ExpectationPlan
    ) throws(ManifestError) {
        let elements = if case .array = value.json { try value.elements("status") } else { [value] }
        var statuses: [ClosedRange<Int>] = []
        for element in elements {
            if case .string(let text) = element.json, text.contains("${") {
                plan.statusTemplates.append(try Template(element, "status"))
            } else if let range = statusRange(element.json) {
                statuses.append(range)
            } else {
                throw element.problem(statusRule)
            }
        }
        if !statuses.isEmpty || plan.statusTemplates.isEmpty { plan.statuses = statuses }
    }

    static let statusRule = "status must be a number from 100 to 599, a range such as 200-299, or a list of them"

    /// Returns a status or a range of statuses, or nil for any other value.
    static func statusRange(_ json: JSON) -> ClosedRange<Int>? {
        switch json {
        case .number(let number):
            guard let code: Int = number.integer(), (100...599).contains(code) else { return nil }
            return code...code
        case .string(let text):
            let ends = text.split(separator: "-" as Character, omittingEmptySubsequences: false).map { Int($0) }
            guard (1...2).contains(ends.count), let first = ends[0], let last = ends[ends.count - 1],
                (100...599).contains(first), (first...599).contains(last)
            else { return nil }
            return first...last
        default: return nil
        }
    }

    private static func header(_ member: ManifestValue.Member) throws(ManifestError) -> HeaderExpectation {
        var header = HeaderExpectation(name: member.key)
        switch member.value.json {
        case .object:
            let fields = try member.value.fields("a header", knowing: ["equals", "exists", "matches"])
            header.equals = try fields["equals"].map { value throws(ManifestError) in try Template(value, "equals") }
            header.exists = try fields["exists"].map { value throws(ManifestError) in try value.bool("exists") }
            header.pattern = try fields["matches"].map(pattern)
        case .number(let number): header.equals = try Template(number.text, at: member.value)
        default: header.equals = try Template(member.value, "a header")
        }
        return header
    }

    static func json(_ value: ManifestValue) throws(ManifestError) -> [JSONExpectation] {
        var all: [JSONExpectation] = []
        for member in try value.members("json") {
            guard !member.key.contains("${") else {
                throw member.problem("a key of expect.json cannot contain ${…}; use an expression with jsonpath(…)")
            }
            var expectation = JSONExpectation(
                path: try CaptureReader.location(member.key, at: member.value, isKey: true))
            if case .object = member.value.json {
                let fields = try member.value.fields("an expectation", knowing: ["equals", "exists", "matches"])
                expectation.equals = try fields["equals"].map { value throws(ManifestError) in try TreeTemplate(value) }
                expectation.exists = try fields["exists"].map { value throws(ManifestError) in try value.bool("exists") }
                expectation.pattern = try fields["matches"].map(pattern)
            } else {
                expectation.equals = try TreeTemplate(member.value)
            }
            all.append(expectation)
        }
        return all
    }

    static func events(of value: ManifestValue) throws(ManifestError) -> EventPlan {
        let fields = try value.fields("events", knowing: ["type", "matches", "json", "for"])
        return EventPlan(
            type: try fields["type"].map { value throws(ManifestError) in try value.string("type") },
            pattern: try fields["matches"].map(pattern), json: try fields["json"].map(json) ?? [],
            limit: try fields["for"].map { value throws(ManifestError) in try value.seconds("for") } ?? 60)
    }

    private static func pattern(_ value: ManifestValue) throws(ManifestError) -> String {
        let text = try value.string("matches")
        _ = try Pattern.groupCount(of: text, at: value)
        return text
    }
}
