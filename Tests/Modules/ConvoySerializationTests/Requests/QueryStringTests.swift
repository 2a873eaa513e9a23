import Foundation
import Testing

@testable import ConvoySerialization

@Suite struct QueryStringTests {
    private func query(_ parameters: ParameterValue, _ style: QueryStringStyle = .brackets) throws -> String {
        try style.queryString(from: parameters)
    }

    @Test func `keys are sorted and brackets are escaped`() throws {
        #expect(try query(["foo": "bar", "baz": [1, 2, 3]]) == "baz%5B%5D=1&baz%5B%5D=2&baz%5B%5D=3&foo=bar")
        #expect(try query(["key2": ["key": [1]], "key1": "v"]) == "key1=v&key2%5Bkey%5D%5B%5D=1")
    }

    @Test func `keys are sorted case-sensitively`() throws {
        #expect(try query(["b": 1, "B": 2, "a": 3, "A": 4]) == "A=4&B=2&a=3&b=1")
    }

    @Test func `only unreserved characters, slashes and question marks are not escaped`() throws {
        let ascii = String(String.UnicodeScalarView((0x20..<0x7F).compactMap(Unicode.Scalar.init)))
        #expect(
            PercentEscaping.escape(ascii)
                == "%20%21%22%23%24%25%26%27%28%29%2A%2B%2C-./0123456789%3A%3B%3C%3D%3E?%40"
                + "ABCDEFGHIJKLMNOPQRSTUVWXYZ%5B%5C%5D%5E_%60abcdefghijklmnopqrstuvwxyz%7B%7C%7D~")
        #expect(PercentEscaping.escape("\0\n\u{7F}") == "%00%0A%7F")
    }

    @Test func `an escaped string is read unchanged from a query`() throws {
        let text = "a&b = c/ä?#"
        #expect(PercentEscaping.escape(text) == "a%26b%20%3D%20c/%C3%A4?%23")
        #expect(try query(["q": .string(text)]) == "q=" + PercentEscaping.escape(text))
    }

    @Test func `emoji sequences and long strings are escaped completely`() throws {
        #expect(try query(["k": "👨‍👩‍👧é"]) == "k=%F0%9F%91%A8%E2%80%8D%F0%9F%91%A9%E2%80%8D%F0%9F%91%A7%C3%A9")
        let long = String(repeating: "👴🏿", count: 5000)
        let escaped = try query(["k": .string(long)])
        #expect(escaped.dropFirst(2).removingPercentEncodingText == long)
    }

    @Test func `null is sent as the key alone`() throws {
        #expect(try query(["a": .null, "b": [.null, 1], "c": ""]) == "a&b%5B%5D&b%5B%5D=1&c=")
    }

    @Test func `empty containers add nothing`() throws {
        #expect(try query([:]) == "")
        #expect(try query(.null) == "")
        #expect(try query(["a": [], "b": [:], "c": .set([]), "d": [[]]]) == "")
    }

    @Test func `a set repeats the plain key, in the order of descriptions`() throws {
        #expect(try query(["s": .set([3, "b", 10, "a", true])]) == "s=1&s=10&s=3&s=a&s=b")
        #expect(try query(["s": .set([1, "1", 1.0, true])]) == "s=1&s=1&s=1&s=1")
        #expect(try query(["s": .set([["k": 1]])], .dots) == "s.k=1")
    }

    @Test func `arrays can be written with brackets, with indices or without either`() throws {
        let tree: ParameterValue = ["a": [1, ["b": 2]], "c": ["d": [[3]]]]
        #expect(try query(tree) == "a%5B%5D=1&a%5B%5D%5Bb%5D=2&c%5Bd%5D%5B%5D%5B%5D=3")
        #expect(try query(tree, .indices) == "a%5B0%5D=1&a%5B1%5D%5Bb%5D=2&c%5Bd%5D%5B0%5D%5B0%5D=3")
        #expect(try query(tree, .noBrackets) == "a=1&a%5Bb%5D=2&c%5Bd%5D=3")
        #expect(try query(tree, .dots) == "a%5B0%5D=1&a%5B1%5D.b=2&c.d%5B0%5D%5B0%5D=3")
    }

    @Test func `booleans can be written as digits or words`() throws {
        #expect(try query(["a": true, "b": [false]]) == "a=1&b%5B%5D=0")
        #expect(try query(["a": true, "b": [false]], .brackets.booleans(.literal)) == "a=true&b%5B%5D=false")
    }

    @Test func `numbers, data and dates are written in a readable form`() throws {
        #expect(
            try query(["n": -7, "u": .unsignedInteger(.max), "x": 2.0, "y": 0.1])
                == "n=-7&u=18446744073709551615&x=2&y=0.1")
        #expect(try query(["d": .data(Data([0xFB, 0xFF]))]) == "d=%2B/8%3D")
        let date = ParameterValue.date(Date(timeIntervalSince1970: 1.5))
        #expect(try query(["t": date]) == "t=1970-01-01%2000%3A00%3A01%20%2B0000")
        #expect(try query(["t": date], .brackets.dates(.iso8601)) == "t=1970-01-01T00%3A00%3A01.500Z")
        #expect(try query(["t": date], .brackets.dates(.secondsSince1970)) == "t=1.5")
    }

    @Test func `a root without keys is rejected`() {
        for root in [[1, 2], "text", 3, .set([1]), true] as [ParameterValue] {
            let error = failure { try query(root) }
            #expect(error?.domain == "com.alamofire.error.serialization.request")
            #expect(error?.code == -1016)
            #expect(reason(error) == .invalidParameters)
        }
    }

    @Test func `endless nesting is rejected without a crash`() throws {
        var tree: ParameterValue = 1
        for _ in 0..<ParameterValue.maximumDepth { tree = ["k": tree] }
        #expect(try query(tree).hasSuffix("=1"))
        #expect(reason(failure { try query(["k": tree]) }) == .parametersTooDeep)
        #expect(
            reason(failure { try JSONWriter.data(from: ["k": tree], options: [], dates: .iso8601) })
                == .parametersTooDeep)
    }

    @Test func `a date outside the calendar is rejected`() {
        #expect(reason(failure { try query(["t": .date(.init(timeIntervalSince1970: .nan))]) }) == .invalidParameters)
    }
}

extension Substring {
    var removingPercentEncodingText: String? { String(self).removingPercentEncoding }
}
