import ConvoySecurity
import Foundation
import Testing

@testable import ConvoyDownloads

struct ChecksumTests {
    private static let digits: [ChecksumAlgorithm: String] = [
        .md5: "900150983cd24fb0d6963f7d28e17f72",
        .sha1: "a9993e364706816aba3e25717850c26c9cd0d89d",
        .sha224: "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
        .sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        .sha384: "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed"
            + "8086072ba1e7cc2358baeca134c825a7",
        .sha512: "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
            + "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
    ]

    @Test(arguments: ChecksumAlgorithm.allCases)
    func `checksums are parsed in all common notations`(_ algorithm: ChecksumAlgorithm) throws {
        let digits = try #require(Self.digits[algorithm])
        let checksum = try Checksum(algorithm, hexadecimal: digits)
        let name = algorithm.rawValue
        let forms = [
            digits, digits.uppercased(), "  \(digits)\r\n", "\(name)=\(digits)", "\(name):\(digits.uppercased())",
            " \(name.uppercased()) = \(digits) ", "\(name.filter { $0 != "-" }):\(digits)", checksum.description,
        ]
        for form in forms {
            #expect(try Checksum(parsing: form) == checksum, "\(form)")
        }
        #expect(checksum.hexadecimal == digits)
        #expect(try Checksum(algorithm, digest: checksum.digest) == checksum)
    }

    @Test(arguments: ChecksumAlgorithm.allCases)
    func `a digest matches only the checksum of the same bytes`(_ algorithm: ChecksumAlgorithm) throws {
        let digest = MessageDigest(algorithm)
        digest.update(Data("ab".utf8))
        let expected = try Checksum(algorithm, hexadecimal: try #require(Self.digits[algorithm]))
        #expect(Checksum(of: digest) != expected)
        digest.update(Data("c".utf8))
        #expect(Checksum(of: digest) == expected)
    }

    @Test func `invalid checksums throw an error with the reason`() {
        let sha256 = Self.digits[.sha256] ?? ""
        let refused: [(String, ChecksumError)] = [
            ("", .unknownLength(digits: 0)), ("abc", .unknownLength(digits: 3)), ("sha-256", .notHexadecimal("sha-256")),
            (String(sha256.dropLast()), .unknownLength(digits: 63)), (sha256 + " x", .notHexadecimal(sha256 + " x")),
            ("sha-256=", .wrongLength(.sha256, digits: 0)), ("sha-256=abc", .wrongLength(.sha256, digits: 3)),
            ("sha-256=abcd", .wrongLength(.sha256, digits: 4)), ("md5=" + sha256, .wrongLength(.md5, digits: 64)),
            ("sha-256=\(sha256.dropLast())g", .notHexadecimal("\(sha256.dropLast())g")),
            (
                "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:",
                .notHexadecimal(":ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:")
            ),
            ("crc32=00000000", .unknownAlgorithm("crc32")), ("=\(sha256)", .unknownAlgorithm("")),
            ("sha\u{301}-256=\(sha256)", .unknownAlgorithm("sha\u{301}-256")),
            // Digits of other scripts are not accepted.
            (String(repeating: "٣", count: 64), .notHexadecimal(String(repeating: "٣", count: 64))),
        ]
        for (text, error) in refused {
            #expect(throws: error, "\(text)") { try Checksum(parsing: text) }
        }
        #expect(throws: ChecksumError.wrongLength(.sha1, digits: 32)) { try Checksum(.sha1, digest: Data(count: 16)) }
    }

    @Test func `error descriptions are short and list the supported algorithms`() {
        let long = ChecksumError.unknownAlgorithm(String(repeating: "x", count: 1_000_000))
        #expect(long.description.utf8.count < 400)
        #expect(long.localizedDescription.hasSuffix("md5, sha-1, sha-224, sha-256, sha-384, sha-512."))
        #expect(
            ChecksumError.wrongLength(.sha256, digits: 40).description
                == "A sha-256 digest has 64 hexadecimal digits, not 40.")
    }

    @Test(
        arguments: [
            (1000, 1, 1...1000), (1000, 3, 2001...3000), (.max, 1, 1 ... .max), (.max - 1, 2, .max ... .max),
            (.max / 2, 3, .max ... .max), (.max, 2, .max ... .max),
        ] as [(Int64, Int, ClosedRange<Int64>)])
    func `piece checksums determine the range of possible file lengths`(
        length: Int64, count: Int, lengths: ClosedRange<Int64>
    ) throws {
        let checksum = try Checksum(.sha256, hexadecimal: String(repeating: "0", count: 64))
        let pieces = try #require(PieceChecksums(length: length, checksums: Array(repeating: checksum, count: count)))
        #expect(pieces.lengths == lengths)
    }
}
