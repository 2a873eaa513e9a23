import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyWorkflow

/// Captures, which decode text in the same way as the serializers.
@Suite struct ResponseCharsetTests {
    private func response(_ body: Data, _ label: String?) -> ReceivedResponse {
        ReceivedResponse(
            status: 200, fields: [], url: nil, body: body, file: nil, byteCount: Int64(body.count), seconds: 0,
            label: label)
    }

    private func serialized(_ body: Data, _ label: String, by serializer: any HTTPResponseSerialization) throws -> Any? {
        let url = try #require(URL(string: "http://example.com/"))
        let answer = HTTPURLResponse(
            url: url, statusCode: 200, httpVersion: nil,
            headerFields: ["Content-Type": "text/json; charset=\"\(label)\""])
        return try serializer.responseObject(for: answer, data: body)
    }

    private static let bodies = [
        Data("é①".utf8), Data([0xEF, 0xBB, 0xBF] + Array("é".utf8)), Data([0xFF, 0xFE, 0xE9, 0]),
        Data([0xFE, 0xFF, 0, 0xE9]),
        Data([0x93, 0xE9, 0x94]), Data([0xA4, 0xA2, 0xAD, 0xA1]), Data([0x87, 0x40]), Data([0x1B, 0x24, 0x42, 0x2D, 0x21]),
        Data([0xE9, 0, 0x60, 0x24]), Data([0xC4, 0xE3]),
    ]

    @Test(arguments: StandardCharset.all.flatMap(\.labels).map(String.init) + ["x-none", "utf-7", "utf-32"])
    func `text captures decode every charset label as the serializer does`(label: String) throws {
        for body in Self.bodies {
            let expected =
                (try? serialized(body, label, by: StringResponseSerializer())) as? String
                ?? String(decoding: body, as: UTF8.self)
            let captured = try response(body, label).value(of: .text(pattern: nil, group: 0))
            #expect(captured == .string(expected), "\(label) \(Array(body))")
        }
        for encoding in [String.Encoding.utf8, .utf16LittleEndian, .utf32BigEndian, .isoLatin1] {
            let body = try #require("{\"v\":\"é\"}".data(using: encoding))
            let expected = try? serialized(body, label, by: JSONTreeResponseSerializer()) as? JSON
            #expect(response(body, label).json == expected, "\(label) \(encoding)")
        }
    }

    @Test func `XPath detects the charset of HTML from its BOM, label or meta element`() {
        func title(_ label: String?, _ body: [UInt8], meta: String = "") -> [String]? {
            let page = Data("<html><head>\(meta)<title>".utf8) + Data(body) + Data("</title></head></html>".utf8)
            return try? XPath.values(of: "string(//title)", in: page, label: label, isHTML: true)
        }
        #expect(title("euc-jp", [0xAD, 0xA1]) == ["①"])
        #expect(title("iso-8859-1", [0x93, 0xE9]) == ["“é"])
        #expect(title("utf-8", Array("é".utf8), meta: "<meta charset=iso-8859-1>") == ["é"])
        #expect(title(nil, Array("é".utf8)) == ["é"])
        #expect(title(nil, [0xE9]) == ["é"])
        #expect(title(nil, [0x87, 0x40], meta: "<META charset='x-sjis'>") == ["①"])
        let type = "<meta http-equiv=\"Content-Type\" content=\"text/html; charset=euc-jp\">"
        #expect(title(nil, [0xAD, 0xA1], meta: type) == ["①"])
        #expect(title(nil, Array("é".utf8), meta: "<meta charset=utf-16>") == ["é"])
        #expect(title("utf-8", [0x61, 0xFF]) == ["a\u{FFFD}"])
    }

    @Test func `XPath detects the charset of XML from its BOM, declaration or label`() {
        func value(_ label: String?, _ body: [UInt8], _ declaration: String = "", mark: [UInt8] = []) -> [String]? {
            let text = Data(mark + Array("\(declaration)<a>".utf8) + body + Array("</a>".utf8))
            return try? XPath.values(of: "string(/a)", in: text, label: label, isHTML: false)
        }
        #expect(value("euc-jp", [0xAD, 0xA1]) == ["①"])
        #expect(value("euc-jp", [0xE9], "<?xml version='1.0' encoding='iso-8859-1'?>") == ["é"])
        #expect(value(nil, [0xAD, 0xA1], "<?xml version='1.0' encoding='EUC-JP'?>") == ["①"])
        #expect(value("euc-jp", Array("é".utf8), mark: [0xEF, 0xBB, 0xBF]) == ["é"])
        #expect(value(nil, Array("é".utf8)) == ["é"])
        #expect(value("utf-8", [0xE9]) == nil)
    }
}
