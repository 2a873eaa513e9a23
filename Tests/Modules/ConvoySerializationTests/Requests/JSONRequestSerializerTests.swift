import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySerialization

@Suite struct JSONRequestSerializerTests {
    private func body(_ parameters: ParameterValue?, _ options: JSONSerialization.WritingOptions = []) throws -> String? {
        text(
            try JSONRequestSerializer(writingOptions: options).request(
                method: .post, url: exampleURL, parameters: parameters
            ).httpBody)
    }

    @Test func `parameters are encoded as the body, with sorted keys`() throws {
        let request = try JSONRequestSerializer().request(
            method: .post, url: exampleURL,
            parameters: ["b": [1, .null, true, 2.5, -0.0], "a": ["x": "é\"\\/\n\u{1}"], "u": .unsignedInteger(.max)])
        #expect(
            text(request.httpBody)
                == #"{"a":{"x":"é\"\\\/\n\u0001"},"b":[1,null,true,2.5,-0],"u":18446744073709551615}"#)
        #expect(request.value(forHTTPHeaderField: "Content-Type") == "application/json")
    }

    @Test func `nil parameters add neither a body nor a content type`() throws {
        let request = try JSONRequestSerializer().request(method: .post, url: exampleURL)
        #expect(request.httpBody == nil)
        #expect(request.value(forHTTPHeaderField: "Content-Type") == nil)
    }

    @Test func `an empty dictionary is sent as an empty object`() throws {
        #expect(try body([:]) == "{}")
    }

    @Test func `parameters are encoded as a query for methods that have no body`() throws {
        let request = try JSONRequestSerializer().request(method: .get, url: exampleURL, parameters: ["a": [1]])
        #expect(request.url?.query == "a%5B%5D=1")
        #expect(request.httpBody == nil)
    }

    @Test func `types that JSON lacks are encoded as text`() throws {
        let date = ParameterValue.date(Date(timeIntervalSince1970: 1.5))
        #expect(
            try body(["d": .data(Data([1, 2, 3])), "s": .set([2, 1]), "t": date])
                == #"{"d":"AQID","s":[1,2],"t":"1970-01-01T00:00:01.500Z"}"#)
        var serializer = JSONRequestSerializer(writingOptions: .fragmentsAllowed)
        serializer.dates = .secondsSince1970
        #expect(text(try serializer.request(method: .post, url: exampleURL, parameters: date).httpBody) == "1.5")
        serializer.dates = .millisecondsSince1970
        #expect(text(try serializer.request(method: .post, url: exampleURL, parameters: date).httpBody) == "1500")
    }

    @Test(
        arguments: [
            ["x": .double(.nan)], ["x": [.double(-.infinity)]], ["t": .date(.distantFuture + 1e14)], "text", 1, .null,
        ] as [ParameterValue])
    func `a value that JSON cannot represent is an error`(parameters: ParameterValue) {
        let error = failure { try body(parameters) }
        #expect(error?.domain == "com.alamofire.error.serialization.request")
        #expect(error?.code == -1016)
        #expect(error?.localizedFailureReason == "The `parameters` argument is not valid JSON.")
    }

    @Test func `the encoded bytes equal those of JSONSerialization`() throws {
        let tree: ParameterValue = [
            "empty": [:], "list": [], "text": "\u{8}\u{c}\n\r\t\u{1f}\u{7f}\u{2028}/👍",
            "numbers": [0, -1, 1.5, 1e20, 1e-7, 100000.0], "nested": [["a": [[1]]]],
        ]
        for options in [[], .prettyPrinted, .withoutEscapingSlashes] as [JSONSerialization.WritingOptions] {
            let written = try #require(try body(tree, options))
            let object = try JSONSerialization.jsonObject(with: bytes(written))
            let foundation = try JSONSerialization.data(withJSONObject: object, options: options.union(.sortedKeys))
            #expect(written == text(foundation))
        }
    }
}
