import ConvoyDownloads
import ConvoySecurity
import ConvoyTestSupport
import Foundation
import Testing

struct ChecksumFileTests {
    private static func checksum(_ algorithm: ChecksumAlgorithm, of text: String) throws -> Checksum {
        let digest = MessageDigest(algorithm)
        digest.update(Data(text.utf8))
        return try #require(Checksum(of: digest))
    }

    private static func digits(_ algorithm: ChecksumAlgorithm, of text: String) throws -> String {
        try checksum(algorithm, of: text).hexadecimal
    }

    private static let names = [
        "plain.txt", "with space", " leading and trailing ", "new\nline", "back\\slash", "line\r", "(a) = (b)", "*star",
        "ünï.txt", "u\u{308}", "dir/inner.txt", "-dash", "#hash",
    ]

    @Test(arguments: [
        ("sha256sum", ChecksumAlgorithm.sha256), ("sha512sum", .sha512), ("sha1sum", .sha1), ("md5sum", .md5),
    ])
    func `coreutils checksum files are parsed with any file names`(
        _ program: String, _ algorithm: ChecksumAlgorithm
    ) throws {
        let directory = try TemporaryDirectory()
        for name in Self.names { try directory.write(Data(name.utf8), to: name) }
        for option in [["--text"], ["--binary"], ["--tag"]] {
            let result = try ProcessRunner.run(program, option + ["--"] + Self.names, directory: directory.url)
            try #require(result.status == 0, "\(result.errorText)")
            let file = try ChecksumFile(parsing: result.output)
            #expect(file.entries.map(\.name) == Self.names)
            for name in Self.names {
                #expect(
                    try file.checksum(forFileNamed: name) == Self.checksum(algorithm, of: name),
                    "\(option) \(name.debugDescription)")
            }
        }
    }

    @Test func `the output of openssl dgst is parsed`() throws {
        let directory = try TemporaryDirectory()
        try directory.write(Data("abc".utf8), to: "a b.txt")
        for (option, algorithm) in [("-sha256", ChecksumAlgorithm.sha256), ("-md5", .md5), ("-sha512", .sha512)] {
            let output = try ProcessRunner.run("openssl", ["dgst", option, "a b.txt"], directory: directory.url).output
            let file = try ChecksumFile(parsing: output)
            #expect(try file.checksum(forFileNamed: "a b.txt") == Self.checksum(algorithm, of: "abc"))
        }
    }

    @Test func `comments, invalid lines and signatures are skipped, and CRLF line endings are accepted`() throws {
        let digits = try Self.digits(.sha256, of: "abc")
        let text = """
            \u{FEFF}-----BEGIN PGP SIGNED MESSAGE-----
            Hash: SHA256

            # \(digits)  comment.iso
            ; comment

            \(digits.uppercased()) *one.iso\r
            - \(digits)  two.iso\r
            not a checksum
            \(digits.dropLast())  short.iso
            \(digits)0  long.iso
            \(digits)x  glued.iso
            \\\(digits)  bad\\escape.iso
            SHA3-256 (three.iso) = \(digits)
            SHA256 (short2.iso) = \(digits.dropLast(2))
            SHA256 () = \(digits)
            -----BEGIN PGP SIGNATURE-----

            iQIzBAEBCAAdFiEE
            -----END PGP SIGNATURE-----
            """
        let file = try ChecksumFile(parsing: text)
        #expect(file.entries.map(\.name) == ["one.iso", "two.iso"])
        #expect(file.checksum(forFileNamed: "one.iso")?.hexadecimal == digits)
        #expect(file.checksum(forFileNamed: "three.iso") == nil)
    }

    @Test func `a tab can separate the name, and the last line needs no newline`() throws {
        let digits = try Self.digits(.sha1, of: "abc")
        let file = try ChecksumFile(parsing: "\(digits)\ttab.txt\n\(digits)  last.txt")
        #expect(file.entries.map(\.name) == ["tab.txt", "last.txt"])
        #expect(try file.checksum(forFileNamed: "last.txt") == Self.checksum(.sha1, of: "abc"))
    }

    @Test func `a match of the full path takes precedence over a match of the last component`() throws {
        let (one, two) = (try Self.checksum(.sha256, of: "1"), try Self.checksum(.sha256, of: "2"))
        let file = try ChecksumFile(
            parsing: """
                \(one.hexadecimal)  a/name
                \(two.hexadecimal)  b/name
                \(one.hexadecimal)  ./here
                \(two.hexadecimal)  c/here
                \(one.hexadecimal)  d/same
                \(one.hexadecimal)  e/same
                \(two.hexadecimal)  f/only
                """)
        #expect(file.checksum(forFileNamed: "a/name") == one)
        #expect(file.checksum(forFileNamed: "./b/name") == two)
        #expect(file.checksum(forFileNamed: "name") == nil, "the name is ambiguous")
        #expect(file.checksum(forFileNamed: "x/name") == nil)
        #expect(file.checksum(forFileNamed: "here") == one)
        #expect(file.checksum(forFileNamed: "c/here") == two)
        #expect(file.checksum(forFileNamed: "same") == one)
        #expect(file.checksum(forFileNamed: "only") == two)
        #expect(file.checksum(forFileNamed: "/mirror/only") == two)
        #expect(file.checksum(forFileNamed: "nly") == nil)
        #expect(file.checksum(forFileNamed: "") == nil)
    }

    @Test func `file names are compared byte by byte`() throws {
        let (composed, decomposed) = (try Self.checksum(.sha256, of: "1"), try Self.checksum(.sha256, of: "2"))
        let file = try ChecksumFile(
            parsing: "\(composed.hexadecimal)  \u{FC}\n\(decomposed.hexadecimal)  u\u{308}\n")
        #expect(file.checksum(forFileNamed: "\u{FC}") == composed)
        #expect(file.checksum(forFileNamed: "u\u{308}") == decomposed)
        let latin1 = Data("\(composed.hexadecimal)  ".utf8) + [0xFC]
        #expect(try ChecksumFile(parsing: latin1).checksum(forFileNamed: "\u{FC}") == nil)
        #expect(try ChecksumFile(parsing: latin1).entries.map(\.name) == ["\u{FC}"])
    }

    @Test func `the strongest algorithm is used, and contradictory digests yield no checksum`() throws {
        let (md5, sha256) = (try Self.checksum(.md5, of: "1"), try Self.checksum(.sha256, of: "1"))
        let other = try Self.checksum(.sha256, of: "2")
        let both = "MD5 (f) = \(md5.hexadecimal)\nSHA256 (f) = \(sha256.hexadecimal)\n"
        #expect(try ChecksumFile(parsing: both).checksum(forFileNamed: "f") == sha256)
        let twice = both + "\(sha256.hexadecimal) *f\n"
        #expect(try ChecksumFile(parsing: twice).checksum(forFileNamed: "f") == sha256)
        let contradiction = both + "\(other.hexadecimal)  f\n"
        #expect(try ChecksumFile(parsing: contradiction).checksum(forFileNamed: "f") == nil)
    }

    @Test func `a single digest without a name applies to any file`() throws {
        let (one, two) = (try Self.checksum(.sha256, of: "1"), try Self.checksum(.sha256, of: "2"))
        #expect(try ChecksumFile(parsing: "\(one.hexadecimal)\r\n").checksum(forFileNamed: "any") == one)
        #expect(throws: ChecksumError.noChecksums) {
            try ChecksumFile(parsing: "\(one.hexadecimal)\n\(two.hexadecimal)\n")
        }
        let mixed = try ChecksumFile(parsing: "\(one.hexadecimal)\n\(two.hexadecimal)  named\n")
        #expect(mixed.checksum(forFileNamed: "any") == nil)
        #expect(mixed.checksum(forFileNamed: "named") == two)
    }

    @Test(arguments: ["", "\n\n", "<html>404</html>", "SHA256 (a) = xyz", "- ", "\\", "(", ")("])
    func `a file without checksums throws an error`(_ text: String) {
        #expect(throws: ChecksumError.noChecksums) { try ChecksumFile(parsing: text) }
    }

    @Test func `a checksum file larger than the limit throws an error`() throws {
        let line = try "\(Self.digits(.sha256, of: "1"))  f\n"
        let filler = Data(count: ChecksumFile.maximumLength - line.utf8.count)
        #expect(throws: ChecksumError.fileTooLarge(limit: 10 << 20)) {
            try ChecksumFile(parsing: Data(line.utf8) + filler + [0])
        }
        #expect(try ChecksumFile(parsing: Data(line.utf8) + filler).entries.count == 1)
    }

    @Test func `random damage never crashes the parser or yields a digest that is not in the file`() throws {
        var random = SplitMix64.printingSeed()
        let (one, two) = (try Self.digits(.sha256, of: "1"), try Self.digits(.md5, of: "2"))
        let text = Array("\(one)  a\\b (c)\r\n\\SHA256 (x\\n) = \(one)\nMD5(y)= \(two)\n- \(two) *z\n".utf8)
        for _ in 0..<3000 {
            var damaged = text
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                guard !damaged.isEmpty else { break }
                let place = Int.random(in: 0..<damaged.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: damaged[place] = UInt8.random(in: 0...255, using: &random)
                case 1: damaged.remove(at: place)
                case 2: damaged.insert(Array("()=\\ \n*-a".utf8).randomElement(using: &random) ?? 0, at: place)
                default: damaged.removeSubrange(place...)
                }
            }
            let lowercase = String(decoding: damaged, as: UTF8.self).lowercased()
            guard let file = try? ChecksumFile(parsing: Data(damaged)) else { continue }
            for entry in file.entries {
                #expect(lowercase.contains(entry.checksum.hexadecimal))
                #expect(entry.checksum.digest.count == entry.checksum.algorithm.digestLength)
            }
        }
    }
}
