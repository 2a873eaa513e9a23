import ConvoyDownloads
import ConvoySecurity
import Foundation
import Testing

/// Documents for the tests.
enum MetalinkText {
    static let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    static let md5 = "900150983cd24fb0d6963f7d28e17f72"

    /// Returns a document with the given files.
    static func document(_ files: String) -> String {
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">\n\(files)\n</metalink>\n"
    }

    /// Returns a document with one file that contains the given elements.
    static func file(_ elements: String, name: String = "a.iso") -> String {
        document("<file name=\"\(name)\">\(elements)</file>")
    }

    static func parse(_ text: String) throws(MetalinkError) -> Metalink { try Metalink(parsing: Data(text.utf8)) }

    /// A Metalink with all elements, based on the example in RFC 5854, section 1.1.
    static let whole = """
        <?xml version="1.0" encoding="UTF-8"?>
        <!-- a comment -->
        <metalink xmlns="urn:ietf:params:xml:ns:metalink" xmlns:x="urn:other">
          <generator>Example/1.0</generator>
          <published>2009-05-15T12:23:23Z</published>
          <origin dynamic="true">http://example.com/example.meta4</origin>
          <file name="debian &amp; co/example.iso" x:name="other">
            <identity>Example</identity><version>1.0</version><language>en</language>
            <description><![CDATA[A <b> & so on]]></description>
            <size> 14471447 </size>
            <x:size>1</x:size>
            <hash type="sha-256">\(sha256)</hash>
            <hash type="md5">\(md5.uppercased())</hash>
            <hash type="tiger">zz</hash>
            <pieces length="10000000" type="md5"><hash>\(md5)</hash><hash>\(md5)</hash></pieces>
            <pieces length="8000000" type="sha-256"><hash>\(sha256)</hash>
              <hash>\(sha256)</hash></pieces>
            <pieces length="1" type="sha-3"><hash>00</hash></pieces>
            <signature mediatype="application/pgp-signature">-----BEGIN PGP SIGNATURE-----</signature>
            <url location="de">http://mirror3.example.com/example.iso?a=1&amp;b=2</url>
            <url priority="2" location="US">https://mirror2.example.com/ex%20ample.iso</url>
            <url priority="1">\thttp://mirror1.example.com/<![CDATA[example.iso]]>
            </url>
            <url priority="1">ftp://mirror.example.com/example.iso</url>
            <metaurl mediatype="torrent">http://example.com/example.torrent</metaurl>
          </file>
          <x:file name="not this one"><size>5</size></x:file>
          <file name="second.txt"><url>http://example.com/é</url></file>
        </metalink>
        """
}

struct MetalinkTests {
    @Test func `all elements that a download needs are parsed`() throws {
        let metalink = try MetalinkText.parse(MetalinkText.whole)
        #expect(metalink.files.count == 2)
        let file = try #require(metalink.files.first)
        #expect(file.pathComponents == ["debian & co", "example.iso"])
        #expect(file.name == "example.iso")
        #expect(file.size == 14_471_447)
        #expect(
            try file.checksums == [
                Checksum(.sha256, hexadecimal: MetalinkText.sha256), Checksum(.md5, hexadecimal: MetalinkText.md5),
            ])
        #expect(file.pieces?.algorithm == .sha256)
        #expect(file.pieces?.length == 8_000_000)
        #expect(
            try file.pieces?.checksums == Array(repeating: Checksum(.sha256, hexadecimal: MetalinkText.sha256), count: 2))
        #expect(
            file.mirrors.map(\.url.absoluteString) == [
                "http://mirror1.example.com/example.iso", "https://mirror2.example.com/ex%20ample.iso",
                "http://mirror3.example.com/example.iso?a=1&b=2",
            ])
        #expect(file.mirrors.map(\.priority) == [1, 2, nil])
        #expect(file.mirrors.map(\.location) == [nil, "us", "de"])

        let second = metalink.files[1]
        #expect(second.name == "second.txt" && second.size == nil && second.checksums.isEmpty && second.pieces == nil)
        #expect(second.mirrors.map(\.url.absoluteString) == ["http://example.com/%C3%A9"])
    }

    @Test func `other encodings and namespace prefixes yield the same result`() throws {
        let utf16 = MetalinkText.whole.replacingOccurrences(of: "UTF-8", with: "UTF-16")
        for encoding in [String.Encoding.utf16LittleEndian, .utf16BigEndian] {
            let data = try #require(("\u{FEFF}" + utf16).data(using: encoding))
            #expect(try Metalink(parsing: data) == MetalinkText.parse(MetalinkText.whole))
        }
        let latin1 = MetalinkText.whole.replacingOccurrences(of: "UTF-8", with: "ISO-8859-1")
        #expect(
            try Metalink(parsing: #require(latin1.data(using: .isoLatin1))) == MetalinkText.parse(MetalinkText.whole))
        let all =
            "<m:metalink xmlns:m='urn:ietf:params:xml:ns:metalink'><m:file name='&#60;a&#38;amp;&#x26;&quot;'/></m:metalink>"
        #expect(try MetalinkText.parse(all).files.map(\.name) == ["_a&amp;&_"])
    }

    @Test(arguments: [
        ("a.iso", ["a.iso"]), ("dir/b", ["dir", "b"]), (".hidden/.b", ["_hidden", "_b"]), ("a:b/NUL", ["a_b", "_NUL"]),
        ("...a/-b", ["_a", "_b"]), ("e\u{301}&lt;", ["e\u{301}_"]),
    ])
    func `unsafe path components are sanitized`(_ name: String, _ components: [String]) throws {
        let found = try MetalinkText.parse(MetalinkText.file("", name: name)).files[0].pathComponents
        #expect(found.map { Array($0.utf8) } == components.map { Array($0.utf8) })
    }

    @Test func `names are limited to 4,096 bytes`() throws {
        // Use 16 components of the maximum length on common file systems.
        let longest = Array(repeating: String(repeating: "a", count: 255), count: 16).joined(separator: "/") + "a"
        let found = try MetalinkText.parse(MetalinkText.file("", name: longest)).files[0].pathComponents
        #expect(longest.utf8.count == 4096 && found.count == 16)
        let error = #expect(throws: MetalinkError.self) {
            try MetalinkText.parse(MetalinkText.file("", name: longest + "a"))
        }
        guard case .unsafeName? = error else { return #expect(Bool(false), "\(String(describing: error))") }
    }

    @Test(arguments: [
        "", "/", "/a", "a/", "a//b", ".", "..", "./a", "../a", "a/../b", "a/..", "a/.", "..\\a", "a\\b", "C:\\a", "...",
        "a/ /b", "&#9;", "?", String(repeating: "a/", count: 40) + "a", String(repeating: "a", count: 5000),
    ])
    func `names that point outside the directory are rejected`(_ name: String) {
        let error = #expect(throws: MetalinkError.self) { try MetalinkText.parse(MetalinkText.file("", name: name)) }
        guard case .unsafeName(let shown, line: 3)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(shown.utf8.count <= 100)
    }

    @Test func `mirrors with an invalid priority come last, and those with an invalid URL are skipped`() throws {
        let urls = ["0", "-1", "1000000", "99999999999999999999999", "x", ""].map {
            "<url priority=\"\($0)\">http://h/\($0)</url>"
        }
        let good = "<url priority=\"999999\">http://h/good</url>"
        let bad = ["", "nonsense", "/relative", "file:///etc/passwd", "http://u:p@h/", "http:///x", "http://[/"]
            .map { "<url>\($0)</url>" }
        let file = try MetalinkText.parse(MetalinkText.file((bad + urls + [good]).joined())).files[0]
        #expect(file.mirrors.count == urls.count + 1)
        #expect(file.mirrors.first?.url.absoluteString == "http://h/good")
        #expect(file.mirrors.dropFirst().allSatisfy { $0.priority == nil })
    }

    @Test func `pieces that do not match the file size are rejected`() throws {
        func pieces(_ count: Int, of length: String) -> String {
            "<pieces length=\"\(length)\" type=\"md5\">\(String(repeating: "<hash>\(MetalinkText.md5)</hash>", count: count))</pieces>"
        }
        for (size, count, length) in [
            ("10", 1, "10"), ("10", 2, "9"), ("10", 10, "1"), ("11", 2, "10"), ("1", 1, "9223372036854775807"),
        ] {
            let text = MetalinkText.file(pieces(count, of: length) + "<size>\(size)</size>")
            #expect(try MetalinkText.parse(text).files[0].pieces?.checksums.count == count)
            let unknown = MetalinkText.file(pieces(count, of: length))
            #expect(try MetalinkText.parse(unknown).files[0].pieces?.checksums.count == count)
        }
        #expect(try MetalinkText.parse(MetalinkText.file("<size>0</size>" + pieces(1, of: "5"))).files[0].pieces == nil)
        let wrong: [(String, Int, String, MetalinkError)] = [
            ("10", 1, "9", .wrongPieceCount(found: 1, expected: 2, line: 3)),
            ("10", 3, "5", .wrongPieceCount(found: 3, expected: 2, line: 3)),
            ("0", 2, "5", .wrongPieceCount(found: 2, expected: 0, line: 3)),
            ("9223372036854775807", 1, "1", .wrongPieceCount(found: 1, expected: .max, line: 3)),
            ("10", 0, "5", .wrongPieceCount(found: 0, expected: 1, line: 3)),
            ("10", 1, "0", .invalidValue(element: "pieces", value: "0", line: 3)),
            ("10", 1, "-5", .invalidValue(element: "pieces", value: "-5", line: 3)),
            ("10", 1, "9223372036854775808", .invalidValue(element: "pieces", value: "9223372036854775808", line: 3)),
        ]
        for (size, count, length, error) in wrong {
            #expect(throws: error) {
                try MetalinkText.parse(MetalinkText.file("<size>\(size)</size>" + pieces(count, of: length)))
            }
        }
    }

    @Test func `invalid sizes and hashes are rejected with their line`() {
        let (sha256, md5) = (MetalinkText.sha256, MetalinkText.md5)
        let refused: [(String, MetalinkError)] = [
            ("<size>-1</size>", .invalidValue(element: "size", value: "-1", line: 3)),
            ("\n<size>\n1.5</size>", .invalidValue(element: "size", value: "1.5", line: 5)),
            ("<size></size>", .invalidValue(element: "size", value: "", line: 3)),
            ("<size>9223372036854775808</size>", .invalidValue(element: "size", value: "9223372036854775808", line: 3)),
            ("<size>1</size><size>2</size>", .repeated(element: "size", line: 3)),
            ("<size>1<x/>2</size>", .malformed(reason: "The element x is not allowed inside a value.", line: 3)),
            ("<hash>\(md5)</hash>", .missingAttribute(element: "hash", attribute: "type", line: 3)),
            ("<hash type='md5'>\(sha256)</hash>", .invalidValue(element: "hash", value: sha256, line: 3)),
            ("<hash type='md5'>x</hash>", .invalidValue(element: "hash", value: "x", line: 3)),
            (
                "<hash type='md5'>\(md5)</hash>\n<hash type='MD5'>\(String(md5.reversed()))</hash>",
                .repeated(element: "hash", line: 4)
            ),
            ("<pieces type='md5'/>", .missingAttribute(element: "pieces", attribute: "length", line: 3)),
            ("<pieces length='5'/>", .missingAttribute(element: "pieces", attribute: "type", line: 3)),
            (
                "<pieces length='5' type='md5'><hash>\(sha256)</hash></pieces>",
                .invalidValue(element: "hash", value: sha256, line: 3)
            ),
            (
                String(repeating: "<pieces length='5' type='md5'><hash>\(md5)</hash></pieces>", count: 2),
                .repeated(element: "pieces", line: 3)
            ),
        ]
        for (elements, error) in refused {
            #expect(throws: error, "\(elements)") { try MetalinkText.parse(MetalinkText.file(elements)) }
        }
        #expect(throws: MetalinkError.missingAttribute(element: "file", attribute: "name", line: 3)) {
            try MetalinkText.parse(MetalinkText.document("<file/>"))
        }
        #expect(throws: MetalinkError.repeated(element: "file", line: 4)) {
            try MetalinkText.parse(MetalinkText.document("<file name='a'/>\n<file name='a'/>"))
        }
    }

    @Test func `repeating the same value is not an error`() throws {
        let elements =
            "<size>1</size><size>01</size><hash type='md5'>\(MetalinkText.md5)</hash><hash type='md5'> \(MetalinkText.md5.uppercased())\n</hash>"
        #expect(try MetalinkText.parse(MetalinkText.file(elements)).files[0].checksums.count == 1)
    }
}
