import CXML2
import Foundation

/// Parses XML piece by piece with libxml2, and reports its events. Nothing is loaded from the network or from files.
package enum XMLEvents {
    /// Parses a document.
    ///
    /// - Parameters:
    ///   - handler: the functions that libxml2 calls for its events, with the context.
    ///   - begin: gets the parser before the first event. It is valid until this returns.
    ///   - isOver: called after each MiB; true stops parsing.
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

    /// Whether a tag has more attributes than this. libxml2 reports them only after it has compared each with all the
    /// others of its tag, which can take hours.
    ///
    /// A tag contains no `<`, so that each `<` starts a count, even in a comment: `<!--` can also be part of a literal,
    /// where it opens no comment.
    package static func hasTag(in data: Data, withMoreAttributesThan maximum: Int) -> Bool {
        data.withUnsafeBytes { bytes -> Bool in
            guard let base = bytes.baseAddress else { return false }
            var index = 0
            while let start = memchr(base + index, Int32(UInt8(ascii: "<")), bytes.count - index) {
                index = UnsafeRawPointer(start) - base + 1
                var (count, quote, last) = (0, UInt8(0), UInt8(ascii: "<"))
                tag: while index < bytes.count {
                    let byte = bytes[index]
                    switch byte {
                    case UInt8(ascii: "<"): break tag
                    case UInt8(ascii: "!") where last == UInt8(ascii: "<"): break tag
                    case UInt8(ascii: "?") where last == UInt8(ascii: "<"): break tag
                    case quote where quote != 0: quote = 0
                    case UInt8(ascii: ">") where quote == 0: break tag
                    case UInt8(ascii: "\""), UInt8(ascii: "'"):
                        guard quote == 0, last == UInt8(ascii: "=") else { break }
                        quote = byte
                        count += 1
                        if count > maximum { return true }
                    case 0x20, 0x09, 0x0A, 0x0D:
                        index += 1
                        continue tag
                    default: break
                    }
                    last = byte
                    index += 1
                }
            }
            return false
        }
    }

    /// Runs once per process, as libxml2's own initialization is not thread-safe.
    private static let initialized: Void = xmlInitParser()
}
