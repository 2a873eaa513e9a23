import ConvoyDownloads
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import Testing

struct MirrorLinksTests {
    private func links(_ lines: String..., url: String = "https://origin.example/dir/file.iso") throws -> MirrorLinks {
        let head = ResponseHead(
            url: try #require(URL(string: url)), statusCode: 200, headers: lines.map { ("Link", $0) })
        return MirrorLinks(head)
    }

    @Test func `the example in RFC 6249 is parsed`() throws {
        let links = try links(
            "<http://www2.example.com/example.ext>; rel=duplicate; pri=2; pref",
            "<ftp://ftp.example.com/example.ext>; rel=duplicate",
            "<http://example.com/example.ext.torrent>; rel=describedby; type=\"application/x-bittorrent\"",
            "<http://example.com/example.ext.meta4>; rel=describedby; type=\"application/metalink4+xml\"",
            "<https://www3.example.com/example.ext>; rel=duplicate; pri=1; geo=DE",
            "<http://example.com/example.ext.asc>; rel=describedby; type=\"application/pgp-signature\"")
        #expect(
            links.mirrors == [
                DownloadMirror(
                    url: try #require(URL(string: "https://www3.example.com/example.ext")), priority: 1, location: "de"),
                DownloadMirror(url: try #require(URL(string: "http://www2.example.com/example.ext")), priority: 2),
            ])
        #expect(links.metalinks.map(\.absoluteString) == ["http://example.com/example.ext.meta4"])
    }

    @Test func `one field can contain several links, and relative references are resolved`() throws {
        let links = try links(
            ", <other.iso>;rel=\"duplicate\",</root, x>; title=\"a, <b>; \\\" rel=x\" ; REL=Duplicate ,<//h2/y>; rel = "
                + "\"next duplicate\";pri = \"7\" ,<?q>;rel=duplicate;rel=next")
        #expect(
            links.mirrors.map(\.url.absoluteString) == [
                "https://h2/y", "https://origin.example/dir/other.iso", "https://origin.example/root,%20x",
                "https://origin.example/dir/file.iso?q",
            ])
        #expect(links.mirrors.first?.priority == 7)
    }

    @Test(arguments: [
        "", ",", "<", "<>", "<http://h/a", "http://h/a; rel=duplicate", "<http://h/a>", "<http://h/a>; rel",
        "<http://h/a>; rel=duplicates", "<http://h/a> rel=duplicate", "<http://h/a>; rel=next; rel=duplicate",
        "<http://h/a>; rel=\"next,duplicate\"", "<ftp://h/a>; rel=duplicate", "<file:///etc/passwd>; rel=duplicate",
        "<http://user:secret@h/a>; rel=duplicate", "<http://h/a>; rel=duplicate; anchor=\"/other\"",
        "<http:///a>; rel=duplicate", "<http://h:99999/a>; rel=duplicate", "<javascript:x>; rel=duplicate",
        "<http://h/a.meta4>; rel=describedby", "<http://h/a.meta4>; rel=describedby; type=text/html",
        "<http://h/a>; rel\u{301}=duplicate",
    ])
    func `unusable links are skipped, and the next one is parsed`(_ text: String) throws {
        let own = try links(text)
        #expect(own.mirrors.isEmpty, "\(own.mirrors)")
        #expect(own.metalinks.isEmpty)
        let followed = try links(text, "<http://next/>; rel=duplicate")
        #expect(followed.mirrors.map(\.url.absoluteString).contains("http://next/"))
    }

    @Test(
        arguments: [
            ("0", nil), ("-1", nil), ("1", 1), ("999999", 999_999), ("1000000", nil), ("", nil), ("1.5", nil),
            ("99999999999999999999", nil), ("+3", nil), ("٣", nil), ("0012", 12),
        ] as [(String, Int?)])
    func `priorities outside 1 to 999,999 are ignored`(_ text: String, _ priority: Int?) throws {
        let links = try links("<http://h/a>; rel=duplicate; pri=\(text)")
        #expect(links.mirrors.map(\.priority) == [priority])
    }

    @Test func `mirrors are sorted by priority, then by order of appearance, without duplicates`() throws {
        let links = try links(
            "<http://a/>; rel=duplicate", "<http://b/>; rel=duplicate; pri=5", "<http://c/>; rel=duplicate; pri=1",
            "<http://d/>; rel=duplicate; pri=5", "<http://e/>; rel=duplicate", "<http://c/>; rel=duplicate; pri=3",
            "<http://f/>; rel=duplicate; pri=999999")
        #expect(
            links.mirrors.map(\.url.absoluteString) == [
                "http://c/", "http://b/", "http://d/", "http://f/", "http://a/", "http://e/",
            ])
    }

    @Test func `the 64 mirrors with the best priorities are kept`() throws {
        let many = (0..<5000).map { "<http://h/\($0)>; rel=duplicate; pri=\(5000 - $0)" }.joined(separator: ", ")
        let links = try links(many)
        #expect(links.mirrors.count == MirrorLinks.limit)
        #expect(links.mirrors.map(\.priority) == (1...64).map { $0 })
    }

    @Test func `random damage never yields a URL that is not HTTP or HTTPS`() throws {
        var random = SplitMix64.printingSeed()
        let text = Array(
            "<http://h/a>; rel=\"duplicate x\"; pri=1; t=\"\\\"\", <b>; rel=duplicate; geo=de , <../c>;rel=duplicate".utf8)
        for _ in 0..<3000 {
            var damaged = text
            for _ in 0..<Int.random(in: 1...4, using: &random) where !damaged.isEmpty {
                let place = Int.random(in: 0..<damaged.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: damaged[place] = UInt8.random(in: 0x20...0x7E, using: &random)
                case 1: damaged.remove(at: place)
                default: damaged.insert(Array("<>;,=\"\\ ".utf8).randomElement(using: &random) ?? 0, at: place)
                }
            }
            for mirror in try links(String(decoding: damaged, as: UTF8.self)).mirrors {
                #expect(["http", "https"].contains(mirror.url.scheme?.lowercased()))
                #expect(mirror.url.host?.isEmpty == false)
            }
        }
    }
}
