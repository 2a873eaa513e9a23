import ConvoyDownloads
import ConvoySecurity
import ConvoyTransport
import Foundation
import Testing

struct ServerDigestsTests {
    private static func digest(_ algorithm: ChecksumAlgorithm, of text: String = "abc") -> Data {
        let digest = MessageDigest(algorithm)
        digest.update(Data(text.utf8))
        return digest.value() ?? Data()
    }

    private static func base64(_ algorithm: ChecksumAlgorithm, of text: String = "abc") -> String {
        digest(algorithm, of: text).base64EncodedString()
    }

    private static func checksums(_ headers: [(String, String)], status: Int = 200) throws -> [Checksum] {
        let url = try #require(URL(string: "http://example.com/file"))
        return ServerDigests.checksums(in: ResponseHead(url: url, statusCode: status, headers: headers))
    }

    private static func expected(_ algorithms: ChecksumAlgorithm...) throws -> [Checksum] {
        try algorithms.map { try Checksum($0, digest: digest($0)) }
    }

    @Test func `digest fields of RFC 9530 and RFC 3230 are parsed, strongest algorithm first`() throws {
        let (md5, sha1, sha256, sha512) = (
            Self.base64(.md5), Self.base64(.sha1), Self.base64(.sha256), Self.base64(.sha512)
        )
        let found: [([(String, String)], [ChecksumAlgorithm])] = [
            ([("Repr-Digest", "sha-256=:\(sha256):")], [.sha256]),
            ([("repr-digest", "sha-256=:\(sha256):, sha-512=:\(sha512):")], [.sha512, .sha256]),
            ([("Repr-Digest", "sha-256=:\(sha256):;x=\"a,b\" ,\tmd5=:\(md5): ; y")], [.sha256, .md5]),
            ([("Repr-Digest", "a=\"sha-256=:x:, \\\"\", sha-256=:\(sha256):")], [.sha256]),
            ([("Repr-Digest", "unixsum=:AAAA:, b=?1, c, sha=:\(sha1):")], [.sha1]),
            ([("Repr-Digest", "sha-256=:\(sha256.filter { $0 != "=" }):")], [.sha256]),
            ([("Repr-Digest", "sha-256=:\(sha256):"), ("Repr-Digest", "md5=:\(md5):")], [.sha256, .md5]),
            ([("Content-Digest", "sha-512=:\(sha512):")], [.sha512]),
            ([("Digest", "SHA-256=\(sha256)")], [.sha256]),
            ([("Digest", "md5=\(md5),SHA=\(sha1), sha-512=\(sha512)")], [.sha512, .sha1, .md5]),
            ([("Digest", "UNIXsum=30637, SHA-256=\(sha256)")], [.sha256]),
            ([("Content-MD5", md5)], [.md5]),
            ([("Content-MD5", md5), ("Digest", "SHA-256=\(sha256)")], [.sha256, .md5]),
        ]
        for (headers, algorithms) in found {
            let expected = try algorithms.map { try Checksum($0, digest: Self.digest($0)) }
            #expect(try Self.checksums(headers) == expected, "\(headers)")
        }
    }

    @Test func `malformed digests are skipped, and the valid ones are used`() throws {
        let (md5, sha256) = (Self.base64(.md5), Self.base64(.sha256))
        let malformed = [
            "", ",", "=", "sha-256", "sha-256=", "sha-256=:", "sha-256=::", "sha-256=\(sha256)", "sha-256=:\(sha256)",
            "sha-256=:\(sha256):x", "sha-256=:\(md5):", "sha-256=:\(Self.digest(.sha256).hexadecimalString):",
            "sha-256=: \(sha256):", "sha-256=:\(sha256.dropLast(5)):", "sha-256=:\(sha256)\(sha256):",
            "sha-256 =:\(sha256):", "sha-256=:!\(sha256.dropFirst()):", "=:\(sha256):", "sha-256=\":\(sha256):\"",
        ]
        for value in malformed {
            #expect(try Self.checksums([("Repr-Digest", value)]).isEmpty, "\(value)")
            #expect(
                try Self.checksums([("Repr-Digest", "\(value), md5=:\(md5):")]) == Self.expected(.md5), "\(value)")
        }
        for value in ["SHA-256=:\(sha256):", "SHA-256=\(md5)", "SHA-256==\(sha256)", "SHA-256", "\(sha256)"] {
            #expect(try Self.checksums([("Digest", value)]).isEmpty, "\(value)")
        }
        for value in ["", "\(sha256)", ":\(md5):", "\(md5) \(md5)"] {
            #expect(try Self.checksums([("Content-MD5", value)]).isEmpty, "\(value)")
        }
    }

    @Test func `the newest standard takes precedence among contradictory fields`() throws {
        let (right, wrong) = (Self.base64(.sha256), Self.base64(.sha256, of: "other"))
        let fields: [[(String, String)]] = [
            [("Digest", "SHA-256=\(wrong)"), ("Repr-Digest", "sha-256=:\(right):")],
            [("Content-Digest", "sha-256=:\(wrong):"), ("Repr-Digest", "sha-256=:\(right):")],
            // The last value is used (RFC 8941, section 4.2.2).
            [("Repr-Digest", "sha-256=:\(wrong):, sha-256=:\(right):")],
            [("Digest", "SHA-256=\(right), sha256=\(wrong)")],
        ]
        for headers in fields { #expect(try Self.checksums(headers) == Self.expected(.sha256), "\(headers)") }
    }

    @Test func `only digests of the complete file are used`() throws {
        let (md5, sha256) = (Self.base64(.md5), Self.base64(.sha256))
        let whole = [("Repr-Digest", "sha-256=:\(sha256):"), ("Digest", "MD5=\(md5)")]
        #expect(try Self.checksums(whole, status: 206) == Self.expected(.sha256, .md5))
        let part = [("Content-Digest", "sha-256=:\(sha256):"), ("Content-MD5", md5)]
        #expect(try Self.checksums(part, status: 206).isEmpty)
        #expect(try Self.checksums(part) == Self.expected(.sha256, .md5))
        for status in [203, 204, 304, 404, 500] {
            #expect(try Self.checksums(whole + part, status: status).isEmpty)
        }
        let encoded = whole + part + [("Content-Encoding", "gzip")]
        #expect(try Self.checksums(encoded).isEmpty, "the digests are those of the encoded bytes")
    }
}
