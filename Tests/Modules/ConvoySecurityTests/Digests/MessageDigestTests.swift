import ConvoySecurity
import Foundation
import Testing

struct MessageDigestTests {
    /// The digests of "abc" in RFC 1321, appendix A.5, and FIPS 180, with its examples.
    private static let abc: [(ChecksumAlgorithm, String)] = [
        (.md5, "900150983cd24fb0d6963f7d28e17f72"),
        (.sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (.sha224, "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
        (.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (.sha384, "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"),
        (
            .sha512,
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
                + "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        ),
    ]

    @Test(arguments: abc)
    func `each algorithm computes the digest of its standard for any division of the bytes`(
        _ algorithm: ChecksumAlgorithm, _ expected: String
    ) throws {
        let digest = MessageDigest(algorithm)
        #expect(digest.algorithm == algorithm)
        #expect(try #require(digest.value()).count == algorithm.digestLength)
        digest.update(Data("a".utf8))
        digest.update(Data())
        _ = digest.value()
        digest.update(Data("bc".utf8))
        #expect(digest.value()?.hexadecimalString == expected)
    }

    @Test func `the default algorithm is SHA-256`() {
        #expect(MessageDigest().algorithm == .sha256)
        #expect(MessageDigest.sha256(Data("abc".utf8))?.hexadecimalString == Self.abc[3].1)
    }

    @Test(arguments: [
        ("sha-256", ChecksumAlgorithm.sha256), ("SHA-256", .sha256), ("sha256", .sha256), ("Sha_256", .sha256),
        ("SHA2-256", .sha256), ("sha-512", .sha512), ("SHA512", .sha512), ("SHA2-512", .sha512), ("sha", .sha1),
        ("sha-224", .sha224), ("SHA384", .sha384),
        ("SHA", .sha1), ("sha-1", .sha1), ("SHA1", .sha1), ("md5", .md5), ("MD-5", .md5),
    ])
    func `an algorithm is recognized by all spellings of its name`(_ name: String, _ algorithm: ChecksumAlgorithm) {
        #expect(ChecksumAlgorithm(name: name) == algorithm)
    }

    @Test(arguments: [
        "", "-", "sha-2", "sha-225", "sha3-256", "sha-512/256", "SHA-256 ", "md4", "crc32",
        "sha-256\u{301}", "ſha-256", "ｓｈａ-256", "----------------sha-256",
    ])
    func `an unknown name has no algorithm`(_ name: String) {
        #expect(ChecksumAlgorithm(name: name) == nil)
    }

    @Test func `algorithms are ordered by strength and recognized by digest length`() {
        #expect(ChecksumAlgorithm.allCases.sorted() == [.md5, .sha1, .sha224, .sha256, .sha384, .sha512])
        #expect([16, 20, 28, 32, 48, 64].map { ChecksumAlgorithm(digestLength: $0) } == ChecksumAlgorithm.allCases)
        #expect([0, -1, 24, 65].allSatisfy { ChecksumAlgorithm(digestLength: $0) == nil })
        for algorithm in ChecksumAlgorithm.allCases { #expect(ChecksumAlgorithm(name: "\(algorithm)") == algorithm) }
    }
}
