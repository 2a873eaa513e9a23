import ConvoyTestSupport
import Foundation
import FoundationNetworking
import FoundationXML
import Testing

@testable import ConvoySerialization

@Suite struct XMLResponseSerializerTests {
    private let parser = XMLParserResponseSerializer()
    private let document = XMLDocumentResponseSerializer()

    private func tree(_ data: Data?, type: String = "application/xml", status: Int = 200) throws -> XMLDocument? {
        try document.responseObject(for: response(status, type: type), data: data) as? XMLDocument
    }

    @Test(arguments: ["application/xml", "text/xml"])
    func `well-formed XML becomes a parser or a document`(type: String) throws {
        let body = bytes("<?xml version=\"1.0\"?><a><b>é</b></a>")
        let started = try #require(try parser.responseObject(for: response(200, type: type), data: body) as? XMLParser)
        #expect(started.parse())
        #expect(try tree(body, type: type)?.rootElement()?.stringValue == "é")
    }

    @Test(arguments: [
        "", "<", "<a", "<a>", "<a></b>", "<a/><b/>", "text", "  ", "<a/>x", "<a>&nope;</a>", "<!-- -->",
        "<?xml version=\"1.0\"?>",
    ])
    func `empty and malformed input is an error`(body: String) throws {
        for serializer in [parser, document] as [any URLResponseSerialization] {
            let error = failure {
                try serializer.responseObject(for: response(200, type: "text/xml"), data: bytes(body))
            }
            #expect(error?.domain == XMLParser.errorDomain)
        }
    }

    @Test func `success with nothing`() throws {
        for serializer in [parser, document] as [any URLResponseSerialization] {
            #expect(try serializer.responseObject(for: response(200, type: "text/xml"), data: nil) == nil)
            #expect(try serializer.responseObject(for: response(204), data: Data()) == nil)
            #expect(try serializer.responseObject(for: response(200, type: "text/xml"), data: bytes(" ")) == nil)
        }
    }

    @Test func `another type is an error`() throws {
        #expect(failure { try tree(bytes("<a/>"), type: "text/html") }?.code == -1016)
    }

    @Test func `external entities are never loaded, whatever the options say`() throws {
        let directory = try TemporaryDirectory()
        let secret = try directory.write(bytes("secret"), to: "secret.txt")
        let table = try directory.write(bytes("<!ENTITY e \"secret\">"), to: "table.dtd")
        let bodies = [
            "<!DOCTYPE a [<!ENTITY e SYSTEM \"\(secret.absoluteString)\">]><a>&e;</a>",
            "<!DOCTYPE a [<!ENTITY % p SYSTEM \"\(table.absoluteString)\"> %p;]><a>&e;</a>",
            "<!DOCTYPE a SYSTEM \"\(table.absoluteString)\"><a>&e;</a>",
        ]
        let greedy = XMLDocumentResponseSerializer(options: [
            .nodeLoadExternalEntitiesAlways, .documentValidate, .documentXInclude,
        ])
        for serializer in [document, greedy] {
            for body in bodies {
                let object = try? serializer.responseObject(for: response(200, type: "text/xml"), data: bytes(body))
                #expect(!((object as? XMLDocument)?.xmlString.contains(">secret<") ?? false))
                #expect((object as? XMLDocument)?.rootElement()?.stringValue?.contains("secret") != true)
            }
        }
    }

    @Test(arguments: [
        "<!ENTITY e \"v\">", "<!ATTLIST a b ID #IMPLIED>", "<!ELEMENT a ANY>", "<!NOTATION n PUBLIC \"u\">",
        "<!ENTITY % p SYSTEM \"file:///etc/hostname\"> %p;",
    ])
    func `a document with declarations of its own is an error, in any encoding`(declaration: String) throws {
        let text = "<!DOCTYPE a [\(declaration)]><a/>"
        let wide = try #require(text.data(using: .utf16LittleEndian))
        for serializer in [parser, document] as [any URLResponseSerialization] {
            for (body, type) in [
                (bytes(text), "text/xml"), (wide, "text/xml"), (Data([0xFF, 0xFE]) + wide, "text/xml"),
                (wide, "text/xml; charset=utf-16le"),
            ] {
                let error = failure { try serializer.responseObject(for: response(200, type: type), data: body) }
                #expect(limit(error) == .declarations)
            }
        }
        let hidden = bytes("<?xml version='1.0' encoding='UTF-7'?>+ADwAIQ-DOCTYPE a [+ADwAIQ-ENTITY e 'v'>]><a/>")
        #expect(failure { try tree(hidden) }?.code == XMLParser.ErrorCode.unknownEncodingError.rawValue)
    }

    @Test(arguments: ["<!DOCTYPE a><a/>", "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML\" \"http://w3.org/x.dtd\"><a/>"])
    func `a document type without declarations is read`(body: String) throws {
        #expect(try tree(bytes(body))?.rootElement()?.name == "a")
    }

    @Test(arguments: [
        ("<?x?><a/>", "<?x ?><a/>"), ("<a><?x:y?><?z d?></a>", "<a><?x:y ?><?z d?></a>"),
        ("<!--<?x?>--><a><![CDATA[<?x?>]]><?x?></a>", "<!--<?x?>--><a><![CDATA[<?x?>]]><?x ?></a>"),
        ("<!DOCTYPE a SYSTEM '<!--'><?x?><a/>", "<!DOCTYPE a SYSTEM '<!--'><?x ?><a/>"),
        ("<?xml?><a/>", "<?xml ?><a/>"),
        ("<?<a>\"<?x?>", "<?<a>\"<?x?>"), ("<?", "<?"), ("<??>", "<??>"), ("<!--", "<!--"),
        ("<!DOCTYPE '", "<!DOCTYPE '"), ("", ""),
    ])
    func `an instruction with nothing but a name gets a space, without which the parser crashes`(
        body: String, spaced: String
    ) throws {
        #expect(text(XMLHardening.withSpacedInstructions(bytes(body), everywhere: false)) == spaced)
        _ = try? parser.responseObject(for: nil, data: bytes(body))
        _ = try? document.responseObject(for: nil, data: bytes(body))
    }

    @Test func `an instruction with nothing but a name reaches the parser's delegate`() throws {
        final class Reader: NSObject, XMLParserDelegate {
            var targets: [String] = []
            func parser(_ parser: XMLParser, foundProcessingInstructionWithTarget target: String, data: String?) {
                targets.append(target)
            }
        }
        let object = try parser.responseObject(for: nil, data: bytes("<?x?><a><?y?></a>"))
        let started = try #require(object as? XMLParser)
        let reader = Reader()
        started.delegate = reader
        #expect(started.parse())
        #expect(reader.targets == ["x", "y"])
    }

    @Test func `nesting has a limit, and a tree is never cut in silence`() throws {
        func nested(_ depth: Int) -> Data {
            bytes(String(repeating: "<a>", count: depth) + String(repeating: "</a>", count: depth))
        }
        func depth(_ document: XMLDocument?) -> Int {
            var depth = 0
            var node: XMLNode? = document?.rootElement()
            while let current = node {
                depth += 1
                node = current.children?.first
            }
            return depth
        }
        #expect(depth(try tree(nested(256))) == 256)
        #expect(limit(failure { try tree(nested(257)) }) == .nestingDepth)
        #expect(try parser.responseObject(for: nil, data: nested(512)) is XMLParser)
        #expect(limit(failure { try parser.responseObject(for: nil, data: nested(100_000)) }) == .nestingDepth)
    }

    @Test func `the charset counts where the document declares none`() throws {
        let latin = bytes("<a>") + Data([0xE9]) + bytes("</a>")
        #expect(try tree(latin, type: "text/xml; charset=iso-8859-1")?.rootElement()?.stringValue == "é")
        let declared = bytes("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>") + Data([0xE9]) + bytes("</a>")
        #expect(try tree(declared, type: "text/xml; charset=utf-8")?.rootElement()?.stringValue == "é")
        let wide = try #require("<?xml version=\"1.0\" encoding=\"UTF-16\"?><a>é</a>".data(using: .utf16LittleEndian))
        #expect(try tree(wide, type: "text/xml; charset=utf-16le")?.rootElement()?.stringValue == "é")
        #expect(try tree(Data([0xFF, 0xFE]) + wide)?.rootElement()?.stringValue == "é")
    }

    @Test(arguments: [
        [0x3C, 0xE1, 0, 0x62], [0x3C, 0xE1, 0x3E], [0x3C, 0xC0, 0xAF, 0x2F, 0x3E], [0x3C, 0x61, 0, 0x2F, 0x3E],
    ])
    func `bytes that are no text are an error, where Foundation's parser would crash`(body: [UInt8]) throws {
        for serializer in [parser, document] as [any URLResponseSerialization] {
            for type in ["text/xml", "text/xml; charset=utf-8"] {
                let error = failure { try serializer.responseObject(for: response(200, type: type), data: Data(body)) }
                #expect(error?.domain == XMLParser.errorDomain)
            }
        }
    }

    @Test func `documents in other encodings are read`() throws {
        func element(_ name: String, _ bytes: [UInt8]) throws -> String? {
            let head = Data("<?xml version='1.0' encoding='\(name)'?><a>".utf8)
            return try tree(head + Data(bytes) + Data("</a>".utf8))?.rootElement()?.stringValue
        }
        #expect(try element("GBK", [0xC4, 0xE3]) == "你")
        #expect(try element("Big5", [0xA7, 0x41]) == "你")
        #expect(try element("EUC-KR", [0xB0, 0xA1]) == "가")
        #expect(try element("Shift_JIS", [0x82, 0xA0]) == "あ")
        #expect(try element("KOI8-R", [0xC1]) == "а")
        #expect(try element("ISO-8859-15", [0xA4]) == "€")
        #expect(
            failure { try element("EBCDIC-CP-US", [0x41]) }?.code == XMLParser.ErrorCode.unknownEncodingError.rawValue)
    }

    @Test func `the body of an error response goes with the error`() throws {
        let error = failure { try tree(bytes("<why>gone</why>"), status: 410) }
        #expect(error?.code == -1011)
        #expect((error?.serializedResponseObject as? XMLDocument)?.rootElement()?.stringValue == "gone")
    }

    @Test func `the size has a limit`() throws {
        var document = document
        document.limits.maximumBodySize = 3
        #expect(limit(failure { try document.responseObject(for: nil, data: bytes("<a/>")) }) == .bodySize)
    }
}
