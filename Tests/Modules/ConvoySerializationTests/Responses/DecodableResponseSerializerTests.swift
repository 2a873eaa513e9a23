import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySerialization

@Suite struct DecodableResponseSerializerTests {
    private struct User: Codable, Equatable, Sendable {
        var id: Int
        var firstName: String
    }

    private let serializer = DecodableResponseSerializer(User.self) {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return decoder
    }

    private func user(_ body: String, _ status: Int = 200) throws -> Any? {
        try serializer.responseObject(for: response(status, type: "application/json"), data: bytes(body))
    }

    @Test func `a body is decoded with a custom decoder`() throws {
        #expect(try user(#"{"id":1,"first_name":"Ada"}"#) as? User == User(id: 1, firstName: "Ada"))
    }

    @Test func `a response without content succeeds without an object`() throws {
        #expect(try user("", 204) == nil)
        #expect(try user(" ") == nil)
        #expect(try serializer.value(for: response(200), data: nil) == nil)
    }

    @Test func `the error for an undecodable body contains the reason and the coding path`() {
        for (body, place) in [(#"{"id":"one"}"#, "At id: "), ("nonsense", "At the root: "), (#"{"id":1}"#, "is missing")] {
            let error = #expect(throws: HTTPError.self) { try user(body) }
            #expect(error?.decodingError != nil && error?.code == NSURLErrorCannotDecodeContentData)
            #expect(error?.localizedDescription.contains(place) == true, "\(String(describing: error))")
        }
        #expect(failure { try user("[1,]") }?.code == 3840)
    }

    @Test func `an error response with any body has a validation error`() {
        let fitting = failure { try user(#"{"id":1,"first_name":"Ada"}"#, 409) }
        #expect(fitting?.code == -1011)
        #expect(fitting?.serializedResponseObject as? User == User(id: 1, firstName: "Ada"))
        let other = failure { try user(#"{"message":"no"}"#, 409) }
        #expect(other?.code == -1011)
        #expect(other?.serializedResponseObject as? [String: String] == ["message": "no"])
        let junk = failure { try user("<html>", 409) }
        #expect(junk?.code == -1011)
        #expect(junk?.serializedResponseObject == nil)
    }

    @Test func `the limits for JSON responses also apply to decoded values`() {
        var serializer = DecodableResponseSerializer([[Int]].self)
        serializer.limits.maximumNestingDepth = 1
        #expect(limit(failure { try serializer.responseObject(for: nil, data: bytes("[[1]]")) }) == .nestingDepth)
    }
}
