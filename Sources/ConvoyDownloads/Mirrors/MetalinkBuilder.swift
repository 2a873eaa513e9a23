import ConvoySecurity
import ConvoySupport
import Foundation

/// A builder that creates files from the elements of a Metalink (RFC 5854, section 4), which arrive one by one.
///
/// Version 3, which predates the RFC, wraps the lists of files, checksums and URLs in `files`, `verification` and
/// `resources`, and a URL has a preference up to 100 instead of a priority.
struct MetalinkBuilder {
    static let namespace = "urn:ietf:params:xml:ns:metalink"
    private static let oldNamespace = "http://www.metalinker.org"

    /// An open element.
    private enum Element {
        case metalink, file, size, url(priority: String?, location: String?)
        case hash(ChecksumAlgorithm?)
        case pieces, pieceHash
        /// The wrappers of version 3.
        case files, verification, resources
        /// An unknown element, skipped with its contents.
        case other

        /// Whether the element contains text and no elements.
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

    /// The maximum length of a number, digest or URL, in bytes.
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
        if parent.isText { throw .malformed(reason: "The element \(name) is not allowed inside a value.", line: line) }
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

    /// Returns whether the root element belongs to version 3.
    private func isOldRoot(_ name: String, _ namespace: String?, version: String?) throws(MetalinkError) -> Bool {
        guard name == "metalink" else { throw .notMetalink }
        if namespace == Self.namespace { return false }
        guard Self.isOld(namespace), namespace != nil || version?.hasPrefix("3") == true else { throw .notMetalink }
        return true
    }

    private static func isOld(_ namespace: String?) -> Bool { namespace?.hasPrefix(oldNamespace) ?? true }

    /// Converts a preference, from 1 to 100 (best), to a priority; nil if the preference is invalid.
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
            // All other URLs are for torrents or unsupported protocols.
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

/// A file of a Metalink, while its elements are being read.
///
/// Invalid sizes and digests are errors, because without them wrong bytes would be accepted. URLs and priorities are
/// hints; invalid ones are skipped.
struct MetalinkDraft {
    private struct Pieces {
        var algorithm: ChecksumAlgorithm?
        var length: Int64
        var checksums: [Checksum] = []
    }

    private let pathComponents: [String]
    private var size: Int64?
    private var checksums: [ChecksumAlgorithm: Checksum] = [:]
    private var pieces: [ChecksumAlgorithm: Metalink.Pieces] = [:]
    private var openPieces: Pieces?
    private var mirrors: [DownloadMirror] = []
    private var urlCount = 0

    init(pathComponents: [String] = []) { self.pathComponents = pathComponents }

    mutating func setSize(_ text: ArraySlice<UInt8>, line: Int) throws(MetalinkError) {
        guard let value = DecimalNumber.parse(text) else { throw Self.invalid("size", text, line) }
        guard size == nil || size == value else { throw .repeated(element: "size", line: line) }
        size = value
    }

    mutating func addURL(
        _ text: ArraySlice<UInt8>, _ priority: String?, _ location: String?, line: Int
    ) throws(MetalinkError) {
        urlCount += 1
        guard urlCount <= Metalink.maximumMirrorCount else {
            throw .tooMany(element: "url", limit: Metalink.maximumMirrorCount, line: line)
        }
        let reference = String(decoding: text, as: UTF8.self)
        if let mirror = DownloadMirror(reference, relativeTo: nil, priority: priority, location: location) {
            mirrors.append(mirror)
        }
    }

    mutating func addHash(
        _ algorithm: ChecksumAlgorithm?, _ text: ArraySlice<UInt8>, line: Int
    ) throws(MetalinkError) {
        guard let algorithm else { return }
        let checksum = try Self.checksum(algorithm, text, line)
        guard checksums[algorithm] == nil || checksums[algorithm] == checksum else {
            throw .repeated(element: "hash", line: line)
        }
        checksums[algorithm] = checksum
    }

    // MARK: Pieces

    mutating func startPieces(_ algorithm: ChecksumAlgorithm?, length: String, line: Int) throws(MetalinkError) {
        guard let value = DecimalNumber.parse(length.utf8), value > 0 else {
            throw Self.invalid("pieces", length.utf8, line)
        }
        if let algorithm, pieces[algorithm] != nil { throw .repeated(element: "pieces", line: line) }
        openPieces = Pieces(algorithm: algorithm, length: value)
    }

    mutating func addPiece(_ text: ArraySlice<UInt8>, line: Int) throws(MetalinkError) {
        guard let algorithm = openPieces?.algorithm else { return }
        openPieces?.checksums.append(try Self.checksum(algorithm, text, line))
    }

    mutating func endPieces(line: Int) throws(MetalinkError) {
        defer { openPieces = nil }
        guard let done = openPieces, let algorithm = done.algorithm else { return }
        guard !done.checksums.isEmpty else { throw .wrongPieceCount(found: 0, expected: 1, line: line) }
        pieces[algorithm] = Metalink.Pieces(algorithm: algorithm, length: done.length, checksums: done.checksums)
    }

    // MARK: The end

    func file(line: Int) throws(MetalinkError) -> Metalink.File {
        for pieces in pieces.values {
            guard let size else { break }
            let expected = size == 0 ? 0 : (size - 1) / pieces.length + 1
            // Some programs write one digest, of zero bytes, for an empty file.
            guard pieces.checksums.count == expected || (size == 0 && pieces.checksums.count == 1) else {
                throw .wrongPieceCount(found: pieces.checksums.count, expected: expected, line: line)
            }
        }
        let strongest = pieces.keys.max().flatMap { pieces[$0] }
        return Metalink.File(
            pathComponents: pathComponents, size: size,
            checksums: checksums.values.sorted { $0.algorithm > $1.algorithm },
            pieces: size == 0 ? nil : strongest, mirrors: DownloadMirror.sorted(mirrors))
    }

    private static func checksum(
        _ algorithm: ChecksumAlgorithm, _ text: ArraySlice<UInt8>, _ line: Int
    ) throws(MetalinkError) -> Checksum {
        guard let bytes = HexadecimalDigits.bytes(of: text), let checksum = try? Checksum(algorithm, digest: bytes) else {
            throw invalid("hash", text, line)
        }
        return checksum
    }

    private static func invalid(_ element: String, _ value: some Collection<UInt8>, _ line: Int) -> MetalinkError {
        .invalidValue(element: element, value: MetalinkAttributes.shown(value), line: line)
    }
}

/// The attributes of an element.
struct MetalinkAttributes {
    let line: Int
    private let element: String
    private let values: [String: String]

    init(_ element: String, _ values: [String: String], _ line: Int) {
        self.element = element
        self.values = values
        self.line = line
    }

    subscript(name: String) -> String? { values[name] }

    func required(_ name: String) throws(MetalinkError) -> String {
        guard let value = values[name] else {
            throw .missingAttribute(element: element, attribute: name, line: line)
        }
        return value
    }

    /// Returns a prefix of a string, for an error.
    static func shown(_ text: some Collection<UInt8>) -> String { String(decoding: text.prefix(100), as: UTF8.self) }
}

/// The names of files in a Metalink.
enum MetalinkPath {
    private static let maximumLength = 4096
    private static let maximumComponentCount = 32

    /// Splits a name into safe components.
    ///
    /// RFC 5854, section 4.1.2.1, forbids absolute names and names that lead to a parent directory. A document with
    /// such a name is damaged or hostile, so it is rejected rather than corrected. `\` is a separator on some systems.
    static func components(of name: String, line: Int) throws(MetalinkError) -> [String] {
        let parts = name.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard name.utf8.count <= maximumLength, parts.count <= maximumComponentCount, !name.utf8.contains(UInt8(ascii: "\\"))
        else { throw .unsafeName(MetalinkAttributes.shown(name.utf8), line: line) }
        var components: [String] = []
        for part in parts {
            guard !part.isEmpty, !part.elementsEqual(".".utf8), !part.elementsEqual("..".utf8),
                let safe = FileName.safe(String(decoding: part, as: UTF8.self))
            else { throw .unsafeName(MetalinkAttributes.shown(name.utf8), line: line) }
            components.append(safe)
        }
        return components
    }
}

/// A parser for the numbers in a document.
enum DecimalNumber {
    /// Parses a number in ASCII digits; nil if the text contains other characters, such as a sign, or if the number is
    /// too large.
    static func parse(_ digits: some Collection<UInt8>) -> Int64? {
        guard !digits.isEmpty else { return nil }
        var value: Int64 = 0
        for digit in digits {
            guard ASCII.isDigit(digit) else { return nil }
            let (product, hasOverflown) = value.multipliedReportingOverflow(by: 10)
            let (sum, hasOverflownToo) = product.addingReportingOverflow(Int64(digit - UInt8(ascii: "0")))
            guard !hasOverflown, !hasOverflownToo else { return nil }
            value = sum
        }
        return value
    }
}
