import Foundation
import FoundationXML

/// Reads through a document for `XMLWellFormedness`, and stops at the first thing that its rules forbid.
final class XMLDocumentReader: NSObject, XMLParserDelegate {
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
