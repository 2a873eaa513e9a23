import ConvoySecurity
import ConvoySupport
import Foundation

/// Makes files out of the elements of a Metalink (RFC 5854, section 4), which come one by one.
struct MetalinkBuilder {
    static let namespace = "urn:ietf:params:xml:ns:metalink"

    /// An element that is open.
    private enum Element {
        case metalink, file, size, url(priority: String?, location: String?)
        case hash(ChecksumAlgorithm?)
        case pieces, pieceHash
        /// Something else, which is skipped with everything in it.
        case other

        /// Whether it has a text that is read, and no elements.
        var isText: Bool {
            switch self {
            case .size, .hash, .pieceHash, .url: true
            default: false
            }
        }
    }

    private(set) var files: [Metalink.File] = []
    private var open: [Element] = []
    private var text: [UInt8] = []
    private var draft = MetalinkDraft()
    private var paths: Set<[UInt8]> = []
    private var hasRoot = false

    /// No text of a number, a digest or a URL is longer, in bytes.
    private static let maximumTextLength = 8 << 10

    /// Whether the root element has ended.
    var isComplete: Bool { hasRoot && open.isEmpty }

    mutating func start(
        _ name: String, namespace: String?, _ attributes: [String: String], line: Int
    ) throws(MetalinkError) {
        text = []
        guard let parent = open.last else {
            try checkRoot(name, namespace, version: attributes["version"])
            hasRoot = true
            open.append(.metalink)
            return
        }
        if parent.isText { throw .malformed(reason: "There is an element \(name) inside of a value.", line: line) }
        let element =
            namespace == Self.namespace ? try child(name, of: parent, MetalinkAttributes(name, attributes, line)) : .other
        open.append(element)
    }

    mutating func append(_ bytes: some Collection<UInt8>, line: Int) throws(MetalinkError) {
        guard open.last?.isText == true else { return }
        text += bytes
        guard text.count <= Self.maximumTextLength else {
            throw .invalidValue(element: "text", value: MetalinkAttributes.shown(text), line: line)
        }
    }

    mutating func end(line: Int) throws(MetalinkError) {
        guard let element = open.popLast() else { return }
        let content = ASCII.trimmed(text)
        switch element {
        case .metalink, .other: break
        case .file:
            let file = try draft.file(line: line)
            files.append(file)
        case .size: try draft.setSize(content, line: line)
        case .url(let priority, let location): try draft.addURL(content, priority, location, line: line)
        case .hash(let algorithm): try draft.addHash(algorithm, content, line: line)
        case .pieces: try draft.endPieces(line: line)
        case .pieceHash: try draft.addPiece(content, line: line)
        }
        text = []
    }

    private func checkRoot(_ name: String, _ namespace: String?, version: String?) throws(MetalinkError) {
        guard name == "metalink", namespace == Self.namespace else {
            let isOld =
                name == "metalink"
                && (namespace?.hasPrefix("http://www.metalinker.org") == true || version?.hasPrefix("3") == true)
            throw isOld ? .version3 : .notMetalink
        }
    }

    private mutating func child(
        _ name: String, of parent: Element, _ attributes: MetalinkAttributes
    ) throws(MetalinkError) -> Element {
        switch (parent, name) {
        case (.metalink, "file"):
            guard files.count < Metalink.maximumFileCount else {
                throw .tooMany(element: "file", limit: Metalink.maximumFileCount, line: attributes.line)
            }
            let components = try MetalinkPath.components(of: attributes.required("name"), line: attributes.line)
            guard paths.insert(Array(components.joined(separator: "/").utf8)).inserted else {
                throw .repeated(element: "file", line: attributes.line)
            }
            draft = MetalinkDraft(pathComponents: components)
            return .file
        case (.file, "size"): return .size
        case (.file, "url"): return .url(priority: attributes["priority"], location: attributes["location"])
        case (.file, "hash"): return .hash(ChecksumAlgorithm(name: try attributes.required("type")))
        case (.file, "pieces"):
            try draft.startPieces(
                ChecksumAlgorithm(name: attributes.required("type")), length: attributes.required("length"),
                line: attributes.line)
            return .pieces
        case (.pieces, "hash"): return .pieceHash
        default: return .other
        }
    }
}
