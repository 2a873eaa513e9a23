import ConvoyTestSupport
import Foundation
import FoundationNetworking
import FoundationXML
import Testing

@testable import ConvoySerialization

/// More than 100,000 random bodies, each of which must result in an object, nil, or an error in a known domain, and
/// never in a crash.
@Suite struct RandomBodyTests {
    private struct Bodies {
        var generator: SplitMix64
        let seeds: [[UInt8]]
        let tokens: [[UInt8]]

        init(seed: UInt64, seeds: [Data], tokens: [String]) {
            generator = SplitMix64(seed: seed)
            self.seeds = seeds.map { Array($0) }
            self.tokens = tokens.map { Array($0.utf8) }
        }

        mutating func number(_ range: Range<Int>) -> Int { Int.random(in: range, using: &generator) }

        /// Returns noise, random tokens, or a valid body with a few bytes changed, removed, duplicated or swapped.
        mutating func next() -> Data {
            switch number(0..<8) {
            case 0: return Data((0..<number(0..<40)).map { _ in UInt8(truncatingIfNeeded: generator.next()) })
            case 1, 2: return Data((0..<number(0..<12)).flatMap { _ in tokens[number(0..<tokens.count)] })
            default:
                var body = seeds[number(0..<seeds.count)]
                for _ in 0..<number(0..<4) where !body.isEmpty {
                    let place = number(0..<body.count)
                    switch number(0..<5) {
                    case 0: body[place] = UInt8(truncatingIfNeeded: generator.next())
                    case 1: body.removeSubrange(place...)
                    case 2: body.remove(at: place)
                    case 3: body.insert(contentsOf: tokens[number(0..<tokens.count)], at: place)
                    default: body[place] ^= 1 << UInt8(number(0..<8))
                    }
                }
                return Data(body)
            }
        }
    }

    private static let json = Bodies(
        seed: 1,
        seeds: [
            bytes(#"{"a":[1,2.5e3,true,null,"é\u00e9\n"],"b":{"c":[]}}"#), bytes("[1,[2,[3,[4]]],-0.1]"), bytes(" "),
            bytes("\u{FEFF}[]"), "[\"é\"]".data(using: .utf16LittleEndian) ?? Data(), bytes("{}"),
        ],
        tokens: [
            "[", "]", "{", "}", ",", ":", "\"", "\\", "\\u12", "1", "-", "e", "true", "null", " ", "\"a\"", "\"a\":",
            "\0",
        ])

    private static let xml = Bodies(
        seed: 2,
        seeds: [
            bytes("<?xml version=\"1.0\" encoding=\"UTF-8\"?><a b='c'><d>&amp;é</d><!-- x --><![CDATA[y]]></a>"),
            bytes("<!DOCTYPE a [<!ENTITY e \"v\"><!ENTITY f SYSTEM \"file:///etc/hostname\">]><a>&e;&f;</a>"),
            bytes("<n:a xmlns:n=\"u\"><n:b/><?x?></n:a>"), bytes("<!DOCTYPE a SYSTEM \"u\"><?x y?><a b=\"\"/>"),
            "<a>é</a>".data(using: .utf16LittleEndian) ?? Data(),
        ],
        tokens: [
            "<", ">", "/>", "</", "<a>", "</a>", "&", ";", "&#x0;", "<!--", "-->", "<![CDATA[", "]]>", "<?", "?>",
            "<?x", "<!ATTLIST a b CDATA \"\">",
            "<!DOCTYPE a [", "]>", "é", "\"", "=",
        ])

    private static let lists = Bodies(
        seed: 3,
        seeds: [true, false].map { isBinary in
            let tree: [String: Any] = [
                "a": [1, 2.5, true, "é"] as [Any], "d": Data([1, 2]), "t": Date(timeIntervalSince1970: 5),
            ]
            return
                (try? PropertyListSerialization.data(
                    fromPropertyList: tree, format: isBinary ? .binary : .xml, options: 0)) ?? Data()
        } + [bytes("{a=(1,\"b\",<00ff>);}"), bytes("bplist00")],
        tokens: [
            "<", ">", "<array>", "</array>", "<dict>", "<key>", "<integer>", "1", "{", "}", "(", ")", "=", ";", "\"",
            "bplist00", "\u{1}", "\0",
        ])

    private static let types = [
        "application/json", "text/json; charset=iso-8859-1", "text/json; charset=utf-16", "text/json; charset=x-none",
        "application/xml", "text/xml; charset=utf-16le", "application/x-plist", "text/plain; charset=shift_jis", "",
        "é/\u{1}",
    ]

    private static let domains: Set<String> = [
        URLResponseSerializationErrorDomain, NSCocoaErrorDomain, XMLParser.errorDomain, "Swift.DecodingError",
    ]

    private final class Reader: NSObject, XMLParserDelegate {
        func parser(_ parser: XMLParser, foundProcessingInstructionWithTarget target: String, data: String?) {}
        func parser(_ parser: XMLParser, foundComment comment: String) {}
    }

    /// Uses an accepted object, which must not crash.
    private func use(_ object: Any) -> Bool {
        switch object {
        case let parser as XMLParser:
            let reader = Reader()
            parser.delegate = reader
            // libxml2 only warns about these: a version other than 1.0, an unknown language, a relative namespace name.
            let warnings = [nil, 97, 98, 100]
            return withExtendedLifetime(reader) {
                parser.parse() && warnings.contains((parser.parserError as NSError?)?.code)
            }
        case let document as XMLDocument:
            return document.rootElement() != nil && !document.xmlString.isEmpty
        default: return true
        }
    }

    private func check(_ serializer: some HTTPResponseSerialization, _ bodies: Bodies, count: Int) throws {
        var bodies = bodies
        var serializer = serializer
        serializer.acceptableContentTypes = nil
        let responses = try [200, 200, 200, 204, 404].flatMap { status in
            try Self.types.map { try response(status, type: $0) }
        }
        for number in 0..<count {
            let body = bodies.next()
            let response = responses[bodies.number(0..<responses.count)]
            do {
                let object = try serializer.responseObject(for: response, data: body)
                if let object, !use(object) {
                    Issue.record("body \(number): the parser cannot be used: \(Array(body))")
                    return
                }
                if response.statusCode == 404 {
                    Issue.record("body \(number): a 404 was a success")
                    return
                }
            } catch {
                let error = error as NSError
                if !Self.domains.contains(error.domain) {
                    Issue.record("body \(number): \(error) for \(Array(body))")
                    return
                }
            }
        }
    }

    @Test func `random bodies are parsed as JSON or rejected`() throws {
        try check(JSONResponseSerializer(), Self.json, count: 35_000)
    }

    @Test func `random bodies are parsed as JSON fragments without nulls or rejected`() throws {
        var serializer = JSONResponseSerializer(readingOptions: [.fragmentsAllowed, .mutableContainers])
        serializer.removesKeysWithNullValues = true
        try check(serializer, Self.json, count: 10_000)
    }

    private struct Shape: Codable, Sendable {
        var a: [Double?]?
        var b: [String: [Int]]?
    }

    @Test func `random bodies are decoded as values or rejected`() throws {
        try check(DecodableResponseSerializer(Shape.self), Self.json, count: 20_000)
    }
    @Test func `random bodies are decoded as text or rejected`() throws {
        try check(StringResponseSerializer(), Self.json, count: 15_000)
    }
    @Test func `random bodies become XML parsers or are rejected`() throws {
        try check(XMLParserResponseSerializer(), Self.xml, count: 6_000)
    }
    @Test func `random bodies are parsed as property lists or rejected`() throws {
        try check(PropertyListResponseSerializer(), Self.lists, count: 12_000)
    }
    @Test func `random bodies are returned unchanged as data, or fail for an error status`() throws {
        var bodies = Self.json
        let (good, bad) = (try response(200, type: "application/json"), try response(404, type: "application/json"))
        for _ in 0..<3_000 {
            let body = bodies.next()
            let serializer = HTTPResponseSerializer()
            #expect(try serializer.responseObject(for: good, data: body) as? Data == body)
            #expect(throws: (any Error).self) { try serializer.responseObject(for: bad, data: body) }
        }
    }

    @Test func `random bodies are parsed as XML documents or rejected`() throws {
        try check(XMLDocumentResponseSerializer(), Self.xml, count: 6_000)
    }

    @Test func `random bodies are parsed by one of several serializers or rejected`() throws {
        let serializer = CompoundResponseSerializer([
            JSONResponseSerializer(), XMLDocumentResponseSerializer(), PropertyListResponseSerializer(),
        ])
        try check(serializer, Self.json, count: 3_000)
        try check(serializer, Self.lists, count: 2_000)
    }
}
