import ConvoyDownloads
import ConvoyTestSupport
import Foundation
import Synchronization
import Testing

struct MetalinkAttackTests {
    private func error(_ text: String) -> MetalinkError? {
        do throws(MetalinkError) {
            _ = try MetalinkText.parse(text)
            return nil
        } catch {
            return error
        }
    }

    @Test func `document types are rejected, so entities neither expand nor read files`() throws {
        let directory = try TemporaryDirectory()
        let secret = try directory.write(Data("secret".utf8), to: "secret")
        let laughs = (1..<10).map { "<!ENTITY l\($0) '\(String(repeating: "&l\($0 - 1);", count: 10))'>" }.joined()
        let types = [
            "<!DOCTYPE metalink>", "<!DOCTYPE metalink [<!ENTITY l0 'ha'>\(laughs)]>",
            "<!DOCTYPE metalink [<!ENTITY l9 SYSTEM '\(secret.absoluteString)'>]>",
            "<!DOCTYPE metalink SYSTEM '\(secret.absoluteString)'>",
            "<!DOCTYPE metalink [<!ENTITY % p SYSTEM '\(secret.absoluteString)'> %p;]>",
        ]
        for type in types {
            let text = MetalinkText.file("<size>1</size><url>http://h/&l9;</url>")
                .replacingOccurrences(of: "<metalink ", with: "\(type)<metalink ")
            #expect(error(text) == .documentType(line: 2), "\(type)")
        }
        guard case .malformed? = error(MetalinkText.file("<url>http://h/&unknown;</url>")) else {
            Issue.record("an unknown entity is not well-formed")
            return
        }
    }

    @Test func `empty, foreign and malformed documents are rejected with distinct errors`() {
        let empty: [(String, MetalinkError)] = [
            ("<metalink xmlns='http://www.metalinker.org/' version='3.0'><files/></metalink>", .noFiles),
            ("<metalink version='3.0'><files/></metalink>", .noFiles),
            ("<metalink xmlns='http://www.metalinker.org/'><file name='a'/></metalink>", .noFiles),
            ("<metalink/>", .notMetalink), ("<html/>", .notMetalink),
            ("<metalink xmlns='urn:ietf:params:xml:ns:metalink2'><file name='a'/></metalink>", .notMetalink),
            ("<file xmlns='urn:ietf:params:xml:ns:metalink' name='a'/>", .notMetalink),
            (MetalinkText.document(""), .noFiles),
            (MetalinkText.document("<file xmlns='' name='a'/><files><file name='a'/></files>"), .noFiles),
        ]
        for (text, expected) in empty { #expect(error(text) == expected, "\(text)") }
        for text in [
            "", " ", "not xml", "<", "\u{0}", "{}", MetalinkText.file("<size>1</siz>"), MetalinkText.file("") + "x",
        ] {
            guard case .malformed(let reason, let line)? = error(text) else {
                Issue.record("\(text.debugDescription): \(String(describing: error(text)))")
                continue
            }
            #expect(!reason.isEmpty && line > 0)
        }
    }

    @Test func `Metalink 3 documents are parsed`() throws {
        let digest = String(repeating: "ab", count: 20)
        let text = """
            <?xml version="1.0" encoding="UTF-8"?>
            <metalink version="3.0" xmlns="http://www.metalinker.org/" type="dynamic">
              <publisher><name>P</name><url>http://publisher.test/</url></publisher>
              <files><file name="a.iso"><size>5</size><version>1</version>
                <verification><hash type="sha1">\(digest)</hash><hash type="crc32">1</hash>
                  <pieces type="sha1" length="4"><hash piece="0">\(digest)</hash><hash piece="1">\(digest)</hash></pieces>
                </verification>
                <resources maxconnections="1">
                  <url type="ftp" preference="100">ftp://a.test/a.iso</url>
                  <url type="http" preference="10" location="de">http://slow.test/a.iso</url>
                  <url type="http" preference="90">http://fast.test/a.iso</url>
                  <url type="bittorrent" preference="100">http://a.test/a.torrent</url>
                </resources></file></files>
            </metalink>
            """
        let file = try #require(try Metalink(parsing: Data(text.utf8)).files.first)
        #expect(file.name == "a.iso" && file.size == 5 && file.checksums.map(\.hexadecimal) == [digest])
        #expect(file.pieces?.checksums.count == 2 && file.pieces?.length == 4)
        #expect(file.mirrors.map(\.url.absoluteString) == ["http://fast.test/a.iso", "http://slow.test/a.iso"])
        #expect(file.mirrors.map(\.location) == [nil, "de"])
        let bytes = Array(text.utf8)
        for count in stride(from: 0, to: bytes.count, by: 7) {
            #expect(throws: MetalinkError.self, "\(count) bytes") { try Metalink(parsing: Data(bytes[..<count])) }
        }
    }

    @Test func `every truncated document throws an error`() throws {
        let bytes = Array(MetalinkText.whole.utf8)
        #expect(try Metalink(parsing: Data(bytes)).files.count == 2)
        for count in 0..<bytes.count {
            #expect(throws: MetalinkError.self, "\(count) bytes") { try Metalink(parsing: Data(bytes[..<count])) }
        }
    }

    @Test func `random damage never causes a crash, an unsafe path or an unsupported URL scheme`() {
        var random = SplitMix64.printingSeed()
        let text = Array(MetalinkText.whole.utf8)
        let parts = [
            "<", ">", "&", "\"", "]]>", "<![CDATA[", "<!--", "-->", "../", "</file>", "<file name='..'>", "&#0;",
            "&#x10FFFF;",
        ]
        var parsed = 0
        for _ in 0..<3000 {
            var damaged = text
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let place = Int.random(in: 0..<damaged.count, using: &random)
                switch Int.random(in: 0..<5, using: &random) {
                case 0: damaged[place] = UInt8.random(in: 0...255, using: &random)
                case 1: damaged[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                case 2: damaged.insert(contentsOf: Array((parts.randomElement(using: &random) ?? "").utf8), at: place)
                case 3: damaged.removeSubrange(place..<min(damaged.count, place + Int.random(in: 1...40, using: &random)))
                default:
                    let length = min(damaged.count - place, Int.random(in: 1...200, using: &random))
                    damaged.insert(contentsOf: Array(damaged[place..<place + length]), at: place)
                }
            }
            guard let metalink = try? Metalink(parsing: Data(damaged)) else { continue }
            parsed += 1
            for file in metalink.files {
                #expect(!file.pathComponents.isEmpty)
                #expect(file.pathComponents.allSatisfy { FileName.safe($0) == $0 })
                #expect((file.size ?? 0) >= 0)
                #expect(file.mirrors.allSatisfy { ["http", "https"].contains($0.url.scheme?.lowercased()) })
                #expect(file.pieces.map { $0.length > 0 && !$0.checksums.isEmpty } ?? true)
            }
        }
        #expect(parsed > 0)
    }

    @Test func `the number of elements is limited`() throws {
        let url = "<url>http://h/</url>"
        #expect(
            try MetalinkText.parse(MetalinkText.file(String(repeating: url, count: 1000))).files[0].mirrors.count == 1)
        #expect(
            error(MetalinkText.file(String(repeating: url, count: 1001))) == .tooMany(element: "url", limit: 1000, line: 3))
        let files = (0...Metalink.maximumFileCount).map { "<file name='\($0)'/>" }.joined(separator: "\n")
        #expect(error(MetalinkText.document(files)) == .tooMany(element: "file", limit: 100_000, line: 100_003))
    }

    @Test func `documents that are too large or too deeply nested are rejected`() {
        let filler = String(repeating: "<x>\(String(repeating: "y", count: 60_000))</x>\n", count: 280)
        #expect(error(MetalinkText.file(filler)) == .tooLarge(limit: 16 << 20))
        #expect(
            error(MetalinkText.file(String(repeating: "<x>", count: 40)))
                == .malformed(reason: "Elements are nested too deeply.", line: 3))
        let long = String(repeating: "y", count: 70_000)
        for elements in [long, "<!--\(long)-->", "<x a='\(long)'/>"] {
            #expect(error(MetalinkText.file("\n" + elements)) == .malformed(reason: "A tag or text is too long.", line: 4))
        }
        let digits = String(repeating: "0", count: 9000)
        #expect(
            error(MetalinkText.file("<size>\(digits)1</size>"))
                == .invalidValue(element: "text", value: String(digits.prefix(100)), line: 3))
    }

    /// libxml2 compares each attribute of an element with every other one. 300,000 of them would take minutes.
    @Test(arguments: ["a", "xmlns:a"]) func `elements with too many attributes are rejected`(_ name: String) throws {
        func elements(_ count: Int) -> String {
            MetalinkText.file("<x\((0..<count).map { " \(name)\($0)='u'" }.joined())/>")
        }
        #expect(try MetalinkText.parse(elements(64)).files.count == 1)
        #expect(error(elements(65)) == .malformed(reason: "An element has too many attributes.", line: 3))
        #expect(error(elements(4000)) == .malformed(reason: "An element has too many attributes.", line: 3))
        #expect(error(elements(300_000)) == .malformed(reason: "A tag or text is too long.", line: 3))
    }

    @Test func `documents can be parsed on many threads concurrently`() {
        let failures = Failures()
        DispatchQueue.concurrentPerform(iterations: 200) { number in
            let files = (try? MetalinkText.parse(MetalinkText.whole))?.files.count
            let refused = try? MetalinkText.parse(String(MetalinkText.whole.dropLast(number + 1)))
            if files != 2 || refused != nil { failures.add() }
        }
        #expect(failures.count == 0)
    }
}

private final class Failures: Sendable {
    private let number = Atomic<Int>(0)
    var count: Int { number.load(ordering: .relaxed) }
    func add() { number.add(1, ordering: .relaxed) }
}
