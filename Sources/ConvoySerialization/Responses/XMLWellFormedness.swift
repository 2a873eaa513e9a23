import Foundation
import FoundationNetworking
import FoundationXML

/// Whether bytes are a well-formed XML document, found by reading through them once.
///
/// `XMLParser.parse()` is true on Linux for cut, mismatched and empty input, and `XMLDocument` crashes on empty input
/// and makes half a tree of the rest. So the serializers look first. External entities are never loaded.
enum XMLWellFormedness {
    static func check(_ data: Data) throws {
        // libxml writes messages about such input to standard error; most of what is not XML ends here.
        guard let first = data.first(where: { !" \t\r\n".utf8.contains($0) && $0 != 0 }),
            first == UInt8(ascii: "<") || first == 0xEF || first == 0xFE || first == 0xFF
        else { throw error(.emptyDocumentError) }
        let parser = XMLParser(data: data)
        parser.shouldResolveExternalEntities = false
        let counter = ElementCounter()
        parser.delegate = counter
        let parsed = parser.parse()
        if let error = parser.parserError { throw error }
        guard parsed, counter.hasRoot, counter.open == 0, counter.hasEnded else {
            throw error(.prematureDocumentEndError)
        }
    }

    private static func error(_ code: XMLParser.ErrorCode) -> NSError {
        NSError(domain: XMLParser.errorDomain, code: code.rawValue)
    }
}

private final class ElementCounter: NSObject, XMLParserDelegate {
    var open = 0
    var hasRoot = false
    var hasEnded = false

    func parser(
        _ parser: XMLParser, didStartElement elementName: String, namespaceURI: String?, qualifiedName qName: String?,
        attributes attributeDict: [String: String]
    ) {
        open += 1
        hasRoot = true
    }

    func parser(
        _ parser: XMLParser, didEndElement elementName: String, namespaceURI: String?, qualifiedName qName: String?
    ) {
        open -= 1
    }

    func parserDidEndDocument(_ parser: XMLParser) { hasEnded = true }
}

extension HTTPResponseSerializer {
    /// The bytes of a document, well-formed and in an encoding that the parser will see; nil for a single space.
    ///
    /// A document that declares its encoding is left alone. For others the charset of the response counts (RFC 7303,
    /// section 3).
    func xml(_ data: Data, response: URLResponse?) throws -> Data? {
        if HTTPResponseSerializer.isOneSpace(data) { return nil }
        let declaration = data.prefix { $0 != UInt8(ascii: ">") }
        let declares =
            declaration.starts(with: Array("<?xml".utf8)) && declaration.range(of: Data("encoding".utf8)) != nil
        var bytes = data
        if !declares && Charset.unicodeMark(of: data) == nil {
            bytes = try utf8(data, response: response)
            // What it declares (UTF-16, in UTF-16) is no longer true of a translation.
            if bytes != data, bytes.starts(with: Array("<?xml".utf8)), let end = bytes.range(of: Data("?>".utf8)) {
                bytes = Data(bytes[end.upperBound...])
            }
        }
        try XMLWellFormedness.check(bytes)
        return bytes
    }
}
