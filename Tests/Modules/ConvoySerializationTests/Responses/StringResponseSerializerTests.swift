import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySerialization

@Suite struct StringResponseSerializerTests {
    private let serializer = StringResponseSerializer()

    private func read(_ data: Data?, _ type: String = "text/plain", status: Int = 200) throws -> String? {
        try serializer.responseObject(for: response(status, type: type), data: data) as? String
    }

    @Test func `a body is text in the response's charset, or else UTF-8`() throws {
        #expect(try read(bytes("é\0👍")) == "é\0👍")
        #expect(try read(Data([0xE9]), "text/plain; charset=ISO-8859-1") == "é")
        #expect(try read(Data([0xEF, 0xBB, 0xBF, 0x61]), "text/plain; charset=iso-8859-1") == "a")
        #expect(try read(Data([0xFF, 0xFE, 0x61, 0])) == "a")
    }

    @Test func `a missing body is nil, and an empty body is an empty string`() throws {
        #expect(try read(nil) == nil)
        #expect(try read(Data(), status: 204) == nil)
        #expect(try read(Data()) == "")
        #expect(try read(bytes(" ")) == " ")
    }

    @Test func `bytes that are not text are an error`() {
        let error = failure { try read(Data([0xFF, 0x41])) }
        #expect(error?.domain == URLResponseSerializationErrorDomain)
        #expect(error?.code == -1016)
        #expect(error?.localizedDescription == "The body cannot be decoded as UTF-8.")
        for (label, name) in [
            ("euc-jp", "EUC-JP"), ("x-sjis", "Shift_JIS"), ("utf-16", "UTF-16LE"), ("hz-gb-2312", "hz-gb-2312"),
        ] {
            let error = failure { try read(Data([0xFF]), "text/plain; charset=\(label)") }
            #expect(error?.localizedDescription == "The body cannot be decoded as \(name).")
        }
    }

    @Test func `an error contains the text of the response`() {
        let error = failure { try read(bytes("sorry"), status: 503) }
        #expect(error?.code == -1011)
        #expect(error?.serializedResponseObject as? String == "sorry")
    }
}
