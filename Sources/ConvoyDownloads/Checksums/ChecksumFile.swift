import ConvoySecurity
import ConvoySupport
import Foundation

/// A file with the checksums of other files, such as `SHA256SUMS`.
///
/// The supported formats are those of GNU coreutils (`9f86…  name`, `9f86… *name`), the BSDs (`SHA256 (name) = 9f86…`)
/// and OpenSSL (`SHA256(name)= 9f86…`), and a single digest without a name, which applies to any file. If the algorithm
/// is not named, the number of digits determines it, so a digest of another function with the same length, such as
/// BLAKE2, is treated as SHA-2 and does not match. Windows line endings are accepted. Blank lines, comments (`#`), PGP
/// signature armor and all lines without a checksum are skipped.
///
/// Signatures are not verified.
public struct ChecksumFile: Sendable {
    /// A line of the file.
    public struct Item: Sendable, Hashable {
        /// The name or path as written in the file; empty if the file consists of a single digest.
        public var name: String { ASCII.text(path[...]) }
        /// The expected digest.
        public let checksum: Checksum

        let path: [UInt8]
    }

    /// The maximum length of a checksum file, in bytes: 10 MiB.
    package static let maximumLength = 10 << 20

    /// The lines that contain a checksum, in order.
    public let entries: [Item]
    /// The indices of the entries, grouped by the last component of their paths.
    private let numbers: [[UInt8]: [Int]]

    /// Parses the contents of a file, in UTF-8 or any other superset of ASCII.
    ///
    /// - Throws: ``ChecksumError``.
    public init(parsing data: Data) throws(ChecksumError) {
        guard data.count <= Self.maximumLength else { throw .fileTooLarge(limit: Self.maximumLength) }
        var entries: [Item] = []
        var bare: [Checksum] = []
        var bytes = Array(data)[...]
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes = bytes.dropFirst(3) }
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            switch ChecksumLine(line) {
            case .entry(let path, let checksum): entries.append(Item(checksum: checksum, path: path))
            case .digest(let checksum): bare.append(checksum)
            case nil: break
            }
        }
        // A digest without a name is unambiguous only if the file contains nothing else.
        if entries.isEmpty, let only = bare.first, bare.count == 1 { entries = [Item(checksum: only, path: [])] }
        guard !entries.isEmpty else { throw .noChecksums }
        self.entries = entries
        numbers = Dictionary(grouping: entries.indices) { Self.lastComponent(of: entries[$0].path) }
    }

    /// Parses the text of a file.
    ///
    /// - Throws: ``ChecksumError``.
    public init(parsing text: String) throws(ChecksumError) {
        try self.init(parsing: Data(text.utf8))
    }

    /// Returns the strongest checksum for a file; nil if the file is not listed or its entries contradict each other.
    ///
    /// Entries with the same path take precedence (`./name` and `name` are the same path). Otherwise, entries with the
    /// same last component are used. All of them must have the same digest. Names are compared byte by byte.
    public func checksum(forFileNamed name: String) -> Checksum? {
        let path = Self.withoutCurrentDirectory(Array(name.utf8)[...])
        guard let candidates = numbers[Self.lastComponent(of: Array(path))] else {
            return entries.count == 1 && entries[0].path.isEmpty ? entries[0].checksum : nil
        }
        let exact = candidates.filter { Self.withoutCurrentDirectory(entries[$0].path[...]) == path }
        let checksums = (exact.isEmpty ? candidates : exact).map { entries[$0].checksum }
        guard let algorithm = checksums.map(\.algorithm).max() else { return nil }
        let strongest = Set(checksums.filter { $0.algorithm == algorithm })
        return strongest.count == 1 ? strongest.first : nil
    }

    private static func lastComponent(of path: [UInt8]) -> [UInt8] {
        Array(path.suffix(from: path.lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? path.startIndex))
    }

    private static func withoutCurrentDirectory(_ path: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var path = path
        while path.starts(with: [UInt8(ascii: "."), UInt8(ascii: "/")]) { path = path.dropFirst(2) }
        return path
    }
}

/// A line of a checksum file.
enum ChecksumLine {
    /// A digest and the path of its file, as bytes.
    case entry(path: [UInt8], Checksum)
    /// A digest without a name.
    case digest(Checksum)

    /// Parses a line without its line ending; nil if it contains no checksum.
    init?(_ line: ArraySlice<UInt8>) {
        var line = line
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        // PGP prefixes lines of signed text with "- " (RFC 9580, section 7.2).
        if line.starts(with: [UInt8(ascii: "-"), UInt8(ascii: " ")]) { line = line.dropFirst(2) }
        let isEscaped = line.first == UInt8(ascii: "\\")
        if isEscaped { line = line.dropFirst() }
        guard let found = Self.tagged(line) ?? Self.plain(line) else { return nil }
        guard !found.path.isEmpty else {
            self = .digest(found.checksum)
            return
        }
        guard let path = isEscaped ? Self.unescaped(found.path) : Array(found.path) else { return nil }
        self = .entry(path: path, found.checksum)
    }

    /// Parses digits, a space, a second space or an asterisk (binary mode), and the path.
    private static func plain(_ line: ArraySlice<UInt8>) -> (path: ArraySlice<UInt8>, checksum: Checksum)? {
        let digits = line.prefix(while: ASCII.isHexadecimal)
        guard let algorithm = ChecksumAlgorithm(digestLength: digits.count / 2),
            let checksum = checksum(algorithm, digits)
        else { return nil }
        var path = line[digits.endIndex...]
        if ASCII.trimmed(path).isEmpty { return (path.prefix(0), checksum) }
        guard let separator = path.popFirst(), HTTPSyntax.isOptionalWhitespace(separator) else { return nil }
        if path.first == UInt8(ascii: " ") || path.first == UInt8(ascii: "*") { path = path.dropFirst() }
        return path.isEmpty ? nil : (path, checksum)
    }

    /// Parses the algorithm, the path in parentheses, an equals sign, and the digits. The path may contain parentheses.
    private static func tagged(_ line: ArraySlice<UInt8>) -> (path: ArraySlice<UInt8>, checksum: Checksum)? {
        guard let open = line.firstIndex(of: UInt8(ascii: "(")), let close = line.lastIndex(of: UInt8(ascii: ")")),
            open + 1 < close,
            let algorithm = ChecksumAlgorithm(name: String(decoding: ASCII.trimmed(line[..<open]), as: UTF8.self))
        else { return nil }
        let rest = ASCII.trimmed(line[(close + 1)...])
        guard rest.first == UInt8(ascii: "="), let checksum = checksum(algorithm, ASCII.trimmed(rest.dropFirst())) else {
            return nil
        }
        return (line[(open + 1)..<close], checksum)
    }

    private static func checksum(_ algorithm: ChecksumAlgorithm, _ digits: ArraySlice<UInt8>) -> Checksum? {
        HexadecimalDigits.bytes(of: digits).flatMap { try? Checksum(algorithm, digest: $0) }
    }

    /// Unescapes the path of a line that begins with a backslash; nil for an escape sequence that coreutils does not
    /// write.
    private static func unescaped(_ path: ArraySlice<UInt8>) -> [UInt8]? {
        var result: [UInt8] = []
        var rest = path
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\") else {
                result.append(byte)
                continue
            }
            switch rest.popFirst() {
            case UInt8(ascii: "\\"): result.append(UInt8(ascii: "\\"))
            case UInt8(ascii: "n"): result.append(UInt8(ascii: "\n"))
            case UInt8(ascii: "r"): result.append(UInt8(ascii: "\r"))
            default: return nil
            }
        }
        return result
    }
}
