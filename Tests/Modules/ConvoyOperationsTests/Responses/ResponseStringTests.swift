import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

@Suite struct ResponseStringTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var type: String?
        var bytes: [UInt8]
        var text: String?
        var encoding: String.Encoding
        var testDescription: String { type ?? "none" }
    }

    @Test(arguments: [
        Case(type: nil, bytes: Array("é".utf8), text: "é", encoding: .utf8),
        Case(type: "text/plain", bytes: Array("é".utf8), text: "é", encoding: .utf8),
        Case(type: "text/plain; charset=utf-8", bytes: Array("é".utf8), text: "é", encoding: .utf8),
        Case(type: "text/plain; charset=ISO-8859-1", bytes: [0x93, 0xE9], text: "“é", encoding: .windowsCP1252),
        Case(type: "text/plain; charset=utf-16", bytes: [0xFE, 0xFF, 0, 0xE9], text: "é", encoding: .utf16BigEndian),
        Case(type: "text/plain; charset=utf-16", bytes: [0xE9, 0], text: "é", encoding: .utf16LittleEndian),
        Case(type: "text/plain; charset=iso-8859-1", bytes: [0xEF, 0xBB, 0xBF, 0xC3, 0xA9], text: "é", encoding: .utf8),
        Case(type: nil, bytes: [0xFF, 0xFE, 0xE9, 0], text: "é", encoding: .utf16LittleEndian),
        Case(type: "text/plain; charset=euc-jp", bytes: [0xAD, 0xA1], text: "①", encoding: .japaneseEUC),
        Case(type: "text/plain; charset=\"Shift_JIS\"", bytes: [0x93, 0xFA], text: "日", encoding: .shiftJIS),
        Case(type: "text/plain; charset=utf-16le", bytes: [0xE9, 0], text: "é", encoding: .utf16LittleEndian),
        // Foundation has no encoding for this charset.
        Case(type: "text/plain; charset=koi8-r", bytes: [0xC4, 0xC1], text: "да", encoding: .utf8),
        Case(type: "text/plain; charset=klingon", bytes: Array("é".utf8), text: "é", encoding: .utf8),
        Case(type: "text/plain; charset=utf-8", bytes: [0xE9], text: nil, encoding: .utf8),
    ])
    func `a response text is decoded with its charset, which has a name if Foundation knows it`(_ given: Case) throws {
        let server = try TestServer()
        let type = given.type.map { "Content-Type: \($0)\r\n" } ?? ""
        let head = "HTTP/1.1 200 OK\r\n\(type)Content-Length: \(given.bytes.count)\r\n\r\n"
        server.route("GET", "/text", .raw(Data(head.utf8) + Data(given.bytes)))
        let probe = Probe(server.url("/text"))
        probe.operation.start()
        #expect(probe.outcome() == Probe.succeeded)
        #expect(probe.operation.responseString == given.text)
        #expect(probe.operation.responseStringEncoding == given.encoding)
        let serialized = try? StringResponseSerializer().responseObject(
            for: probe.operation.response, data: probe.operation.responseData)
        #expect(serialized as? String == given.text)
        probe.operation.responseStringEncoding = .isoLatin1
        #expect(probe.operation.responseString == String(data: Data(given.bytes), encoding: .isoLatin1))
        #expect(probe.operation.responseStringEncoding == .isoLatin1)
    }
}
