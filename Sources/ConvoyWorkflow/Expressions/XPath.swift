import CXML2
import Foundation

/// XPath 1.0 over XML, and over HTML as browsers tolerate it, by libxml2. Nothing is loaded from elsewhere.
enum XPath {
    /// A response longer than this is not parsed, in bytes.
    static let maximumLength = 64 << 20

    static func isValid(_ expression: String) -> Bool {
        guard !expression.isEmpty, let context = xmlXPathNewContext(nil) else { return false }
        defer { xmlXPathFreeContext(context) }
        silence(context)
        guard let compiled = xmlXPathCtxtCompile(context, expression) else { return false }
        xmlXPathFreeCompExpr(compiled)
        return true
    }

    /// The texts of the nodes that an expression selects, or the text of its value; nil if the document cannot be parsed.
    static func values(of expression: String, in data: Data, isHTML: Bool) -> [String]? {
        guard data.count <= maximumLength, let document = document(data, isHTML: isHTML) else { return nil }
        defer { xmlFreeDoc(document) }
        guard let context = xmlXPathNewContext(document) else { return nil }
        defer { xmlXPathFreeContext(context) }
        silence(context)
        // The prefixes that the root declares can be used in the expression.
        if let root = xmlDocGetRootElement(document) {
            var namespace = root.pointee.nsDef
            while let current = namespace {
                if let prefix = current.pointee.prefix { xmlXPathRegisterNs(context, prefix, current.pointee.href) }
                namespace = current.pointee.next
            }
        }
        guard let result = xmlXPathEvalExpression(expression, context) else { return nil }
        defer { xmlXPathFreeObject(result) }
        guard result.pointee.type == XPATH_NODESET else {
            guard let text = xmlXPathCastToString(result) else { return nil }
            defer { free(text) }
            return [String(cString: text)]
        }
        guard let nodes = result.pointee.nodesetval else { return [] }
        return (0..<Int(nodes.pointee.nodeNr)).compactMap { index in
            guard let node = nodes.pointee.nodeTab[index], let text = xmlXPathCastNodeToString(node) else { return nil }
            defer { free(text) }
            return String(cString: text)
        }
    }

    /// Without a handler, libxml2 prints its errors.
    private static func silence(_ context: xmlXPathContextPtr) { context.pointee.error = { _, _ in } }

    private static func document(_ data: Data, isHTML: Bool) -> xmlDocPtr? {
        data.withUnsafeBytes { bytes in
            let text = bytes.bindMemory(to: CChar.self).baseAddress
            let length = Int32(bytes.count)
            if isHTML {
                let options =
                    HTML_PARSE_RECOVER.rawValue | HTML_PARSE_NOERROR.rawValue | HTML_PARSE_NOWARNING.rawValue
                    | HTML_PARSE_NONET.rawValue
                return htmlReadMemory(text, length, nil, nil, Int32(options))
            }
            let options = XML_PARSE_NONET.rawValue | XML_PARSE_NOERROR.rawValue | XML_PARSE_NOWARNING.rawValue
            return xmlReadMemory(text, length, nil, nil, Int32(options))
        }
    }
}
