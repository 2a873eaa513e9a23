import Foundation
import FoundationNetworking
import FoundationXML
import Testing

@testable import ConvoySerialization

@Suite struct CompoundResponseSerializerTests {
    private let serializer = CompoundResponseSerializer([JSONResponseSerializer(), PropertyListResponseSerializer()])

    private func object(_ body: String, _ type: String, _ status: Int = 200) throws -> Any? {
        try serializer.responseObject(for: response(status, type: type), data: bytes(body))
    }

    @Test func `the first serializer that produces an object is used`() throws {
        #expect(try object("[1]", "application/json") as? [Int] == [1])
        #expect(try object("<plist><string>x</string></plist>", "application/x-plist") as? String == "x")
    }

    @Test func `the body is the object if no serializer produces one`() throws {
        #expect(try object("hello", "text/html") as? Data == bytes("hello"))
        #expect(try object("[1", "application/json") as? Data == bytes("[1"))
        #expect(try CompoundResponseSerializer([]).responseObject(for: nil, data: bytes("x")) as? Data == bytes("x"))
    }

    @Test func `a response without content succeeds without an object`() throws {
        #expect(try object("", "application/json", 204) == nil)
        #expect(try serializer.responseObject(for: response(204), data: nil) == nil)
    }

    @Test func `an error contains the parsed body of the response`() {
        let error = failure { try object(#"{"why":1}"#, "application/json", 404) }
        #expect(error?.code == -1011)
        #expect(error?.serializedResponseObject as? [String: Int] == ["why": 1])
    }

    @Test func `the error for a response that no serializer can parse contains the raw body`() {
        let error = failure { try object("<html>", "text/html", 404) }
        #expect(error?.code == -1011)
        #expect(error?.serializedResponseObject as? Data == bytes("<html>"))
    }

    @Test func `the content types are validated if no serializer produces an object`() {
        var strict = serializer
        strict.acceptableContentTypes = ["application/json"]
        #expect(
            failure { try strict.responseObject(for: response(200, type: "text/html"), data: bytes("x")) }?.code
                == -1016)
    }
}
