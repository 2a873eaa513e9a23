import CXML2
import Foundation

/// Lets libxml2 parse a document piece by piece, for those who hear its events. Nothing is loaded from the network or from
/// files.
package enum XMLEvents {
    /// Parses a document.
    ///
    /// - Parameters:
    ///   - handler: what is called for the events, with the context.
    ///   - begin: gets the parser before the first event. It is valid until this returns.
    ///   - isOver: whether the rest need not be parsed.
    /// - Returns: whether the document is well-formed; nil if there is no memory.
    package static func parse(
        _ data: Data, _ handler: xmlSAXHandler, context: UnsafeMutableRawPointer, begin: (xmlParserCtxtPtr) -> Void,
        isOver: () -> Bool
    ) -> Bool? {
        _ = initialized
        var handler = handler
        guard let parser = xmlCreatePushParserCtxt(&handler, context, nil, 0, nil) else { return nil }
        defer {
            // libxml2 keeps what it needs of a document type in a document.
            if let document = parser.pointee.myDoc { xmlFreeDoc(document) }
            parser.pointee.myDoc = nil
            xmlFreeParserCtxt(parser)
        }
        begin(parser)
        xmlCtxtUseOptions(parser, Int32(XML_PARSE_NONET.rawValue))
        data.withUnsafeBytes { bytes in
            let bytes = bytes.bindMemory(to: CChar.self)
            var offset = 0
            repeat {
                let count = min(bytes.count - offset, 1 << 20)
                let isLast = offset + count == bytes.count
                xmlParseChunk(parser, bytes.baseAddress.map { $0 + offset }, Int32(count), isLast ? 1 : 0)
                offset += count
            } while offset < bytes.count && !isOver()
        }
        return parser.pointee.wellFormed != 0
    }

    /// Once, as libxml2's own initialization is not safe on several threads at a time.
    private static let initialized: Void = xmlInitParser()
}
