import Foundation
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
        let reader = XMLDocumentReader(self)
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
