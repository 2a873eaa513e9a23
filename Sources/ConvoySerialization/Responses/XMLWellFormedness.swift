import Foundation
import FoundationNetworking
import FoundationXML

/// Whether bytes are a well-formed XML document within limits, found by reading through them once.
///
/// `XMLParser.parse()` is true on Linux for cut, mismatched and empty input, and `XMLDocument` crashes on empty input
/// and makes half a tree of the rest. So the serializers look first. External entities are never loaded.
struct XMLWellFormedness {
    var maximumDepth: Int

    enum Finding: Error {
        case tooDeep
        case declarations
        case malformed(NSError)
    }

    func check(_ data: Data) throws(Finding) {
        // libxml writes messages about such input to standard error; most of what is not XML ends here.
        guard let first = data.first(where: { !" \t\r\n".utf8.contains($0) }),
            first == UInt8(ascii: "<") || first == 0xEF
        else { throw .malformed(Self.error(.emptyDocumentError)) }
        if XMLHardening.hasDeclarations(data) { throw .declarations }
        let parser = XMLParser(data: XMLHardening.withSpacedInstructions(data, everywhere: true))
        parser.shouldResolveExternalEntities = false
        let reader = DocumentReader(self)
        parser.delegate = reader
        let parsed = parser.parse()
        if let finding = reader.finding { throw finding }
        if let error = parser.parserError { throw .malformed(error as NSError) }
        guard parsed, reader.hasRoot, reader.depth == 0, reader.hasEnded else {
            throw .malformed(Self.error(.prematureDocumentEndError))
        }
    }

    private static func error(_ code: XMLParser.ErrorCode) -> NSError {
        NSError(domain: XMLParser.errorDomain, code: code.rawValue)
    }
}

private final class DocumentReader: NSObject, XMLParserDelegate {
    private let rules: XMLWellFormedness
    private(set) var depth = 0
    private(set) var hasRoot = false
    private(set) var hasEnded = false
    private(set) var finding: XMLWellFormedness.Finding?

    init(_ rules: XMLWellFormedness) { self.rules = rules }

    private func stop(_ parser: XMLParser, _ finding: XMLWellFormedness.Finding) {
        if self.finding == nil { self.finding = finding }
        parser.abortParsing()
    }

    func parser(
        _ parser: XMLParser, didStartElement elementName: String, namespaceURI: String?, qualifiedName qName: String?,
        attributes attributeDict: [String: String]
    ) {
        depth += 1
        hasRoot = true
        if depth > rules.maximumDepth { stop(parser, .tooDeep) }
    }

    func parser(
        _ parser: XMLParser, didEndElement elementName: String, namespaceURI: String?, qualifiedName qName: String?
    ) {
        depth -= 1
    }

    func parserDidEndDocument(_ parser: XMLParser) { hasEnded = true }
}

extension HTTPResponseSerializer {
    /// The bytes of a document, well-formed and in UTF-8; nil for a single space.
    func xml(_ data: Data, response: URLResponse?, rules: XMLWellFormedness) throws -> Data? {
        if HTTPResponseSerializer.isOneSpace(data) { return nil }
        let bytes = try XMLEncoding.utf8(of: data, for: self, response: response)
        try check(bytes, rules: rules, response: response)
        return XMLHardening.withSpacedInstructions(bytes, everywhere: false)
    }

    func check(_ bytes: Data, rules: XMLWellFormedness, response: URLResponse?) throws {
        do throws(XMLWellFormedness.Finding) {
            try rules.check(bytes)
        } catch .tooDeep {
            throw limits.nestingError(response)
        } catch .declarations {
            throw NSError.limit(
                .declarations, "The document has declarations of its own, with which it could grow without measure.",
                response)
        } catch .malformed(let error) {
            throw error
        }
    }
}
