import CXML2
import ConvoySerialization
import Foundation

/// An element of a server's XML, with its text and its children. Namespaces and attributes are omitted, because S3
/// responses do not need them.
///
/// Nothing is loaded from the network or from files, a document type stops the parsing, and depth, number of elements
/// and size are limited.
struct StorageXML {
    private(set) var name: String
    private(set) var text = ""
    private(set) var children: [StorageXML] = []

    /// Returns the first child element with a name; nil if no child has it.
    func child(_ name: String) -> StorageXML? { children.first { $0.name == name } }

    /// The text of the first child with a name, if any.
    subscript(_ name: String) -> String? { child(name)?.text }

    /// Returns all child elements with a name, in order.
    func all(_ name: String) -> [StorageXML] { children.filter { $0.name == name } }

    // MARK: Parsing

    private static let maximumDepth = 16
    private static let maximumCount = 200_000
    private static let maximumAttributeCount = 64

    /// Parses the root element of a document; nil if it is malformed or exceeds a limit.
    init?(_ data: Data, limit: Int) {
        // A slow server may send whitespace before the document to keep the connection alive.
        let sent = data.drop { $0 == 0x20 || $0 == 0x0A || $0 == 0x0D || $0 == 0x09 }
        guard !sent.isEmpty, sent.count <= limit, let document = try? XMLEncoding.utf8(of: Data(sent), label: nil),
            !XMLEvents.hasTag(in: document, withMoreAttributesThan: Self.maximumAttributeCount)
        else { return nil }
        var state = Parsing()
        let isWellFormed = withUnsafeMutablePointer(to: &state) { state in
            XMLEvents.parse(
                document, Self.handler, context: state, begin: { state.pointee.parser = $0 },
                isOver: { state.pointee.isBroken })
        }
        guard isWellFormed == true, !state.isBroken, let root = state.root else { return nil }
        self = root
    }

    private init(name: String) { self.name = name }

    private struct Parsing {
        var parser: xmlParserCtxtPtr?
        var open: [StorageXML] = []
        var texts: [[UInt8]] = []
        var root: StorageXML?
        var count = 0
        var isBroken = false

        mutating func stop() {
            isBroken = true
            xmlStopParser(parser)
        }

        mutating func start(_ name: String) {
            count += 1
            guard open.count < maximumDepth, count <= maximumCount else { return stop() }
            open.append(StorageXML(name: name))
            texts.append([])
        }

        mutating func end() {
            guard var element = open.popLast(), let text = texts.popLast() else { return stop() }
            element.text = String(decoding: text, as: UTF8.self)
            if open.isEmpty { root = element } else { open[open.count - 1].children.append(element) }
        }
    }

    private static func at(_ context: UnsafeMutableRawPointer?, _ body: (inout Parsing) -> Void) {
        guard let state = context?.assumingMemoryBound(to: Parsing.self), !state.pointee.isBroken else { return }
        body(&state.pointee)
    }

    private static var handler: xmlSAXHandler {
        var handler = xmlSAXHandler()
        handler.initialized = UInt32(XML_SAX2_MAGIC)
        handler.startElementNs = { context, name, _, _, _, _, _, _, _ in
            StorageXML.at(context) { $0.start(name.map { String(cString: $0) } ?? "") }
        }
        handler.endElementNs = { context, _, _, _ in StorageXML.at(context) { $0.end() } }
        handler.characters = { context, bytes, count in
            guard let bytes, count > 0 else { return }
            StorageXML.at(context) { state in
                guard !state.texts.isEmpty else { return }
                state.texts[state.texts.count - 1] += UnsafeBufferPointer(start: bytes, count: Int(count))
            }
        }
        handler.internalSubset = { context, _, _, _ in StorageXML.at(context) { $0.stop() } }
        handler.serror = { context, error in
            guard let error = error?.pointee, error.level.rawValue >= XML_ERR_ERROR.rawValue else { return }
            StorageXML.at(context) { $0.stop() }
        }
        return handler
    }
}
