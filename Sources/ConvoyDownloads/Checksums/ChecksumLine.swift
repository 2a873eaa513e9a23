import ConvoySecurity
import ConvoySupport

/// A line of a file of checksums.
enum ChecksumLine {
    /// A digest and the path of its file, as bytes.
    case entry(path: [UInt8], Checksum)
    /// A digest without a name.
    case digest(Checksum)

    /// Parses a line without its end; nil for one that has no checksum.
    init?(_ line: ArraySlice<UInt8>) {
        var line = line
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        // In text that is signed with PGP, lines may begin with "- " (RFC 9580, section 7.2).
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

    /// Digits, a space, a second one or an asterisk (which says that the file was read in binary mode), and the path.
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

    /// The algorithm, the path in parentheses, an equals sign, and digits. The path may contain parentheses itself.
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

    /// The path in a line that begins with a backslash; nil for an escape that coreutils does not write.
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
