import CXML2
import Foundation
import FoundationXML

/// A validator that checks a document with libxml2 before it is passed to Foundation's parsers, which are based on
/// libxml2.
///
/// This is necessary on Linux: `XMLParser.parse()` returns true for truncated, mismatched and empty input,
/// `XMLDocument` creates an incomplete tree from it, and both crash on some input that is rejected here. Nothing is
/// loaded from the network or from files.
///
/// libxml2 itself parses 10 MB in 65 ms, compared with 354 ms for `XMLParser` and 219 ms for `XMLDocument`.
struct XMLInspection {
    enum Problem: Error {
        case tooDeep
        case declarations
        case tooManyNames
        case malformed(NSError)
    }

    /// The limits for input on which libxml2 takes quadratic time: it compares the attributes of a tag with each other,
    /// looks up each prefix among the namespaces in scope, and hashes all names into a small table.
    private static let maximumAttributeCount = 1_024
    private static let maximumNamespaceCount = 256
    private static let maximumNameCount = 100_000

    private let maximumDepth: Int
    private var parser: xmlParserCtxtPtr?
    private var depth: Int { namespaceCounts.count - 1 }
    /// The numbers of namespaces in scope for the document and for each open element.
    private var namespaceCounts = [0]
    private var hasRoot = false
    private var problem: Problem?
    private var bareInstructions: [Int] = []
    /// Whether an undeclared entity was referenced.
    private var namesUnknownEntity = false

    /// Returns the document in a form that Foundation can parse.
    ///
    /// - Parameter data: UTF-8 without zero bytes that does not declare a different encoding.
    static func document(of data: Data, maximumDepth: Int) throws(Problem) -> Data {
        guard !XMLEvents.hasTag(in: data, withMoreAttributesThan: maximumAttributeCount) else { throw .tooManyNames }
        var inspection = XMLInspection(maximumDepth: maximumDepth)
        inspection.read(data)
        if let problem = inspection.problem { throw problem }
        return spaced(data, at: inspection.bareInstructions)
    }

    private init(maximumDepth: Int) { self.maximumDepth = maximumDepth }

    private mutating func read(_ data: Data) {
        withUnsafeMutablePointer(to: &self) { inspection in
            let isWellFormed = XMLEvents.parse(
                data, XMLInspection.handler, context: inspection, begin: { inspection.pointee.parser = $0 },
                isOver: { inspection.pointee.problem != nil })
            guard let isWellFormed else {
                inspection.pointee.problem = .malformed(XMLInspection.error(.outOfMemoryError, "Out of memory."))
                return
            }
            if inspection.pointee.problem == nil, !isWellFormed || !inspection.pointee.hasRoot {
                inspection.pointee.problem = .malformed(XMLInspection.cutShort)
            }
            // Newer versions of libxml2 assume that the external document type, which is not loaded, may declare the
            // entity. The text of the entity would then be missing.
            if inspection.pointee.problem == nil, inspection.pointee.namesUnknownEntity {
                inspection.pointee.problem = .malformed(
                    XMLInspection.error(.undeclaredEntityError, "The document references an undeclared entity."))
            }
        }
    }

    private mutating func begin(namespaceCount: Int) {
        hasRoot = true
        namespaceCounts.append((namespaceCounts.last ?? 0) + namespaceCount)
        if depth > maximumDepth { stop(.tooDeep) }
        if namespaceCounts.last ?? 0 > Self.maximumNamespaceCount { stop(.tooManyNames) }
        checkNames()
    }

    private mutating func checkNames() {
        guard let names = parser?.pointee.dict, xmlDictSize(names) > Self.maximumNameCount else { return }
        stop(.tooManyNames)
    }

    private mutating func stop(_ problem: Problem) {
        if self.problem == nil { self.problem = problem }
        xmlStopParser(parser)
    }

    // MARK: Events

    private static func at(_ context: UnsafeMutableRawPointer?, _ body: (inout XMLInspection) -> Void) {
        guard let context else { return }
        body(&context.assumingMemoryBound(to: XMLInspection.self).pointee)
    }

    private static var handler: xmlSAXHandler {
        var handler = xmlSAXHandler()
        handler.initialized = UInt32(XML_SAX2_MAGIC)
        handler.startElementNs = { context, _, _, _, namespaceCount, _, _, _, _ in
            XMLInspection.at(context) { $0.begin(namespaceCount: Int(namespaceCount)) }
        }
        handler.endElementNs = { context, _, _, _ in XMLInspection.at(context) { _ = $0.namespaceCounts.popLast() } }
        // Reject declarations in a document type. Entities can expand 100 KB to 100 MB, and Foundation's parser crashes
        // when it reports attribute lists and notations to its delegate.
        handler.entityDecl = { context, _, _, _, _, _ in XMLInspection.at(context) { $0.stop(.declarations) } }
        handler.unparsedEntityDecl = { context, _, _, _, _ in XMLInspection.at(context) { $0.stop(.declarations) } }
        handler.notationDecl = { context, _, _, _ in XMLInspection.at(context) { $0.stop(.declarations) } }
        handler.elementDecl = { context, _, _, _ in XMLInspection.at(context) { $0.stop(.declarations) } }
        handler.attributeDecl = { context, _, _, _, _, _, values in
            xmlFreeEnumeration(values)
            XMLInspection.at(context) { $0.stop(.declarations) }
        }
        handler.getEntity = { context, _ in
            XMLInspection.at(context) { $0.namesUnknownEntity = true }
            return nil
        }
        handler.getParameterEntity = { context, _ in
            XMLInspection.at(context) { $0.namesUnknownEntity = true }
            return nil
        }
        // Foundation's parser crashes on a processing instruction that consists only of a name.
        handler.processingInstruction = { context, _, content in
            XMLInspection.at(context) {
                $0.checkNames()
                if content == nil { $0.bareInstructions.append(xmlByteConsumed($0.parser) - 2) }
            }
        }
        handler.serror = { context, error in
            guard let error = error?.pointee else { return }
            XMLInspection.at(context) { $0.note(error) }
        }
        return handler
    }

    /// Records the first error. Warnings are ignored, but namespace errors are not.
    private mutating func note(_ error: xmlError) {
        guard problem == nil, error.level.rawValue >= XML_ERR_ERROR.rawValue else { return }
        // libxml2 uses the same code and message for a truncated document and for content after the end of a document.
        // Newer versions have a different code for an unterminated element.
        let isCut =
            error.code == Int32(XML_ERR_DOCUMENT_END.rawValue) && (depth > 0 || !hasRoot)
            || error.code == Int32(XML_ERR_TAG_NOT_FINISHED.rawValue)
        let text = error.message.map { String(cString: $0).trimmingCharacters(in: .newlines) } ?? ""
        problem = .malformed(
            isCut
                ? XMLInspection.cutShort
                : XMLInspection.error(
                    code: Int(error.code), "\(text), on line \(error.line), column \(error.int2)."))
    }

    private static var cutShort: NSError { error(.prematureDocumentEndError, "The document is truncated.") }

    static func error(_ code: XMLParser.ErrorCode, _ text: String) -> NSError { error(code: code.rawValue, text) }

    /// Returns an error with libxml2's code, like `XMLParser.parserError`. Some of Foundation's names for these codes
    /// are wrong.
    private static func error(code: Int, _ text: String) -> NSError {
        NSError(domain: XMLParser.errorDomain, code: code, userInfo: [NSLocalizedDescriptionKey: text])
    }

    // MARK: Processing instructions

    /// Returns the document with spaces inserted at the given offsets: `<?x?>` becomes `<?x ?>`, which is equivalent.
    private static func spaced(_ data: Data, at places: [Int]) -> Data {
        guard !places.isEmpty else { return data }
        var result = Data(capacity: data.count + places.count)
        var rest = data[...]
        for place in places {
            result.append(rest.prefix(data.startIndex + place - rest.startIndex))
            result.append(0x20)
            rest = rest.dropFirst(data.startIndex + place - rest.startIndex)
        }
        result.append(rest)
        return result
    }
}

/// An incremental XML parser based on libxml2, which reports its events. Nothing is loaded from the network or from
/// files.
package enum XMLEvents {
    /// Parses a document.
    ///
    /// - Parameters:
    ///   - handler: The functions that libxml2 calls for its events, with the context.
    ///   - begin: A closure that receives the parser before the first event. The parser is valid until this method
    ///     returns.
    ///   - isOver: A closure called after each MiB. Return true to stop parsing.
    /// - Returns: Whether the document is well-formed; nil if libxml2 runs out of memory.
    package static func parse(
        _ data: Data, _ handler: xmlSAXHandler, context: UnsafeMutableRawPointer, begin: (xmlParserCtxtPtr) -> Void,
        isOver: () -> Bool
    ) -> Bool? {
        _ = initialized
        var handler = handler
        guard let parser = xmlCreatePushParserCtxt(&handler, context, nil, 0, nil) else { return nil }
        defer {
            // libxml2 stores the parts of the document type that it needs in a document, which must be freed
            // separately.
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

    /// Returns whether a tag has more attributes than the maximum. libxml2 reports the attributes only after comparing
    /// each of them with all others in the tag, which can take hours.
    ///
    /// Tags do not contain `<`, so each `<` starts a new count, even in a comment: `<!--` can also be part of a
    /// literal, in which it does not start a comment.
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

    /// The initialization of libxml2, which is run once per process, because it is not thread-safe.
    private static let initialized: Void = xmlInitParser()
}
