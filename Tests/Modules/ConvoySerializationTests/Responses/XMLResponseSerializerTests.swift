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
    func `well-formed XML yields a parser or a document`(type: String) throws {
        let body = bytes("<?xml version=\"1.0\"?><a><b>é</b></a>")
        let started = try #require(try parser.responseObject(for: response(200, type: type), data: body) as? XMLParser)
        #expect(started.parse())
        #expect(try tree(body, type: type)?.rootElement()?.stringValue == "é")
    }

    @Test(arguments: [
        "", "<", "<a", "<a>", "<a></b>", "<a/><b/>", "text", "  ", "<a/>x", "<a>&nope;</a>", "<!-- -->",
        "<?xml version=\"1.0\"?>",
    ])
    func `empty or malformed input is an error`(body: String) throws {
        for serializer in [parser, document] as [any URLResponseSerialization] {
            let error = failure {
                try serializer.responseObject(for: response(200, type: "text/xml"), data: bytes(body))
            }
            #expect(error?.domain == XMLParser.errorDomain)
        }
    }

    @Test func `a response without content succeeds without an object`() throws {
        for serializer in [parser, document] as [any URLResponseSerialization] {
            #expect(try serializer.responseObject(for: response(200, type: "text/xml"), data: nil) == nil)
            #expect(try serializer.responseObject(for: response(204), data: Data()) == nil)
            #expect(try serializer.responseObject(for: response(200, type: "text/xml"), data: bytes(" ")) == nil)
        }
    }

    @Test func `another content type is rejected`() throws {
        #expect(failure { try tree(bytes("<a/>"), type: "text/html") }?.code == -1016)
    }

    @Test func `external entities are never loaded with any options`() throws {
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
    func `a document with internal declarations is an error in any encoding`(declaration: String) throws {
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
        #expect(limit(failure { try tree(hidden) }) == .declarations)
    }

    @Test func `keywords of declarations are accepted where they declare nothing`() throws {
        let body = "<!DOCTYPE a><!--<!ENTITY--><a><![CDATA[<!ELEMENT]]></a>"
        #expect(try tree(bytes(body))?.rootElement()?.stringValue == "<!ELEMENT")
    }

    @Test func `a document that would expand without limit is rejected before it does`() {
        let laughs = (1...9).map { "<!ENTITY e\($0) '\(String(repeating: "&e\($0 - 1);", count: 10))'>" }.joined()
        let blowUp = "<!ENTITY e '\(String(repeating: "x", count: 50_000))'>"
        let bodies = [
            "<!DOCTYPE a [<!ENTITY e0 'ha'>\(laughs)]><a>&e9;</a>",
            "<!DOCTYPE a [\(blowUp)]><a>\(String(repeating: "&e;", count: 50_000))</a>",
            "<!DOCTYPE a [<!ENTITY % p '<!ENTITY e \"x\">'>%p;]><a>&e;</a>",
            "<!DOCTYPE a [<!ENTITY e '&e;'>]><a b='&e;'/>",
            "<!DOCTYPE a [<!NOTATION n SYSTEM 'x'><!ENTITY e SYSTEM 'y' NDATA n>]><a/>",
        ]
        for serializer in [parser, document] as [any URLResponseSerialization] {
            for body in bodies {
                #expect(limit(failure { try serializer.responseObject(for: nil, data: bytes(body)) }) == .declarations)
            }
        }
    }

    @Test(arguments: [
        "<!DOCTYPE a [%p;]><a/>", "<!DOCTYPE a [%p;<!ATTLIST a b ID #IMPLIED>]><a/>", "<!DOCTYPE a [ <!ENTIT",
        "<!DOCTYPE a SYSTEM 'x'><a>&nope;</a>", "<!DOCTYPE a [<![INCLUDE[<!ENTITY e 'v'>]]>]><a/>", "<a:b/>",
        "<a b='1' b='2'/>", "<a b='<'/>", "<a>]]></a>", "<a>\u{1}</a>", "<a>&#0;</a>", "<a>&#xD800;</a>", "<a>\u{FFFE}</a>",
    ])
    func `a document that is not well-formed or has empty names is an error with its reason`(body: String) {
        for serializer in [parser, document] as [any URLResponseSerialization] {
            let error = failure { try serializer.responseObject(for: response(200, type: "text/xml"), data: bytes(body)) }
            #expect(error?.domain == XMLParser.errorDomain || limit(error) == .declarations)
            #expect(error?.localizedDescription.isEmpty == false)
        }
    }

    @Test func `an error describes the problem and its position`() {
        let error = failure { try tree(bytes("<a>\n  <b></c>\n</a>")) }
        #expect(error?.code == 76, "XML_ERR_TAG_NAME_MISMATCH")
        #expect(error?.localizedDescription.contains("b line 2 and c, on line 2") == true, "\(error as Any)")
        let cut = failure { try tree(bytes("<a><b>")) }
        #expect(cut?.code == XMLParser.ErrorCode.prematureDocumentEndError.rawValue)
        #expect(cut?.localizedDescription == "The document is truncated.")
    }

    @Test func `neither documents nor errors leak memory`() throws {
        let bodies = [
            "<a b='c'><?x?>text<!--c--></a>", "<a><b></a>", "<!DOCTYPE a [<!ENTITY e 'v'>]><a>&e;</a>",
            "<!DOCTYPE a [<!ATTLIST a b (x|y|z) 'x'>]><a/>", "<!DOCTYPE a [<!ELEMENT a (b|(c,d))*>]><a/>",
            "<!DOCTYPE a [<!NOTATION n SYSTEM 'x'>]><a/>", "<?xml version='1.0' encoding='koi8-r'?><a/>",
        ].map(bytes)
        func round(_ count: Int) {
            for _ in 0..<count {
                for body in bodies { _ = try? parser.responseObject(for: nil, data: body) }
            }
        }
        round(1_000)
        let before = ProcessMeters.residentKilobytes
        round(5_000)
        // A leak of 110 bytes per iteration would exceed this.
        #expect(ProcessMeters.residentKilobytes - before < 512)
    }

    @Test(arguments: ["<?xml version='1.1'?><a/>", "<a xmlns='b'/>", "<a xml:lang='q q'/>"])
    func `a warning is not an error`(body: String) throws {
        #expect(try tree(bytes(body))?.rootElement()?.name == "a")
        #expect((try parser.responseObject(for: nil, data: bytes(body)) as? XMLParser)?.parse() == true)
    }

    @Test func `parsing a document sends no requests`() throws {
        let directory = try TemporaryDirectory()
        let pipe = directory.file("pipe").path
        try #require(mkfifo(pipe, 0o600) == 0)
        // Opening this pipe for reading would block until a writer opens it.
        for body in [
            "<!DOCTYPE a SYSTEM 'file://\(pipe)'><a/>", "<!DOCTYPE a PUBLIC 'x' '\(pipe)'><a/>",
            "<?xml-stylesheet href='file://\(pipe)'?><a xmlns:xi='http://www.w3.org/2001/XInclude'><xi:include href='\(pipe)'/></a>",
        ] {
            #expect(try tree(bytes(body))?.rootElement()?.name == "a")
            #expect((try parser.responseObject(for: nil, data: bytes(body)) as? XMLParser)?.parse() == true)
        }
    }

    @Test func `a document truncated at any point is rejected`() throws {
        let whole = bytes("<?xml version='1.0'?><!DOCTYPE a><!--c--><a x='é'><?p?><![CDATA[<]]>&lt;<b/></a>")
        #expect(try tree(whole)?.rootElement()?.stringValue == "<<")
        for length in 1..<whole.count where !(length == 1 && whole[0] == 0x20) {
            #expect(failure { try tree(whole.prefix(length)) }?.domain == XMLParser.errorDomain, "\(length) bytes")
        }
    }

    @Test(arguments: ["<!DOCTYPE a><a/>", "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML\" \"http://w3.org/x.dtd\"><a/>"])
    func `a document type without declarations is accepted`(body: String) throws {
        #expect(try tree(bytes(body))?.rootElement()?.name == "a")
    }

    @Test(arguments: [
        ("<?x?><a/>", "<?x ?><a/>"), ("<a><?x-y?><?z d?></a>", "<a><?x-y ?><?z d?></a>"),
        ("<!--<?x?>--><a><![CDATA[<?x?>]]><?x?></a>", "<!--<?x?>--><a><![CDATA[<?x?>]]><?x ?></a>"),
        ("<!DOCTYPE a SYSTEM '<!--'><?x?><a/><?é?>", "<!DOCTYPE a SYSTEM '<!--'><?x ?><a/><?é ?>"),
        ("<!DOCTYPE a [<?x?>]><a/>", "<!DOCTYPE a [<?x ?>]><a/>"),
        ("\u{FEFF}<?xml version='1.0'?>\r\n<?x?><a/>", "\u{FEFF}<?xml version='1.0'?>\r\n<?x ?><a/>"),
    ])
    func `an instruction with only a name gets a space, without which the parser crashes`(
        body: String, spaced: String
    ) throws {
        #expect(text(try XMLInspection.document(of: bytes(body), maximumDepth: 10)) == spaced)
        #expect(try parser.responseObject(for: nil, data: bytes(body)) is XMLParser)
        #expect(try document.responseObject(for: nil, data: bytes(body)) is XMLDocument)
    }

    @Test func `an empty instruction gets a space anywhere in a long document`() throws {
        let filling = String(repeating: "é<b/>", count: 60_000)
        let body = "<a>" + String(repeating: "\(filling)<?x?>", count: 8) + "</a>"
        let spaced = body.replacing("<?x?>", with: "<?x ?>")
        #expect(text(try XMLInspection.document(of: bytes(body), maximumDepth: 10)) == spaced)
    }

    @Test(arguments: [
        "<?xml?><a/>", "<?<a>\"<?x?>", "<?", "<??>", "<!--", "<!DOCTYPE '", "<?x?>", "<?x?", "<a/><?x", "<?x:y?><a/>",
    ])
    func `a malformed or lone instruction is an error, not a crash`(body: String) {
        for serializer in [parser, document] as [any URLResponseSerialization] {
            #expect(failure { try serializer.responseObject(for: nil, data: bytes(body)) }?.domain == XMLParser.errorDomain)
        }
    }

    @Test func `an instruction with only a name reaches the parser's delegate`() throws {
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

    @Test func `nesting has a limit, and a tree is never truncated silently`() throws {
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

    /// libxml2 compares every attribute of an element with all others.
    @Test func `a tag with too many attributes is rejected before it is parsed`() throws {
        func element(_ count: Int, head: String = "") -> Data {
            bytes(head + "<a" + (0..<count).map { " b\($0) = '>'" }.joined() + "/>")
        }
        #expect(try tree(element(1_024))?.rootElement()?.attributes?.count == 1_024)
        for head in ["", "<?x <!--?>", "<!--<![CDATA[-->", "<!DOCTYPE a SYSTEM '<!--'>", "<!DOCTYPE a SYSTEM \"<a b='\">"] {
            for serializer in [parser, document] as [any URLResponseSerialization] {
                let error = failure { try serializer.responseObject(for: nil, data: element(1_025, head: head)) }
                #expect(limit(error) == .names, "\(head)")
            }
        }
    }

    @Test func `text that looks like attributes is not counted in text, comments and values`() throws {
        let many = String(repeating: "b='c' ", count: 2_000)
        let body = "<!--\(many)--><a b=\"\(many)\">\(many)<![CDATA[\(many)]]><b/>\(many)</a>"
        #expect(try tree(bytes(body))?.rootElement()?.stringValue == many + many + many)
    }

    /// libxml2 looks up each prefix among all namespaces in scope.
    @Test func `the nesting of namespaces is limited`() throws {
        func nested(_ depth: Int) -> Data {
            let declarations = (0..<8).map { " xmlns:n\($0)='u'" }.joined()
            return bytes(String(repeating: "<a\(declarations)>", count: depth) + String(repeating: "</a>", count: depth))
        }
        #expect(try tree(nested(32))?.rootElement() != nil)
        #expect(limit(failure { try tree(nested(33)) }) == .names)
        let siblings = String(repeating: "<b xmlns:p='u' xmlns:q='v'/>", count: 300)
        #expect(try tree(bytes("<a>\(siblings)</a>"))?.rootElement()?.childCount == 300)
    }

    @Test func `the number of different names is limited, in elements and instructions`() throws {
        func names(_ count: Int, _ begin: String, _ end: String) -> Data {
            bytes("<a>" + (0..<count).map { "\(begin)n\($0)\(end)" }.joined() + "</a>")
        }
        #expect(try tree(names(99_000, "<", "/>"))?.rootElement()?.childCount == 99_000)
        for (begin, end) in [("<", "/>"), ("<b ", "='c'/>"), ("<?", " ?>")] {
            let body = names(100_001, begin, end) + Data("</no>".utf8)
            #expect(limit(failure { try parser.responseObject(for: nil, data: body) }) == .names, "\(begin)")
        }
    }

    @Test func `the response's charset applies if the document declares none`() throws {
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
    func `bytes that are not text are rejected and do not crash Foundation's parser`(body: [UInt8]) throws {
        for serializer in [parser, document] as [any URLResponseSerialization] {
            for type in ["text/xml", "text/xml; charset=utf-8"] {
                let error = failure { try serializer.responseObject(for: response(200, type: type), data: Data(body)) }
                #expect(error?.domain == XMLParser.errorDomain)
            }
        }
    }

    @Test func `documents in other encodings are parsed`() throws {
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
        #expect(try element("windows-1258", [0x61, 0xCC]) == "à", "an accent that follows its letter")
        for (name, code) in [
            ("x-no-such", XMLParser.ErrorCode.unknownEncodingError), ("utf-8//IGNORE", .unknownEncodingError),
            ("../../tmp/x", .unknownEncodingError), ("", .unknownEncodingError),
            // The declaration itself is not valid in these encodings.
            ("EBCDIC-CP-US", .invalidEncodingError), ("UTF-16", .invalidEncodingError), ("UTF-32LE", .invalidEncodingError),
        ] {
            #expect(failure { try element(name, [0x41]) }?.code == code.rawValue, "\(name)")
        }
        // The text is truncated in the middle of a character.
        #expect(failure { try element("GBK", [0xC4]) } != nil)
        #expect(failure { try element("ISO-2022-JP", [0x1B, 0x24, 0x42, 0x24]) } != nil)
    }

    @Test func `a byte-order mark overrides a declaration`() throws {
        for name in ["koi8-r", "UTF-16", "us-ascii", "x-no-such", "utf-8"] {
            let body = bytes("\u{FEFF}<?xml version='1.0' encoding='\(name)'?><a><?x?>é</a>")
            #expect(try tree(body)?.rootElement()?.stringValue == "é", "\(name)")
        }
    }

    @Test func `a document in EBCDIC is parsed if the response specifies it`() throws {
        let ebcdic = Data([0x4C, 0x81, 0x6E, 0xC1, 0x4C, 0x61, 0x81, 0x6E])
        #expect(try tree(ebcdic, type: "text/xml; charset=EBCDIC-CP-US")?.rootElement()?.stringValue == "A")
        #expect(failure { try tree(ebcdic) }?.domain == XMLParser.errorDomain)
    }

    @Test func `an error contains the parsed body of the response`() throws {
        let error = failure { try tree(bytes("<why>gone</why>"), status: 410) }
        #expect(error?.code == -1011)
        #expect((error?.serializedResponseObject as? XMLDocument)?.rootElement()?.stringValue == "gone")
    }

    @Test func `the size of a document is limited`() throws {
        var document = document
        document.limits.maximumBodySize = 3
        #expect(limit(failure { try document.responseObject(for: nil, data: bytes("<a/>")) }) == .bodySize)
    }
}
