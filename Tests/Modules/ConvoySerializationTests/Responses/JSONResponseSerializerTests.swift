import ConvoySupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySerialization

@Suite struct JSONResponseSerializerTests {
    private struct Named: Decodable, Sendable { let a: Int }

    @Test func `repeated keys are handled alike for values, trees and decoded types`() throws {
        let body = bytes(#"{"a":1,"a":2}"#)
        for text in [
            #"{"a":1,"a":2}"#, #"{"a":1,"b":{"a":3,"a":4},"a":2}"#, #"{"a":1,"\u0061":2}"#,
            #"{"b":[{"c":1,"c":{"a":9}}],"a":1,"a":"2"}"#, #"{"x:":"a:b\":","a":1,"a":2,"a":3}"#,
        ] {
            try expectOneReading(of: text)
        }
        let answer = try response(200, type: "application/json")
        var (typed, tree, any) = (
            DecodableResponseSerializer(Named.self), JSONTreeResponseSerializer(), JSONResponseSerializer()
        )
        #expect(try typed.value(for: answer, data: body)?.a == 1)
        #expect(try tree.responseObject(for: answer, data: body) as? JSON == ["a": 1])
        typed.limits.rejectsDuplicateKeys = true
        tree.limits.rejectsDuplicateKeys = true
        any.limits.rejectsDuplicateKeys = true
        for serializer in [typed, tree, any] as [any URLResponseSerialization] {
            #expect(throws: JSONSyntaxError.self) { try serializer.responseObject(for: answer, data: body) }
            let object = try serializer.responseObject(for: answer, data: bytes(#"{"a":1,"b":[{"a":1},{"a":2}]}"#))
            #expect(object != nil)
        }
        #expect(!typed.plainlyAccepts(statusCode: 200, contentType: "application/json", count: 10))
    }

    /// Expects that the first value of `a` is 1, for each serializer.
    private func expectOneReading(of text: String) throws {
        let answer = try response(200, type: "application/json")
        let failing = try response(500, type: "application/json")
        let typed = try DecodableResponseSerializer(Named.self).value(for: answer, data: bytes(text))
        let tree = try JSONTreeResponseSerializer().responseObject(for: answer, data: bytes(text)) as? JSON
        let object = try serializer.responseObject(for: answer, data: bytes(text)) as? [String: Any]
        let error = failure {
            try DecodableResponseSerializer([Int].self).responseObject(for: failing, data: bytes(text))
        }
        #expect(typed?.a == 1, "\(text)")
        #expect(tree?[["a"]] == 1, "\(text)")
        #expect(object?["a"] as? Int == 1, "\(text)")
        #expect((error?.serializedResponseObject as? [String: Any])?["a"] as? Int == 1, "\(text)")
    }

    @Test(arguments: ["application/problem+json", "application/vnd.api+JSON; charset=utf-8", "text/x.y+z+json"])
    func `content types with the JSON suffix are acceptable, and similar ones are not`(type: String) throws {
        for serializer in [
            JSONResponseSerializer(), JSONTreeResponseSerializer(), DecodableResponseSerializer([Int].self),
        ] as [any URLResponseSerialization] {
            #expect(try serializer.responseObject(for: response(200, type: type), data: bytes("[1]")) != nil)
            for other in ["application/json+xml", "application/jsonx", "application/x+json5", "+json/x"] {
                let answer = try response(200, type: other)
                #expect(failure { try serializer.responseObject(for: answer, data: bytes("[1]")) }?.code == -1016)
            }
        }
        var strict = JSONResponseSerializer()
        strict.acceptableContentTypes = ["application/json"]
        #expect(failure { try strict.responseObject(for: response(200, type: type), data: bytes("[1]")) }?.code == -1016)
    }

    @Test func `the error of a tree contains the URL without its secrets`() throws {
        let error = #expect(throws: JSONSyntaxError.self) {
            try JSONTreeResponseSerializer().responseObject(for: response(200, type: "text/json"), data: bytes("[\n1 2]"))
        }
        #expect(error?.url == exampleURL && error?.position == JSONPosition(offset: 4, in: bytes("[\n1 2]")))
        #expect(error?.description.hasSuffix("in the response from http://example.com/path") == true)
        #expect(error?.localizedDescription == error?.description)
    }

    private let serializer = JSONResponseSerializer()

    private func parse(
        _ data: Data?, status: Int = 200, type: String = "application/json",
        _ serializer: JSONResponseSerializer = .init()
    ) throws -> Any? {
        try serializer.responseObject(for: response(status, type: type), data: data)
    }

    @Test(arguments: ["application/json", "text/json", "text/javascript"])
    func `the three content types of JSON are accepted`(type: String) throws {
        #expect((try parse(bytes("[1]"), type: type) as? [Int]) == [1])
    }

    @Test func `another content type is rejected, and the body is not parsed`() throws {
        for status in [200, 404] {
            let error = failure { try parse(bytes("[1]"), status: status, type: "text/html") }
            #expect(error?.has(code: -1016, in: URLResponseSerializationErrorDomain) == true)
            #expect(error?.serializedResponseObject == nil)
        }
    }

    @Test(arguments: [204, 205])
    func `a status without content succeeds without an object and ignores the body`(status: Int) throws {
        #expect(try parse(nil, status: status) == nil)
        #expect(try parse(bytes("junk"), status: status) == nil)
    }

    @Test func `an empty body and a single space succeed without an object`() throws {
        #expect(try parse(nil) == nil)
        #expect(try parse(Data()) == nil)
        #expect(try parse(bytes(" ")) == nil)
        #expect(failure { try parse(bytes("  ")) }?.code == 3840)
    }

    @Test(arguments: [
        "[1", "{\"a\":}", "nonsense", "[1,]", "{\"a\":1, }", "[1 , \n]", "[NaN]", "[01]", "1", "\"text\"",
    ])
    func `malformed JSON is an error`(body: String) {
        let error = failure { try parse(bytes(body)) }
        #expect(error?.domain == NSCocoaErrorDomain)
        #expect(error?.code == 3840)
    }

    @Test(arguments: [#"["a,]"]"#, #"["\",]"]"#, #"["\\"]"#, "[[],{}]"])
    func `commas and brackets in strings are text`(body: String) throws {
        #expect(try parse(bytes(body)) != nil)
    }

    @Test func `fragments are parsed if allowed`() throws {
        #expect(try parse(bytes("3"), .init(readingOptions: .fragmentsAllowed)) as? Int == 3)
        #expect(try parse(bytes("null"), .init(readingOptions: .fragmentsAllowed)) is NSNull)
    }

    @Test func `an error contains the parsed body of the response`() throws {
        let error = failure { try parse(bytes(#"{"why":"gone"}"#), status: 410) }
        #expect(error?.code == -1011)
        #expect(error?.localizedDescription == "Request failed: no longer exists (410)")
        #expect(error?.serializedResponseObject as? [String: String] == ["why": "gone"])
        #expect(error?.userInfo[URLResponseSerializationErrorKey.responseObject] != nil)
        #expect(underlying(error) == nil)
    }

    @Test func `invalid JSON in an error response has the validation error as underlying error`() throws {
        let error = failure { try parse(bytes("<html>"), status: 502) }
        #expect(error?.code == 3840)
        #expect(underlying(error)?.code == -1011)
        #expect(underlying(error)?.localizedDescription == "Request failed: bad gateway (502)")
    }

    @Test func `an error response without a body has only the validation error`() throws {
        let error = failure { try parse(nil, status: 500) }
        #expect(error?.code == -1011)
        #expect(error?.serializedResponseObject == nil)
    }

    @Test func `keys with null values can be removed, but nulls in arrays stay`() throws {
        var serializer = serializer
        serializer.removesKeysWithNullValues = true
        let object = try parse(bytes(#"{"a":null,"b":[null,{"c":null,"d":1}],"e":{"f":null}}"#), serializer)
        let dictionary = try #require(object as? [String: Any])
        #expect(Set(dictionary.keys) == ["b", "e"])
        let list = try #require(dictionary["b"] as? [Any])
        #expect(list.count == 2 && list[0] is NSNull)
        #expect(list[1] as? [String: Int] == ["d": 1])
        #expect((dictionary["e"] as? [String: Any])?.isEmpty == true)
    }

    @Test(arguments: [
        ("iso-8859-1", Data([0x5B, 0x22, 0xE9, 0x22, 0x5D])),
        ("\"ISO-8859-1\"", Data([0x5B, 0x22, 0xE9, 0x22, 0x5D])),
        ("windows-1252", Data([0x5B, 0x22, 0xE9, 0x22, 0x5D])),
        ("utf-8", bytes("[\"é\"]")), ("unheard-of", bytes("[\"é\"]")), ("us-ascii", bytes("[\"é\"]")),
        ("utf-8", Data([0xEF, 0xBB, 0xBF]) + bytes("[\"é\"]")),
        ("utf-16", Data([0xFF, 0xFE, 0x5B, 0, 0x22, 0, 0xE9, 0, 0x22, 0, 0x5D, 0])),
        ("utf-16", Data([0, 0x5B, 0, 0x22, 0, 0xE9, 0, 0x22, 0, 0x5D])),
        ("utf-16le", Data([0x5B, 0, 0x22, 0, 0xE9, 0, 0x22, 0, 0x5D, 0])),
        ("utf-8", Data([0xFE, 0xFF, 0, 0x5B, 0, 0x22, 0, 0xE9, 0, 0x22, 0, 0x5D])),
    ])
    func `the response's charset is used`(charset: String, data: Data) throws {
        #expect(try parse(data, type: "application/json; charset=\(charset)") as? [String] == ["é"])
        let decoded = DecodableResponseSerializer([String].self)
        #expect(try decoded.value(for: response(200, type: "text/json; charset=\(charset)"), data: data) == ["é"])
    }

    @Test(arguments: StandardCharset.all.flatMap(\.labels).map(String.init) + ["x-none", "utf-7", "utf-32"])
    func `a charset label is ignored for JSON in UTF-8, UTF-16 or UTF-32`(label: String) throws {
        let text = "[\"é①\"]"
        let answer = try response(200, type: "application/json; charset=\(label)")
        let failing = try response(500, type: "application/json; charset=\(label)")
        for encoding in [
            String.Encoding.utf8, .utf16LittleEndian, .utf16BigEndian, .utf32LittleEndian, .utf32BigEndian,
        ] {
            for mark in ["", "\u{FEFF}"] {
                let data = try #require((mark + text).data(using: encoding))
                #expect(try serializer.responseObject(for: answer, data: data) as? [String] == ["é①"])
                #expect(try DecodableResponseSerializer([String].self).value(for: answer, data: data) == ["é①"])
                let tree = try JSONTreeResponseSerializer().responseObject(for: answer, data: data)
                #expect(tree as? JSON == ["é①"])
                let error = failure { try HTTPResponseSerializer().responseObject(for: failing, data: data) } as? HTTPError
                #expect(try error?.decoded(as: [String].self) == ["é①"])
            }
        }
    }

    @Test func `the serializer's encoding applies if the response specifies none`() throws {
        var serializer = serializer
        serializer.stringEncoding = .isoLatin1
        #expect(try parse(Data([0x5B, 0x22, 0xE9, 0x22, 0x5D]), serializer) as? [String] == ["é"])
    }

    @Test func `bytes that are not text are an error`() throws {
        #expect(failure { try parse(Data([0x5B, 0x22, 0xFF, 0xFE, 0x22, 0x5D])) }?.code == 3840)
        let odd = failure { try parse(Data([0x81, 0xFF, 0x20]), type: "text/json; charset=shift_jis") }
        #expect(odd != nil)
    }

    @Test func `the limits of nesting and size can be raised`() throws {
        let deep = bytes(String(repeating: "[", count: 100) + String(repeating: "]", count: 100))
        var serializer = serializer
        serializer.limits.maximumNestingDepth = 99
        let error = failure { try parse(deep, serializer) }
        #expect(error?.domain == URLResponseSerializationErrorDomain)
        #expect(error?.code == NSURLErrorDataLengthExceedsMaximum)
        #expect(limit(error) == .nestingDepth)
        serializer.limits.maximumNestingDepth = 100
        #expect(try parse(deep, serializer) != nil)

        serializer.limits.maximumBodySize = deep.count - 1
        #expect(limit(failure { try parse(deep, serializer) }) == .bodySize)
        serializer.limits.maximumBodySize = deep.count
        #expect(try parse(deep, serializer) != nil)
    }

    @Test func `endless nesting is rejected by default`() {
        #expect(limit(failure { try parse(Data(repeating: UInt8(ascii: "["), count: 1_000_000)) }) == .nestingDepth)
        let wide = Data(Array(repeating: [UInt8(ascii: "["), 0], count: 100_000).joined())
        #expect(limit(failure { try parse(wide) }) == .nestingDepth)
    }

    @Test func `an exceeded limit of an error response has the validation error as underlying error`() {
        var serializer = serializer
        serializer.limits.maximumBodySize = 1
        let error = failure { try parse(bytes("[1]"), status: 500, serializer) }
        #expect(limit(error) == .bodySize)
        #expect(underlying(error)?.code == -1011)
    }
}

extension JSONResponseSerializerTests {
    private func parse(_ data: Data?, _ serializer: JSONResponseSerializer) throws -> Any? {
        try parse(data, status: 200, type: "application/json", serializer)
    }

    private func parse(_ data: Data?, status: Int, _ serializer: JSONResponseSerializer) throws -> Any? {
        try parse(data, status: status, type: "application/json", serializer)
    }
}
