import ConvoyDownloads
import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

struct ContentDispositionTests {
    @Test(arguments: [
        ("attachment; filename=plain.txt", "plain.txt"), ("attachment;filename=\"a;b.txt\"", "a;b.txt"),
        ("attachment; filename=\"a \\\"b\\\" \\\\ c\"", "a \"b\" \\ c"), ("inline; FileName=x", "x"),
        ("attachment; filename=old; filename*=UTF-8''%e2%82%ac", "€"),
        ("attachment; filename*=iso-8859-1'en'%A3; filename=old", "£"),
        ("attachment; filename*=UTF-8''a b(1).txt", "a b(1).txt"), ("attachment; filename*=UTF-8''é", "é"),
        ("attachment; filename=\"=?utf-8?Q?a?=\"", "=?utf-8?Q?a?="), ("attachment; filename=\"a%20b\"", "a%20b"),
        ("attachment; filename = \"a\" ; x", "a"), ("attachment\t;\tfilename\t=\ta", "a"),
    ])
    func `file names are parsed as browsers parse them`(_ field: String, _ name: String) {
        #expect(ContentDisposition(field).fileName.map { Array($0.utf8) } == Array(name.utf8))
    }

    @Test(arguments: [
        "windows-1252''%80", "UTF-8''%", "UTF-8''%4", "UTF-8''%FF", "UTF-8'%41", "UTF-8", "''a", "UTF-8''",
        "\"UTF-8''a\"", "ISO-8859-1''é", "utf-16''%00a", "",
    ])
    func `an extended value that cannot be decoded falls back to the plain one`(_ value: String) {
        #expect(ContentDisposition("attachment; filename*=\(value); filename=\"plain\"").fileName == "plain")
        #expect(ContentDisposition("attachment; filename=\"plain\"; filename*=\(value)").fileName == "plain")
        #expect(ContentDisposition("attachment; filename*=\(value)").fileName == nil)
    }

    @Test(arguments: [
        "", ";", "attachment", "filename=x", "attachment filename=x", "attachment; filename", "attachment; filename=",
        "attachment; filename=\"\"", "attachment; filename=\"x", "attachment; filename=\"x\\\"", "attachment; xfilename=x",
        "attachment; filename\u{301}=x", "attachment; filename*0=x; filename*1=y", "attachment; x=\"; filename=y\"",
    ])
    func `fields without a valid file name yield nil`(_ field: String) {
        #expect(ContentDisposition(field).fileName == nil)
    }

    // MARK: Test suite

    private struct Case: Decodable {
        struct Expected: Decodable {
            var type: String
            var parameters: [String: String]
        }
        var group: String
        var header: String
        var expected: Expected

        enum Key: CodingKey { case group, header, expected, options }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Key.self)
            group = try container.decode(String.self, forKey: .group)
            // Cases with options concern multipart bodies, or less decoding than RFC 6266 requires.
            let options = try container.decodeIfPresent([String: Bool].self, forKey: .options) ?? [:]
            header = options.isEmpty ? try container.decode(String.self, forKey: .header) : ""
            expected = try container.decode(Expected.self, forKey: .expected)
        }
    }

    /// The cases for which bytes are interpreted differently from the suite: they are valid UTF-8, which servers send,
    /// and RFC 9110, section 5.5, does not define the meaning of non-ASCII bytes.
    private static let utf8Names = [
        "attachment; filename=\"foo-Ã¤.html\"": "foo-ä.html", "attachment; filename=foo-Ã¤.html": "foo-ä.html",
    ]
    /// An empty name is ignored: a recipient need not use an unusable name (RFC 6266, section 4.3).
    private static let emptyNames = ["attachment; filename="]

    @Test(
        .enabled(
            if: ConformanceSuite.directory("content-disposition") != nil,
            Comment(rawValue: ConformanceSuite.hint("content-disposition"))))
    func `the cases of jshttp and TC2231 are parsed as expected`() throws {
        let directory = try #require(ConformanceSuite.directory("content-disposition"))
        let cases = try JSONDecoder().decode(
            [Case].self, from: Data(contentsOf: directory.appendingPathComponent("jshttp.json")))
        var count = 0
        for given in cases where !given.header.isEmpty {
            count += 1
            var expected = given.expected.parameters["filename"]
            if Self.emptyNames.contains(given.header) { expected = nil }
            let parsed = ContentDisposition(given.header)
            #expect(parsed.type == given.expected.type, "\(given.header)")
            #expect(parsed.fileName == expected, "\(given.header)")

            // Restore the bytes as received. The suite's strings are Latin-1, one character per byte, if possible.
            let bytes = given.header.data(using: .isoLatin1).map(Array.init) ?? Array(given.header.utf8)
            let received = ContentDisposition(ASCII.text(bytes[...]))
            #expect(received.fileName == Self.utf8Names[given.header] ?? expected, "\(given.header)")
            if let name = received.fileName, let safe = FileName.safe(name) { FileNameTests.expectSafe(safe) }
        }
        #expect(count == 127)
    }
}
