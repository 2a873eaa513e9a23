import ConvoySecurity
import ConvoySupport
import Foundation

/// Makes files out of the elements of a Metalink (RFC 5854, section 4), which come one by one.
///
/// Metalinks of version 3, from before the RFC, say the same in other elements: `files`, `verification` and `resources`
/// are around those of a list, of checksums and of URLs, and a URL has a preference up to 100 in place of a priority.
struct MetalinkBuilder {
    static let namespace = "urn:ietf:params:xml:ns:metalink"
    private static let oldNamespace = "http://www.metalinker.org"

    /// An element that is open.
    private enum Element {
        case metalink, file, size, url(priority: String?, location: String?)
        case hash(ChecksumAlgorithm?)
        case pieces, pieceHash
        /// What version 3 has around others.
        case files, verification, resources
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
    private var isVersion3 = false

    /// No text of a number, a digest or a URL is longer, in bytes.
    private static let maximumTextLength = 8 << 10

    /// Whether the root element has ended.
    var isComplete: Bool { hasRoot && open.isEmpty }

    mutating func start(
        _ name: String, namespace: String?, _ attributes: [String: String], line: Int
    ) throws(MetalinkError) {
        text = []
        guard let parent = open.last else {
            isVersion3 = try isOldRoot(name, namespace, version: attributes["version"])
            hasRoot = true
            open.append(.metalink)
            return
        }
        if parent.isText { throw .malformed(reason: "There is an element \(name) inside of a value.", line: line) }
        let isKnown = isVersion3 ? Self.isOld(namespace) : namespace == Self.namespace
        open.append(isKnown ? try child(name, of: parent, MetalinkAttributes(name, attributes, line)) : .other)
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
        case .metalink, .files, .verification, .resources, .other: break
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

    /// Whether the root is that of version 3.
    private func isOldRoot(_ name: String, _ namespace: String?, version: String?) throws(MetalinkError) -> Bool {
        guard name == "metalink" else { throw .notMetalink }
        if namespace == Self.namespace { return false }
        guard Self.isOld(namespace), namespace != nil || version?.hasPrefix("3") == true else { throw .notMetalink }
        return true
    }

    private static func isOld(_ namespace: String?) -> Bool { namespace?.hasPrefix(oldNamespace) ?? true }

    /// The priority that a preference from 1 to 100, the best, is.
    private static func priority(ofPreference text: String?) -> String? {
        guard let preference = text.flatMap({ Int($0) }), (1...100).contains(preference) else { return nil }
        return String(101 - preference)
    }

    private mutating func child(
        _ name: String, of parent: Element, _ attributes: MetalinkAttributes
    ) throws(MetalinkError) -> Element {
        switch (parent, name) {
        case (.metalink, "files") where isVersion3: return .files
        case (.file, "verification") where isVersion3: return .verification
        case (.file, "resources") where isVersion3: return .resources
        case (.resources, "url"):
            // Others are of torrents, or of protocols that are not known here.
            guard ["http", "https"].contains(attributes["type"] ?? "http") else { return .other }
            return .url(
                priority: Self.priority(ofPreference: attributes["preference"]), location: attributes["location"])
        case (.verification, "hash"): return .hash(ChecksumAlgorithm(name: try attributes.required("type")))
        case (.metalink, "file") where !isVersion3, (.files, "file"):
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
        case (.file, "url") where !isVersion3:
            return .url(priority: attributes["priority"], location: attributes["location"])
        case (.file, "hash") where !isVersion3: return .hash(ChecksumAlgorithm(name: try attributes.required("type")))
        case (.file, "pieces") where !isVersion3, (.verification, "pieces"):
            try draft.startPieces(
                ChecksumAlgorithm(name: attributes.required("type")), length: attributes.required("length"),
                line: attributes.line)
            return .pieces
        case (.pieces, "hash"): return .pieceHash
        default: return .other
        }
    }
}
