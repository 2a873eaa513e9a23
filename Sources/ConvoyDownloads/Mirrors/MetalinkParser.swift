import CXML2
import ConvoySerialization
import ConvoySupport
import Foundation

/// A parser for the XML of a Metalink, which uses libxml2 and passes the elements to a ``MetalinkBuilder``.
///
/// Nothing is loaded from the network or from files, and only the five predefined entities are known: a document type
/// stops the parsing. The depth, the number of attributes, and the length between two tags are limited, because the
/// running time of libxml2 can be quadratic in each of them.
struct MetalinkParser {
    private static let maximumDepth = 32
    private static let maximumAttributeCount = 64
    private static let maximumRunLength = 64 << 10

    private var parser: xmlParserCtxtPtr?
    private var builder = MetalinkBuilder()
    private var depth = 0
    private var error: MetalinkError?

    /// Returns the files that a document lists.
    static func files(in data: Data) throws(MetalinkError) -> [Metalink.File] {
        guard data.count <= Metalink.maximumLength else { throw .tooLarge(limit: Metalink.maximumLength) }
        let data = try text(of: data)
        if let line = lineOfLongRun(in: data) { throw .malformed(reason: "A tag or text is too long.", line: line) }
        var parser = MetalinkParser()
        parser.read(data)
        if let error = parser.error { throw error }
        guard !parser.builder.files.isEmpty else { throw .noFiles }
        return parser.builder.files
    }

    /// Returns the document in UTF-8.
    private static func text(of data: Data) throws(MetalinkError) -> Data {
        do {
            return try XMLEncoding.utf8(of: data, label: nil)
        } catch {
            throw .malformed(reason: error.localizedDescription, line: 1)
        }
    }

    /// Returns the line of the first run of bytes without `<` that is too long. Because a tag cannot contain `<`, this
    /// check also limits the length of tags.
    private static func lineOfLongRun(in data: Data) -> Int? {
        data.withUnsafeBytes { bytes -> Int? in
            var (line, run) = (1, 0)
            for byte in bytes {
                run = byte == UInt8(ascii: "<") ? 0 : run + 1
                if run > maximumRunLength { return line }
                if byte == UInt8(ascii: "\n") { line += 1 }
            }
            return nil
        }
    }

    private mutating func read(_ data: Data) {
        withUnsafeMutablePointer(to: &self) { state in
            let isWellFormed = XMLEvents.parse(
                data, Self.handler, context: state, begin: { state.pointee.parser = $0 },
                isOver: { state.pointee.error != nil })
            guard let isWellFormed else {
                state.pointee.error = .malformed(reason: "Out of memory.", line: 1)
                return
            }
            if state.pointee.error == nil, !isWellFormed || !state.pointee.builder.isComplete {
                // The parser no longer exists; report the last line of the document.
                let line = data.reduce(1) { $1 == UInt8(ascii: "\n") ? $0 + 1 : $0 }
                state.pointee.error = .malformed(reason: "The document ends too early.", line: line)
            }
        }
    }

    private var line: Int { max(1, Int(parser?.pointee.input?.pointee.line ?? 1)) }

    private mutating func stop(_ error: MetalinkError) {
        if self.error == nil { self.error = error }
        xmlStopParser(parser)
    }

    // MARK: Events

    private static func at(_ context: UnsafeMutableRawPointer?, _ body: (inout MetalinkParser) throws(MetalinkError) -> Void)
    {
        guard let state = context?.assumingMemoryBound(to: MetalinkParser.self), state.pointee.error == nil else { return }
        do throws(MetalinkError) {
            try body(&state.pointee)
        } catch {
            state.pointee.stop(error)
        }
    }

    private static var handler: xmlSAXHandler {
        var handler = xmlSAXHandler()
        handler.initialized = UInt32(XML_SAX2_MAGIC)
        handler.startElementNs = { context, name, _, namespace, namespaceCount, _, count, _, attributes in
            MetalinkParser.at(context) { state throws(MetalinkError) in
                try state.start(name, namespace, Int(namespaceCount), attributes, Int(count))
            }
        }
        handler.endElementNs = { context, _, _, _ in
            MetalinkParser.at(context) { state throws(MetalinkError) in
                state.depth -= 1
                try state.builder.end(line: state.line)
            }
        }
        handler.characters = { context, bytes, count in
            guard let bytes, count > 0 else { return }
            MetalinkParser.at(context) { state throws(MetalinkError) in
                try state.builder.append(UnsafeBufferPointer(start: bytes, count: Int(count)), line: state.line)
            }
        }
        handler.internalSubset = { context, _, _, _ in
            MetalinkParser.at(context) { state throws(MetalinkError) in throw .documentType(line: state.line) }
        }
        handler.serror = { context, error in
            guard let error = error?.pointee, error.level.rawValue >= XML_ERR_ERROR.rawValue else { return }
            let text = error.message.map { String(cString: $0).trimmingCharacters(in: .newlines) } ?? ""
            MetalinkParser.at(context) { _ throws(MetalinkError) in
                throw .malformed(reason: String(text.prefix(200)), line: max(1, Int(error.line)))
            }
        }
        return handler
    }

    private mutating func start(
        _ name: UnsafePointer<xmlChar>?, _ namespace: UnsafePointer<xmlChar>?, _ namespaceCount: Int,
        _ attributes: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?, _ count: Int
    ) throws(MetalinkError) {
        depth += 1
        guard depth <= Self.maximumDepth else { throw .malformed(reason: "Elements are nested too deeply.", line: line) }
        guard count <= Self.maximumAttributeCount, namespaceCount <= Self.maximumAttributeCount else {
            throw .malformed(reason: "An element has too many attributes.", line: line)
        }
        var values: [String: String] = [:]
        for index in 0..<count {
            // Each attribute consists of five pointers: name, prefix, namespace, and the start and end of the value.
            guard let attribute = attributes.map({ $0 + 5 * index }), attribute[2] == nil, let name = attribute[0],
                let begin = attribute[3], let end = attribute[4]
            else { continue }
            values[Self.text(name)] = Self.attributeText(UnsafeBufferPointer(start: begin, count: end - begin))
        }
        try builder.start(name.map(Self.text) ?? "", namespace: namespace.map(Self.text), values, line: line)
    }

    private static func text(_ characters: UnsafePointer<xmlChar>) -> String { String(cString: characters) }

    /// Returns the value of an attribute. libxml2 reports an ampersand as a character reference, which must be parsed
    /// again.
    private static func attributeText(_ bytes: UnsafeBufferPointer<xmlChar>) -> String {
        var result: [UInt8] = []
        var rest = bytes[...]
        while let byte = rest.first {
            let isReference = byte == UInt8(ascii: "&") && rest.starts(with: "&#38;".utf8)
            result.append(byte)
            rest = rest.dropFirst(isReference ? 5 : 1)
        }
        return String(decoding: result, as: UTF8.self)
    }
}
