import CXML2
import ConvoySerialization
import ConvoySupport
import Foundation

/// A JSON Pointer (RFC 6901) in which `*` matches each element of a list or each value of an object.
struct WildcardPointer: Sendable, Equatable, CustomStringConvertible {
    let tokens: [String]

    /// Creates a path from a string, or returns nil if the string is not a JSON Pointer.
    init?(_ text: String) {
        guard let pointer = JSONPointer(text) else { return nil }
        tokens = pointer.tokens
    }

    var description: String { JSONPointer(tokens: tokens).description }

    /// Returns the value, or nil if it does not exist. With a `*`, returns the list of all values, which may be empty.
    func value(in json: JSON) -> JSON? {
        guard let star = tokens.firstIndex(of: "*") else { return json[JSONPointer(tokens: tokens)] }
        guard let container = json[JSONPointer(tokens: Array(tokens[..<star]))] else { return nil }
        let elements: [JSON]
        switch container {
        case .array(let values): elements = values
        case .object(let object): elements = object.members.map(\.value)
        default: return nil
        }
        let rest = WildcardPointer(tokens: Array(tokens[(star + 1)...]))
        let values = elements.compactMap { rest.value(in: $0) }
        guard !values.isEmpty || elements.isEmpty else { return nil }
        // A second `*` produces one flat list.
        guard rest.tokens.contains("*") else { return .array(values) }
        return .array(values.flatMap { value -> [JSON] in if case .array(let inner) = value { inner } else { [value] } })
    }

    /// Returns whether the value is missing in any element that a `*` matches.
    func isMissingSomewhere(in json: JSON) -> Bool {
        guard let star = tokens.firstIndex(of: "*") else { return json[JSONPointer(tokens: tokens)] == nil }
        let rest = WildcardPointer(tokens: Array(tokens[(star + 1)...]))
        return switch json[JSONPointer(tokens: Array(tokens[..<star]))] {
        case .array(let values)?: values.contains { rest.isMissingSomewhere(in: $0) }
        case .object(let object)?: object.members.contains { rest.isMissingSomewhere(in: $0.value) }
        default: true
        }
    }

    private init(tokens: [String]) { self.tokens = tokens }
}

/// XPath 1.0 queries over XML, and over HTML with the error tolerance of browsers. The queries use libxml2, which loads
/// no external resources.
enum XPath {
    /// The maximum size of a response that is parsed, in bytes.
    static let maximumLength = 64 << 20
    /// The maximum number of steps of an evaluation.
    private static let maximumSteps: UInt = 200_000_000

    static func isValid(_ expression: String) -> Bool {
        guard !expression.isEmpty, let context = xmlXPathNewContext(nil) else { return false }
        defer { xmlXPathFreeContext(context) }
        silence(context)
        guard let compiled = xmlXPathCtxtCompile(context, expression) else { return false }
        xmlXPathFreeCompExpr(compiled)
        return true
    }

    /// Returns the text of each node that an expression selects, or the text of the expression's value.
    ///
    /// - Throws: An error if the document cannot be parsed or the expression cannot be evaluated.
    static func values(
        of expression: String, in data: Data, label: String?, isHTML: Bool
    ) throws(EvaluationError) -> [String] {
        switch try value(of: expression, in: data, label: label, isHTML: isHTML) {
        case .json(.array(let values)): values.map(\.text)
        case .json(let json): [json.text]
        default: ["NaN"]
        }
    }

    /// Returns the texts of the nodes that an expression selects, as a list, or the expression's value with its type.
    ///
    /// The expression can use the prefixes that the document declares, and `_` for the first default namespace.
    ///
    /// - Parameter label: The charset that the response specifies, or nil.
    /// - Throws: An error if the document cannot be parsed or the expression cannot be evaluated.
    static func value(
        of expression: String, in data: Data, label: String?, isHTML: Bool
    ) throws(EvaluationError) -> ExpressionValue {
        guard !data.isEmpty else { throw EvaluationError(message: "the body is empty") }
        guard data.count <= maximumLength else {
            throw EvaluationError(message: "the body is larger than \(maximumLength >> 20) MiB")
        }
        guard let text = utf8(data, label, isHTML: isHTML), let document = document(text, isHTML: isHTML) else {
            throw EvaluationError(message: "the body is not \(isHTML ? "HTML" : "XML")")
        }
        defer { xmlFreeDoc(document) }
        guard let context = xmlXPathNewContext(document) else { throw EvaluationError(message: "out of memory") }
        defer { xmlXPathFreeContext(context) }
        silence(context)
        context.pointee.opLimit = maximumSteps
        registerNamespaces(of: document, in: context)
        guard let result = xmlXPathEvalExpression(expression, context) else {
            switch Int(context.pointee.lastError.code) {
            case Int(XML_XPATH_UNDEF_PREFIX_ERROR.rawValue):
                throw EvaluationError(message: "the document does not declare a prefix of \(expression)")
            case Int(XPATH_OP_LIMIT_EXCEEDED.rawValue) + Int(XML_XPATH_EXPRESSION_OK.rawValue):
                throw EvaluationError(message: "\(expression) needs too many steps")
            default: throw EvaluationError(message: "\(expression) cannot be evaluated")
            }
        }
        defer { xmlXPathFreeObject(result) }
        switch result.pointee.type {
        case XPATH_NODESET: break
        case XPATH_NUMBER:
            let number = JSONNumber(result.pointee.floatval)
            return number.map { .json(.number($0)) } ?? .missing("the result is not a finite number")
        case XPATH_BOOLEAN: return .bool(result.pointee.boolval != 0)
        default:
            guard let text = xmlXPathCastToString(result) else { return .json(.array([])) }
            defer { free(text) }
            return .string(String(cString: text))
        }
        guard let nodes = result.pointee.nodesetval else { return .json(.array([])) }
        return .json(
            .array(
                (0..<Int(nodes.pointee.nodeNr)).compactMap { index in
                    guard let node = nodes.pointee.nodeTab[index], let text = xmlXPathCastNodeToString(node) else {
                        return nil
                    }
                    defer { free(text) }
                    return .string(String(cString: text))
                }))
    }

    /// Registers the prefixes that any element declares. The first declaration of a prefix applies.
    private static func registerNamespaces(of document: xmlDocPtr, in context: xmlXPathContextPtr) {
        var known: Set<String> = [], next = xmlDocGetRootElement(document)
        while let node = next {
            var namespace = node.pointee.type == XML_ELEMENT_NODE ? node.pointee.nsDef : nil
            while let current = namespace {
                let prefix = current.pointee.prefix.map { String(cString: $0) } ?? "_"
                if known.insert(prefix).inserted { xmlXPathRegisterNs(context, prefix, current.pointee.href) }
                namespace = current.pointee.next
            }
            next = node.pointee.type == XML_ELEMENT_NODE ? node.pointee.children : nil
            // Continue at the next sibling of the node or of an ancestor.
            var place: xmlNodePtr? = node
            while next == nil, let current = place, current != xmlDocGetRootElement(document) {
                next = current.pointee.next
                place = current.pointee.parent
            }
        }
    }

    /// Sets an error handler, because libxml2 would otherwise print its errors.
    private static func silence(_ context: xmlXPathContextPtr) { context.pointee.error = { _, _ in } }

    /// Returns the document in UTF-8, or nil for XML that cannot be decoded. Invalid bytes of HTML are repaired.
    private static func utf8(_ data: Data, _ label: String?, isHTML: Bool) -> Data? {
        guard isHTML else { return try? XMLEncoding.utf8(of: data, label: label) }
        let guess: Charset = Charset.isUTF8(data) ? .utf8 : Charset(.windowsCP1252)
        let charset = Charset.ofText(data, label: label, otherwise: declaredCharset(ofHTML: data) ?? guess)
        return Data((charset.text(of: data) ?? String(decoding: data, as: UTF8.self)).utf8)
    }

    /// Returns the charset in a `<meta>` element within the first 1,024 bytes, as browsers find it (WHATWG, HTML, section
    /// 13.2.3.2).
    private static func declaredCharset(ofHTML data: Data) -> Charset? {
        let head = String(decoding: data.prefix(1024), as: UTF8.self)
        let expression = #"<meta\s[^>]*?charset\s*=\s*["']?\s*([^\s"'/>;]+)"#
        guard let name = try? Pattern.firstMatch(of: "(?i)" + expression, group: 1, in: head),
            let charset = Charset(named: name)
        else { return nil }
        // The declaration was readable as ASCII, so the document is not UTF-16.
        return charset.name.hasPrefix("UTF-16") ? .utf8 : charset
    }

    private static func document(_ data: Data, isHTML: Bool) -> xmlDocPtr? {
        data.withUnsafeBytes { bytes in
            let text = bytes.bindMemory(to: CChar.self).baseAddress
            let length = Int32(bytes.count)
            if isHTML {
                let options =
                    HTML_PARSE_RECOVER.rawValue | HTML_PARSE_NOERROR.rawValue | HTML_PARSE_NOWARNING.rawValue
                    | HTML_PARSE_NONET.rawValue
                return htmlReadMemory(text, length, nil, "UTF-8", Int32(options))
            }
            let options = XML_PARSE_NONET.rawValue | XML_PARSE_NOERROR.rawValue | XML_PARSE_NOWARNING.rawValue
            return xmlReadMemory(text, length, nil, "UTF-8", Int32(options))
        }
    }
}

/// Regular expressions with ICU syntax.
enum Pattern {
    /// Checks an expression.
    ///
    /// - Returns: The number of its groups.
    static func groupCount(of pattern: String, at value: ManifestValue) throws(ManifestError) -> Int {
        guard let expression = try? NSRegularExpression(pattern: pattern) else {
            throw value.problem("invalid regular expression \(quoted(pattern))")
        }
        return expression.numberOfCaptureGroups
    }

    /// The maximum time to search for a match, in seconds. Some expressions need exponential time.
    static let maximumTime = 5.0

    /// Returns the text of a group in the first match, or nil if nothing matches.
    ///
    /// - Throws: An error if the search takes too long or the task is cancelled.
    static func firstMatch(of pattern: String, group: Int, in text: String) throws(EvaluationError) -> String? {
        guard let expression = try? NSRegularExpression(pattern: pattern),
            let match = try firstMatch(of: expression, in: text, until: end), group < match.numberOfRanges,
            let range = Range(match.range(at: group), in: text)
        else { return nil }
        return String(text[range])
    }

    /// The end of a search that begins now.
    static var end: ContinuousClock.Instant { .now + .seconds(maximumTime) }

    /// Returns the first match, or nil if nothing matches.
    ///
    /// - Throws: An error if the search does not end in time or the task is cancelled.
    static func firstMatch(
        of expression: NSRegularExpression, in text: String, until end: ContinuousClock.Instant
    ) throws(EvaluationError) -> NSTextCheckingResult? {
        var found: NSTextCheckingResult?, isOver = false, isTooComplex = false
        expression.enumerateMatches(
            in: text, options: [.reportProgress, .reportCompletion], range: NSRange(text.startIndex..., in: text)
        ) { match, flags, stop in
            if let match { found = match }
            // The search ends without a result if it needs too much memory.
            if flags.contains(.internalError) { isTooComplex = true }
            if match == nil, !flags.contains(.completed), Task.isCancelled || ContinuousClock.now > end { isOver = true }
            if found != nil || isOver { stop.pointee = true }
        }
        if isOver {
            throw EvaluationError(message: "the search for \(quoted(expression.pattern)) took too long")
        }
        if isTooComplex, found == nil {
            throw EvaluationError(message: "the search for \(quoted(expression.pattern)) needs too much memory")
        }
        return found
    }

    static func matches(_ pattern: String, _ text: String) throws(EvaluationError) -> Bool {
        try firstMatch(of: pattern, group: 0, in: text) != nil
    }
}
