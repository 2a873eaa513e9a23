import ConvoySerialization
import Foundation

/// A recursive-descent parser for JSONPath (RFC 9535, appendix A).
struct JSONPathParser {
    private let scalars: [Unicode.Scalar]
    private var index = 0
    private var depth = 0

    private static let maximumDepth = 32
    /// The maximum length of a query, in Unicode scalars.
    private static let maximumLength = 10_000
    /// The range of integers that I-JSON numbers represent exactly (RFC 7493, section 2.2).
    private static let integers = -9_007_199_254_740_991...9_007_199_254_740_991

    init(_ text: String) { scalars = Array(text.unicodeScalars) }

    mutating func parse() throws(EvaluationError) -> JSONPath.Query {
        guard scalars.count <= Self.maximumLength else {
            throw EvaluationError(message: "the query is longer than \(Self.maximumLength) characters")
        }
        guard take("$") else { throw problem("it must begin with $") }
        let query = JSONPath.Query(isAbsolute: true, segments: try segments())
        guard index == scalars.count else { throw unexpected() }
        return query
    }

    // MARK: Segments

    private mutating func segments() throws(EvaluationError) -> [JSONPath.Segment] {
        var segments: [JSONPath.Segment] = []
        while true {
            let start = index
            skipBlanks()
            guard let next = peek, next == "." || next == "[" else {
                // Blanks belong to the query only in front of a segment.
                index = start
                return segments
            }
            if next == "[" {
                segments.append(JSONPath.Segment(selectors: try bracketed()))
                continue
            }
            index += 1
            let isDescendant = take(".")
            if take("*") {
                segments.append(JSONPath.Segment(isDescendant: isDescendant, selectors: [.wildcard]))
            } else if isDescendant, peek == "[" {
                segments.append(JSONPath.Segment(isDescendant: true, selectors: try bracketed()))
            } else {
                segments.append(JSONPath.Segment(isDescendant: isDescendant, selectors: [.name(try memberName())]))
            }
        }
    }

    private mutating func memberName() throws(EvaluationError) -> String {
        let start = index
        let name = take { Self.isNameStart($0) || ($1 > start && Self.isDigit($0)) }
        guard !name.isEmpty else { throw problem("a name is missing") }
        return name
    }

    private mutating func bracketed() throws(EvaluationError) -> [JSONPath.Selector] {
        guard take("[") else { throw unexpected() }
        var selectors: [JSONPath.Selector] = []
        repeat {
            skipBlanks()
            selectors.append(try selector())
            skipBlanks()
        } while take(",")
        guard take("]") else { throw index < scalars.count ? unexpected() : problem("a ] is missing") }
        return selectors
    }

    private mutating func selector() throws(EvaluationError) -> JSONPath.Selector {
        guard let next = peek else { throw problem("a selector is missing") }
        switch next {
        case "'", "\"": return .name(try string())
        case "*":
            index += 1
            return .wildcard
        case "?":
            index += 1
            skipBlanks()
            return .filter(try disjunction())
        default: return try indexOrSlice()
        }
    }

    private mutating func indexOrSlice() throws(EvaluationError) -> JSONPath.Selector {
        let start = try optionalInteger()
        let end = index
        skipBlanks()
        guard take(":") else {
            index = end
            guard let start else { throw unexpected() }
            return .index(start)
        }
        skipBlanks()
        let stop = try optionalInteger()
        let mark = index
        skipBlanks()
        guard take(":") else {
            index = mark
            return .slice(start: start, end: stop, step: 1)
        }
        let afterColon = index
        skipBlanks()
        guard let step = try optionalInteger() else {
            index = afterColon
            return .slice(start: start, end: stop, step: 1)
        }
        return .slice(start: start, end: stop, step: step)
    }

    private mutating func optionalInteger() throws(EvaluationError) -> Int? {
        let start = index
        let isNegative = take("-")
        let digits = take { next, _ in Self.isDigit(next) }
        guard !digits.isEmpty else {
            guard !isNegative else { throw problem("digits are missing") }
            return nil
        }
        let isCanonical = digits == "0" ? !isNegative : !digits.hasPrefix("0")
        guard isCanonical, let value = Int((isNegative ? "-" : "") + digits), Self.integers.contains(value) else {
            index = start
            throw problem("invalid integer \(quoted((isNegative ? "-" : "") + digits))")
        }
        return value
    }

    // MARK: Strings

    private mutating func string() throws(EvaluationError) -> String {
        let quote = scalars[index]
        index += 1
        var text = String.UnicodeScalarView()
        while let next = peek {
            index += 1
            if next == quote { return String(text) }
            guard next.value >= 0x20 else {
                index -= 1
                throw problem("a control character must be escaped")
            }
            text.append(next == "\\" ? try escape(in: quote) : next)
        }
        throw problem("the closing quote is missing")
    }

    private mutating func escape(in quote: Unicode.Scalar) throws(EvaluationError) -> Unicode.Scalar {
        guard let next = peek else { throw problem("the closing quote is missing") }
        index += 1
        switch next {
        case "b": return "\u{8}"
        case "f": return "\u{C}"
        case "n": return "\n"
        case "r": return "\r"
        case "t": return "\t"
        case "/", "\\", quote: return next
        case "u": return try unicodeEscape()
        default:
            index -= 1
            throw problem("unknown escape \\\(String(next))")
        }
    }

    private mutating func unicodeEscape() throws(EvaluationError) -> Unicode.Scalar {
        let unit = try hexadecimal()
        if let scalar = Unicode.Scalar(unit) { return scalar }
        guard (0xD800...0xDBFF).contains(unit), take("\\"), take("u") else { throw problem("a surrogate is not paired") }
        let low = try hexadecimal()
        guard (0xDC00...0xDFFF).contains(low),
            let scalar = Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00))
        else { throw problem("a surrogate is not paired") }
        return scalar
    }

    private mutating func hexadecimal() throws(EvaluationError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let next = peek, next.isASCII, let digit = Character(next).hexDigitValue else {
                throw problem("\\u requires four hexadecimal digits")
            }
            value = value << 4 + UInt32(digit)
            index += 1
        }
        return value
    }

    // MARK: Filters

    private mutating func disjunction() throws(EvaluationError) -> JSONPath.Logical {
        depth += 1
        defer { depth -= 1 }
        guard depth < Self.maximumDepth else { throw problem("nested too deeply") }
        var operands = [try conjunction()]
        while takeOperator("||") { operands.append(try conjunction()) }
        return operands.count == 1 ? operands[0] : .or(operands)
    }

    private mutating func conjunction() throws(EvaluationError) -> JSONPath.Logical {
        var operands = [try basic()]
        while takeOperator("&&") { operands.append(try basic()) }
        return operands.count == 1 ? operands[0] : .and(operands)
    }

    /// The comparisons, the longer of two with the same beginning first.
    private static let comparisons: [Expression.Comparison] = [
        .equal, .unequal, .lessOrEqual, .greaterOrEqual, .less, .greater,
    ]

    /// Takes an operator and the blanks around it.
    private mutating func takeOperator(_ mark: String) -> Bool {
        let start = index
        skipBlanks()
        guard scalars[index...].starts(with: mark.unicodeScalars) else {
            index = start
            return false
        }
        index += mark.unicodeScalars.count
        skipBlanks()
        return true
    }

    private mutating func basic() throws(EvaluationError) -> JSONPath.Logical {
        if take("!") {
            skipBlanks()
            if peek == "(" { return .not(try parenthesized()) }
            return .not(try test())
        }
        if peek == "(" { return try parenthesized() }
        let operand = try self.operand()
        let start = index
        for comparison in Self.comparisons where takeOperator(comparison.rawValue) {
            let left = try comparable(operand, at: start)
            let place = index
            return .compare(left, comparison, try comparable(try self.operand(), at: place))
        }
        return try test(operand)
    }

    private mutating func parenthesized() throws(EvaluationError) -> JSONPath.Logical {
        guard take("(") else { throw unexpected() }
        skipBlanks()
        let expression = try disjunction()
        skipBlanks()
        guard take(")") else { throw problem("a ) is missing") }
        return expression
    }

    /// An operand, before its type is checked.
    private enum Operand {
        case literal(JSON)
        case query(JSONPath.Query)
        case value(JSONPath.Comparable)
        case logical(JSONPath.Logical)
    }

    private mutating func test() throws(EvaluationError) -> JSONPath.Logical { try test(try operand()) }

    private func test(_ operand: Operand) throws(EvaluationError) -> JSONPath.Logical {
        switch operand {
        case .query(let query): return .exists(query)
        case .logical(let logical): return logical
        case .literal: throw problem("a literal must be compared")
        case .value: throw problem("the value of a function must be compared")
        }
    }

    private func comparable(_ operand: Operand, at place: Int) throws(EvaluationError) -> JSONPath.Comparable {
        switch operand {
        case .literal(let json): return .literal(json)
        case .value(let value): return value
        case .query(let query):
            guard query.isSingular else { throw problem("only a query that selects one value can be compared", at: place) }
            return .query(query)
        case .logical: throw problem("match and search cannot be compared", at: place)
        }
    }

    private mutating func operand() throws(EvaluationError) -> Operand {
        guard let next = peek else { throw problem("the filter ends too early") }
        switch next {
        case "'", "\"": return .literal(.string(try string()))
        case "@", "$":
            index += 1
            depth += 1
            defer { depth -= 1 }
            guard depth < Self.maximumDepth else { throw problem("nested too deeply") }
            return .query(JSONPath.Query(isAbsolute: next == "$", segments: try segments()))
        case "-", "0"..."9": return .literal(.number(try number()))
        default: break
        }
        let start = index
        let name = take { ("a"..."z").contains($0) || ($1 > start && ($0 == "_" || Self.isDigit($0))) }
        switch name {
        case "": throw unexpected()
        case "true": return .literal(.bool(true))
        case "false": return .literal(.bool(false))
        case "null": return .literal(.null)
        default:
            guard peek == "(" else {
                index = start
                throw unexpected()
            }
            return try call(name, at: start)
        }
    }

    private mutating func number() throws(EvaluationError) -> JSONNumber {
        let start = index
        let text = take { next, _ in "-+.eE0123456789".unicodeScalars.contains(next) }
        guard let number = JSONNumber(text) else {
            index = start
            throw problem("invalid number \(quoted(text))")
        }
        return number
    }

    private mutating func call(_ name: String, at start: Int) throws(EvaluationError) -> Operand {
        let known = ["length": 1, "count": 1, "value": 1, "match": 2, "search": 2]
        guard let count = known[name] else {
            throw problem("unknown function \(quoted(name))\(Suggestion.text(for: name, among: known.keys))", at: start)
        }
        depth += 1
        defer { depth -= 1 }
        guard depth < Self.maximumDepth else { throw problem("nested too deeply") }
        guard take("(") else { throw unexpected() }
        var arguments: [Operand] = []
        skipBlanks()
        if peek != ")" {
            repeat {
                skipBlanks()
                arguments.append(try operand())
                skipBlanks()
            } while take(",")
        }
        guard take(")") else { throw index < scalars.count ? unexpected() : problem("a ) is missing") }
        guard arguments.count == count else {
            throw problem("\(name) takes \(count == 1 ? "one argument" : "two arguments")", at: start)
        }
        switch name {
        case "length": return .value(.length(try comparable(arguments[0], at: start)))
        case "count", "value":
            guard case .query(let query) = arguments[0] else { throw problem("\(name) takes a query", at: start) }
            return .value(name == "count" ? .count(query) : .value(query))
        default:
            let text = try comparable(arguments[0], at: start), pattern = try comparable(arguments[1], at: start)
            return .logical(.match(text, pattern, isWhole: name == "match"))
        }
    }

    // MARK: Characters

    private var peek: Unicode.Scalar? { index < scalars.count ? scalars[index] : nil }

    private mutating func take(_ scalar: Unicode.Scalar) -> Bool {
        guard peek == scalar else { return false }
        index += 1
        return true
    }

    /// Takes the characters up to the first one for which the condition, given the character and its index, is false.
    private mutating func take(while isWanted: (Unicode.Scalar, Int) -> Bool) -> String {
        let start = index
        while let next = peek, isWanted(next, index) { index += 1 }
        var text = String.UnicodeScalarView()
        text.append(contentsOf: scalars[start..<index])
        return String(text)
    }

    private mutating func skipBlanks() {
        _ = take { next, _ in next == " " || next == "\t" || next == "\n" || next == "\r" }
    }

    private static func isDigit(_ scalar: Unicode.Scalar) -> Bool { ("0"..."9").contains(scalar) }

    private static func isNameStart(_ scalar: Unicode.Scalar) -> Bool {
        ("a"..."z").contains(scalar) || ("A"..."Z").contains(scalar) || scalar == "_" || scalar.value >= 0x80
    }

    private func unexpected() -> EvaluationError {
        guard let next = peek else { return problem("it ends too early") }
        return problem("unexpected \(quoted(String(next)))")
    }

    private func problem(_ message: String, at place: Int? = nil) -> EvaluationError {
        EvaluationError(message: "\(message) (character \((place ?? index) + 1))")
    }
}
