import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySerialization

@Suite struct ParameterTests {
    @Test func `canonically equivalent keys of a tree stay distinct`() throws {
        let body = bytes("{\"z\":{\"e\u{301}\":2,\"\u{E9}\":[1]},\"a\":0}")
        let parameters = ParameterValue(try JSON(parsing: body))
        let request = URLRequest(url: exampleURL)
        var post = request
        post.httpMethod = "POST"
        let sent = try JSONRequestSerializer().request(bySerializing: post, with: parameters)
        #expect(text(sent.httpBody) == "{\"a\":0,\"z\":{\"e\u{301}\":2,\"\u{E9}\":[1]}}")
        let asked = try HTTPRequestSerializer().request(bySerializing: request, with: parameters)
        #expect(asked.url?.query == "a=0&z%5Be%CC%81%5D=2&z%5B%C3%A9%5D%5B%5D=1")
        #expect(parameters["z"]?["\u{E9}"] == [1] && parameters["z"]?["e\u{301}"] == 2)
        #expect(parameters.description.contains("e\u{301} = 2;\u{E9} = (1);"))
        #expect(ParameterValue(["b": 1] as JSON) == ["b": 1])
    }

    @Test func `literals create a tree`() {
        let tree: ParameterValue = ["user": "ada", "tags": ["a", "b"], "n": 3, "x": 1.5, "ok": true, "none": .null]
        #expect(
            tree
                == .dictionary([
                    "user": .string("ada"), "tags": .array([.string("a"), .string("b")]), "n": .integer(3),
                    "x": .double(1.5), "ok": .bool(true), "none": .null,
                ]))
        #expect(tree["user"] == "ada")
        #expect(tree["nobody"] == nil)
    }

    @Test func `a repeated key has its last value`() {
        #expect(["a": 1, "a": 2] as ParameterValue == ["a": 2])
    }

    @Test func `integers of every width keep their value`() {
        #expect(ParameterValue(UInt8(200)) == .integer(200))
        #expect(ParameterValue(UInt64.max) == .unsignedInteger(.max))
        #expect(ParameterValue(Int128.max) == .number(JSONNumber(Int128.max)))
        #expect(ParameterValue(Int128.max).description == "170141183460469231731687303715884105727")
    }

    @Test func `any encodable value converts to a tree`() throws {
        struct Inner: Encodable {
            var tags: Set<String> = ["one"]
            var missing: Int?
        }
        struct Outer: Encodable {
            var id = UInt64.max
            var ratio: Float = 0.1
            var price = Decimal(string: "12.5")
            var link = URL(string: "http://a/b")
            var when = Date(timeIntervalSince1970: 5)
            var raw = Data([1, 2])
            var inner = [Inner()]
            var table = ["k": [1, 2]]
            var kind = Kind.big
        }
        enum Kind: String, Encodable { case big }
        let tree = try ParameterValue(encoding: Outer())
        #expect(tree["id"] == .unsignedInteger(.max))
        #expect(tree["ratio"] == 0.1)
        #expect(tree["price"] == .number(try #require(JSONNumber("12.5"))))
        #expect(tree["link"] == "http://a/b")
        #expect(tree["when"] == .date(Date(timeIntervalSince1970: 5)))
        #expect(tree["raw"] == .data(Data([1, 2])))
        #expect(tree["inner"] == [["tags": ["one"]]])
        #expect(tree["table"] == ["k": [1, 2]])
        #expect(tree["kind"] == "big")
    }

    @Test func `slices and other ordered collections are encoded as arrays`() throws {
        let numbers = [1, 2, 3, 4]
        let slices: [any Collection<Int>] = [numbers.prefix(3), [3, 2, 1].reversed(), numbers.lazy.map { $0 }.dropLast()]
        for slice in slices { #expect(try ParameterValue.converting(slice) == [1, 2, 3], "\(type(of: slice))") }
        #expect(try ParameterValue.converting(numbers[2..<2]) == .array([]))
        let nested: [String: Any?] = [
            "ids": [[Int?]]([[1, nil], [2]]).prefix(2), "days": ([1, "a"] as [Any]).dropFirst(),
        ]
        #expect(try ParameterValue.converting(nested) == ["ids": [[1, .null], [2]], "days": ["a"]])
        let error = failure { _ = try ParameterValue.converting(["ids": [Thread.main][...]]) }
        #expect(error?.localizedDescription.contains("The parameter ids.0 is of type") == true)
    }

    @Test func `superclass encoders and nested containers encode at the right place`() throws {
        struct Odd: Encodable {
            enum Key: CodingKey { case list, map }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                var list = container.nestedUnkeyedContainer(forKey: .list)
                try list.encode(1)
                try list.encodeNil()
                var inner = list.nestedContainer(keyedBy: Key.self)
                try inner.encode("x", forKey: .map)
                var map = container.nestedContainer(keyedBy: Key.self, forKey: .map)
                try map.encodeNil(forKey: .list)
                var single = container.superEncoder().singleValueContainer()
                try single.encode(7)
            }
        }
        #expect(
            try ParameterValue(encoding: Odd()) == ["list": [1, .null, ["map": "x"]], "map": ["list": .null], "super": 7])
    }

    @Test func `endless encoding fails without a crash`() {
        struct Endless: Encodable {
            enum Key: CodingKey { case next }
            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: Key.self)
                try container.encode(Endless(), forKey: .next)
            }
        }
        #expect(throws: EncodingError.self) { try ParameterValue(encoding: Endless()) }
    }

    @Test func `numbers have NSNumber's descriptions`() {
        #expect(ParameterValue.double(3.0).description == "3")
        #expect(ParameterValue.double(1e20).description == "1e+20")
        #expect(ParameterValue.double(0.1).description == "0.1")
        #expect(ParameterValue.bool(true).description == "1")
        #expect(ParameterValue(Int64.min).description == "-9223372036854775808")
    }

    @Test(arguments: [
        (0, "1970-01-01 00:00:00 +0000", "1970-01-01T00:00:00Z"),
        (1_357_000_000.5, "2013-01-01 00:26:40 +0000", "2013-01-01T00:26:40.500Z"),
        (-0.25, "1969-12-31 23:59:59 +0000", "1969-12-31T23:59:59.750Z"),
        (951_782_400, "2000-02-29 00:00:00 +0000", "2000-02-29T00:00:00Z"),
        (-62_135_596_800, "0001-01-01 00:00:00 +0000", "0001-01-01T00:00:00Z"),
        (253_402_300_799, "9999-12-31 23:59:59 +0000", "9999-12-31T23:59:59Z"),
    ])
    func `dates are formatted as by NSDate and RFC 3339`(seconds: Double, description: String, iso: String) {
        #expect(DateText.description(of: Date(timeIntervalSince1970: seconds)) == description)
        #expect(DateText.iso8601(Date(timeIntervalSince1970: seconds)) == iso)
    }

    @Test func `dates agree with Foundation's formatter`() {
        var generator = SplitMix64(seed: 3)
        let formatter = ISO8601DateFormatter()
        for _ in 0..<200 {
            // The random dates start in 1800, because Foundation's calendar differs before 1582.
            let date = Date(
                timeIntervalSince1970: Double(Int.random(in: -5_364_662_400..<4_102_444_800, using: &generator)))
            #expect(DateText.iso8601(date) == formatter.string(from: date))
        }
    }

    @Test(arguments: [Double.nan, .infinity, -1e300, 253_402_300_800, -62_135_596_801])
    func `a date outside the calendar cannot be formatted`(seconds: Double) {
        #expect(DateText.description(of: Date(timeIntervalSince1970: seconds)) == nil)
        #expect(DateText.iso8601(Date(timeIntervalSince1970: seconds)) == nil)
    }
}
