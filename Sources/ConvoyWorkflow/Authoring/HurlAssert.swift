import ConvoySerialization
import Foundation

/// A line of `[Asserts]` or `[Captures]`: a query, filters and a predicate, which become an expression.
struct HurlAssert {
    private enum Token: Equatable {
        case word(String)
        case text(String)
        case regex(String)
        /// `hex,…;`, `base64,…;` or `file,…;`
        case bytes(kind: String, content: String)
    }

    private struct Failure: Error {}

    private var tokens: ArraySlice<Token>
    private var variables: ImportedVariables
    /// Whether the value is a duration, which Hurl gives in milliseconds.
    private var isDuration = false
    /// Whether the value is a digest, which is a string in an expression.
    private var isDigest = false

    /// Returns an expression for a line of `[Asserts]`, or nil if there is none.
    static func expression(_ line: String, _ variables: inout ImportedVariables) -> String? {
        guard let tokens = tokens(of: line) else { return nil }
        var reader = HurlAssert(tokens: tokens[...], variables: variables)
        do throws(Failure) {
            let value = try reader.value(isCounted: tokens.contains(.word("count")) || tokens.contains(.word("includes")))
            let predicate = try reader.predicate(of: value)
            guard reader.tokens.isEmpty else { return nil }
            variables = reader.variables
            return predicate
        } catch {
            return nil
        }
    }

    /// Returns the source of a capture, or nil if a manifest has none.
    static func capture(_ line: String) -> String? {
        guard var tokens = tokens(of: line)?[...] else { return nil }
        if tokens.last == .word("redact") { tokens.removeLast() }
        switch (tokens.first, tokens.dropFirst().first, tokens.count) {
        case (.word("status")?, nil, _): return "status"
        case (.word("url")?, nil, _): return "url"
        case (.word("body")?, nil, _): return "text:"
        case (.word("header")?, .text(let name)?, 2): return "header:\(name)"
        case (.word("cookie")?, .text(let name)?, 2) where !name.contains("["): return "cookie:\(name)"
        case (.word("jsonpath")?, .text(let path)?, 2): return "json:\(path)"
        case (.word("xpath")?, .text(let path)?, 2): return "xpath:\(path)"
        case (.word("regex")?, .text(let pattern)?, 2), (.word("regex")?, .regex(let pattern)?, 2): return "text:\(pattern)"
        case (.word("body")?, .word("regex")?, 3):
            switch tokens.last {
            case .text(let pattern)?, .regex(let pattern)?: return "text:\(pattern)"
            default: return nil
            }
        default: return nil
        }
    }

    // MARK: Tokens

    private static func tokens(of line: String) -> [Token]? {
        var tokens: [Token] = [], rest = Array(line.unicodeScalars)[...]
        func string(_ scalars: some Sequence<Unicode.Scalar>) -> String {
            var view = String.UnicodeScalarView()
            view.append(contentsOf: scalars)
            return String(view)
        }
        /// Reads up to an unescaped mark.
        func take(until mark: Unicode.Scalar) -> String? {
            var found: [Unicode.Scalar] = []
            while let scalar = rest.popFirst() {
                if scalar == mark { return string(found) }
                found.append(scalar)
                if scalar == "\\", let next = rest.popFirst() { found.append(next) }
            }
            return nil
        }
        while let first = rest.first {
            switch first {
            case _ where first.properties.isWhitespace: rest.removeFirst()
            case "#": return tokens
            case "\"":
                rest.removeFirst()
                guard let text = take(until: "\"") else { return nil }
                tokens.append(.text(HurlText.unescaped(text)))
            case "`":
                rest.removeFirst()
                guard let text = take(until: "`"), !text.isEmpty else { return nil }
                tokens.append(.text(HurlText.unescaped(text)))
            case "/":
                rest.removeFirst()
                guard let text = take(until: "/") else { return nil }
                tokens.append(.regex(text.replacing("\\/", with: "/")))
            default:
                let word = string(rest.prefix { !$0.properties.isWhitespace })
                rest = rest.dropFirst(word.unicodeScalars.count)
                if let kind = ["hex", "base64", "file"].first(where: { word.hasPrefix("\($0),") }) {
                    var content = String(word.dropFirst(kind.count + 1))
                    while !content.contains(";"), let next = rest.popFirst() { content.unicodeScalars.append(next) }
                    tokens.append(.bytes(kind: kind, content: String(content.prefix { $0 != ";" })))
                } else {
                    tokens.append(.word(word))
                }
            }
        }
        return tokens
    }

    private mutating func text() throws(Failure) -> String {
        guard case .text(let text)? = tokens.popFirst() else { throw Failure() }
        return text
    }

    private mutating func constant() throws(Failure) -> String {
        let text = try text()
        guard !text.contains("{{") else { throw Failure() }
        return HurlText.constant(text)
    }

    // MARK: Values

    private mutating func value(isCounted: Bool) throws(Failure) -> String {
        guard case .word(let query)? = tokens.popFirst() else { throw Failure() }
        var value: String
        switch query {
        case "status", "url", "body", "bytes", "redirects", "ip": value = query
        case "sha256", "md5":
            value = query
            isDigest = true
        case "version": value = "version | replace('HTTP/', '')"
        case "duration":
            value = "duration"
            isDuration = true
        case "header":
            let name = try constant()
            value = isCounted ? "headers(\(name))" : "headers[\(name)]"
        case "cookie":
            let name = try text()
            let parts = name.split(separator: "[" as Character).map(String.init)
            value = "cookies[\(HurlText.constant(parts.first ?? ""))]"
            if parts.count > 1 { value += "[\(HurlText.constant(parts[1].lowercased().replacing("]", with: "")))]" }
        case "jsonpath", "xpath": value = "\(query)(\(try constant()))"
        case "regex": value = "body | regex(\(try pattern()))"
        case "variable":
            guard let found = variables.expression(try text()) else { throw Failure() }
            value = "${\(found)}"
        default: throw Failure()
        }
        while case .word(let word)? = tokens.first, let filter = try filter(word, of: value) { value = filter }
        return value
    }

    private mutating func pattern() throws(Failure) -> String {
        if case .regex(let pattern)? = tokens.first {
            tokens.removeFirst()
            return HurlText.constant(pattern)
        }
        return try constant()
    }

    /// Returns the value with a filter, or nil if the word is not a filter.
    private mutating func filter(_ word: String, of value: String) throws(Failure) -> String? {
        let plain = [
            "count": "count", "first": "first", "last": "last", "toInt": "toInt", "toFloat": "toFloat",
            "toString": "toString", "toHex": "toHex", "base64Encode": "base64", "base64Decode": "base64Decode",
            "base64UrlSafeDecode": "base64Decode", "urlEncode": "urlEncode", "urlDecode": "urlDecode",
            "htmlUnescape": "htmlUnescape", "daysAfterNow": "daysFromNow",
        ]
        let withText = [
            "split": "split", "decode": "decode", "charsetDecode": "decode", "toDate": "date", "format": "format",
            "dateFormat": "format", "jsonpath": "jsonpath", "xpath": "xpath",
        ]
        if let name = plain[word] {
            tokens.removeFirst()
            return "\(value) | \(name)"
        }
        if let name = withText[word] {
            tokens.removeFirst()
            return "\(value) | \(name)(\(try constant()))"
        }
        switch word {
        case "location":
            tokens.removeFirst()
            return "(\(value)).location"
        case "nth":
            tokens.removeFirst()
            guard case .word(let number)? = tokens.popFirst(), Int(number) != nil else { throw Failure() }
            return "\(value) | nth(\(number))"
        case "regex":
            tokens.removeFirst()
            return "\(value) | regex(\(try pattern()))"
        case "replace":
            tokens.removeFirst()
            let old = try constant()
            return "\(value) | replace(\(old), \(try constant()))"
        default: return nil
        }
    }

    // MARK: Predicates

    private mutating func predicate(of value: String) throws(Failure) -> String {
        var isNegated = false
        if tokens.first == .word("not") {
            tokens.removeFirst()
            isNegated = true
        }
        guard case .word(let word)? = tokens.popFirst() else { throw Failure() }
        let not = isNegated ? "not " : ""
        switch word {
        case "==", "!=", "<", "<=", ">", ">=":
            let text = "\(value) \(word) \(try operand())"
            return isNegated ? "not \(text)" : text
        case "contains", "includes": return "\(value) \(not)contains \(try operand())"
        case "startsWith", "endsWith": return "\(value) \(not)\(word) \(try operand())"
        case "matches": return "\(value) \(not)matches \(try pattern())"
        case "isCollection": return "\(not)(\(value) isList or \(value) isObject)"
        case "isIsoDate": return "\(value) \(not)isDate"
        case "isUuid": return "\(value) \(not)isUUID"
        case "isIpv4": return "\(value) \(not)isIPv4"
        case "isIpv6": return "\(value) \(not)isIPv6"
        case "exists", "isEmpty", "isInteger", "isFloat", "isBoolean", "isString", "isNumber", "isDate", "isList",
            "isObject":
            return "\(value) \(not)\(word)"
        default: throw Failure()
        }
    }

    private mutating func operand() throws(Failure) -> String {
        switch tokens.popFirst() {
        case .text(let text)?:
            guard text.contains("{{") else { return HurlText.constant(text) }
            return try reference(text, " | toString")
        case .regex(let pattern)?: return HurlText.constant(pattern)
        case .bytes("hex", let content)? where isDigest: return HurlText.constant(content.lowercased())
        case .bytes("hex", let content)?: return "hex(\(HurlText.constant(content.filter { !$0.isWhitespace })))"
        case .bytes("base64", let content)?: return "\(HurlText.constant(content)) | base64Decode"
        case .bytes(_, let content)?:
            guard !content.contains("{{") else { throw Failure() }
            return "file(\(HurlText.constant(content.trimmingCharacters(in: .whitespaces))))"
        case .word(let word)?:
            if word.hasPrefix("{{") { return try reference(word, "") }
            if ["true", "false", "null"].contains(word) { return word }
            guard let number = JSONNumber(word) else { throw Failure() }
            guard isDuration, let value = number.double, let seconds = JSONNumber(value / 1000) else { return word }
            return seconds.text
        case nil: throw Failure()
        }
    }

    /// Returns the value of a template that is the whole operand.
    private mutating func reference(_ text: String, _ filter: String) throws(Failure) -> String {
        guard text.hasPrefix("{{"), text.hasSuffix("}}") else { throw Failure() }
        let name = text.dropFirst(2).dropLast(2).trimmingCharacters(in: .whitespaces)
        guard let found = variables.expression(name) else { throw Failure() }
        return found.hasSuffix(")") ? found + filter : "${\(found)}\(filter)"
    }
}
