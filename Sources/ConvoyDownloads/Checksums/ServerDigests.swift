import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation

/// The digests that a server announces for a file: `Repr-Digest` and `Content-Digest` (RFC 9530), `Digest` (RFC 3230)
/// and `Content-MD5` (RFC 2616, section 14.15).
package enum ServerDigests {
    /// Returns the checksums of the complete file that the response to a GET request announces, strongest first, at
    /// most one per algorithm. If fields contradict each other, the newest standard takes precedence.
    ///
    /// Unknown and malformed values are skipped, because they do not justify rejecting a download. The result is empty
    /// for
    /// - an encoded response, because its digests are those of the encoded bytes (RFC 9530, section 3.1),
    /// - any status other than 200 and 206, because the body is not the file.
    ///
    /// `Content-Digest` and `Content-MD5` cover only the bytes in this message, so they are used only with the status
    /// 200.
    package static func checksums(in head: ResponseHead) -> [Checksum] {
        guard head.statusCode == 200 || head.statusCode == 206, !head.isEncoded,
            head.hasField("repr-digest", "content-digest", "digest", "content-md5")
        else { return [] }
        var found: [ChecksumAlgorithm: Checksum] = [:]
        func add(_ checksums: [ChecksumAlgorithm: Checksum]) { found.merge(checksums) { first, _ in first } }
        add(structured(head.values(of: "Repr-Digest")))
        if head.statusCode == 200 { add(structured(head.values(of: "Content-Digest"))) }
        add(instanceDigests(head.values(of: "Digest")))
        if head.statusCode == 200, let value = head.values(of: "Content-MD5").first {
            add(checksum(.md5, base64: Array(value.utf8)[...]).map { [.md5: $0] } ?? [:])
        }
        return found.values.sorted { $0.algorithm > $1.algorithm }
    }

    /// Returns the byte sequences in a dictionary (RFC 8941, section 3.2), such as `sha-256=:47DEQp…:`. The last value
    /// of a repeated key is used.
    private static func structured(_ lines: [String]) -> [ChecksumAlgorithm: Checksum] {
        var found: [ChecksumAlgorithm: Checksum] = [:]
        for member in lines.flatMap({ members(of: $0) }) {
            guard let (algorithm, value) = algorithm(of: member), value.first == UInt8(ascii: ":") else { continue }
            let content = value.dropFirst()
            guard let end = content.firstIndex(of: UInt8(ascii: ":")) else { continue }
            // Only parameters may follow; they are ignored.
            guard content[(end + 1)...].first(where: { !HTTPSyntax.isOptionalWhitespace($0) }) ?? semicolon == semicolon,
                let checksum = checksum(algorithm, base64: content[..<end])
            else { continue }
            found[algorithm] = checksum
        }
        return found
    }

    /// Returns the elements of `Digest`, such as `SHA-256=47DEQp…`. The first value of an algorithm is used.
    private static func instanceDigests(_ lines: [String]) -> [ChecksumAlgorithm: Checksum] {
        var found: [ChecksumAlgorithm: Checksum] = [:]
        for member in lines.flatMap({ members(of: $0) }) {
            guard let (algorithm, value) = algorithm(of: member), found[algorithm] == nil else { continue }
            found[algorithm] = checksum(algorithm, base64: value)
        }
        return found
    }

    // MARK: Parts

    private static let semicolon = UInt8(ascii: ";")

    /// Returns the elements of a list, trimmed. Quoted commas do not separate elements.
    private static func members(of line: String) -> [ArraySlice<UInt8>] {
        var rest = Array(line.utf8)[...]
        var members: [ArraySlice<UInt8>] = []
        while true {
            let end = HTTPSyntax.firstSeparator(",", in: rest) ?? rest.endIndex
            members.append(ASCII.trimmed(rest[..<end]))
            guard end < rest.endIndex else { return members }
            rest = rest[(end + 1)...]
        }
    }

    private static func algorithm(of member: ArraySlice<UInt8>) -> (ChecksumAlgorithm, value: ArraySlice<UInt8>)? {
        guard let equals = member.firstIndex(of: UInt8(ascii: "=")),
            let algorithm = ChecksumAlgorithm(name: String(decoding: member[..<equals], as: UTF8.self))
        else { return nil }
        return (algorithm, member[(equals + 1)...])
    }

    /// Decodes a checksum; nil unless the text is the base64 form of a digest of the algorithm's length. The padding
    /// may be missing (RFC 8941, section 4.2.7).
    private static func checksum(_ algorithm: ChecksumAlgorithm, base64: ArraySlice<UInt8>) -> Checksum? {
        guard base64.count <= 2 * algorithm.digestLength else { return nil }
        var digits = base64
        while digits.last == UInt8(ascii: "=") { digits.removeLast() }
        while digits.count % 4 != 0 { digits.append(UInt8(ascii: "=")) }
        guard let digest = Data(base64Encoded: Data(digits)) else { return nil }
        return try? Checksum(algorithm, digest: digest)
    }
}
