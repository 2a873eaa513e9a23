import Foundation
import Testing

@testable import ConvoySerialization

@Suite struct JSONNumberTests {
    @Test(arguments: [
        "", "+1", ".5", "5.", "01", "-01", "00", "1e", "1e+", "-", "--1", "1 ", " 1", "1,5", "0x10", "NaN", "Infinity",
        "1_000", "١", "1e1.5",
    ])
    func `a text that is not a JSON number is rejected`(text: String) {
        #expect(JSONNumber(text) == nil)
    }

    @Test(arguments: [
        ("1", "1.0"), ("1", "1e0"), ("1.10", "11e-1"), ("100", "1E+2"), ("0", "-0"), ("0.000", "0e999"),
        ("12345678901234567.89", "1234567890123456789e-2"), ("-5e3", "-5000"), ("1e400", "10e399"),
        ("0.1e-9223372036854775807", "0.10e-9223372036854775807"),
    ])
    func `numbers with equal values are equal`(one: String, other: String) throws {
        let (one, other) = (try #require(JSONNumber(one)), try #require(JSONNumber(other)))
        #expect(one == other && other == one && one.hashValue == other.hashValue)
    }

    @Test(arguments: [
        ("1", "-1"), ("1", "10"), ("9007199254740993", "9007199254740992"), ("0.1", "0.1000000000000000055511151231"),
        ("1e400", "1e401"), ("0", "1e-400"), ("1e99999999999999999999", "2e99999999999999999999"),
        ("1e9223372036854775807", "1e-9223372036854775808"),
    ])
    func `numbers with different values are not equal`(one: String, other: String) throws {
        #expect(try #require(JSONNumber(one)) != #require(JSONNumber(other)))
    }

    @Test func `numbers convert to other types only if they fit`() throws {
        func number(_ text: String) throws -> JSONNumber { try #require(JSONNumber(text)) }
        #expect(try number("1e3").integer(as: Int64.self) == 1000)
        #expect(try number("10.0").integer(as: UInt8.self) == 10)
        #expect(try number("-9223372036854775808").integer(as: Int64.self) == .min)
        #expect(try number("9223372036854775807").integer(as: Int64.self) == .max)
        for text in ["9223372036854775808", "-9223372036854775809", "0.5", "1e19", "1e999999999", "1e-1"] {
            #expect(try number(text).integer(as: Int64.self) == nil, "\(text)")
        }
        #expect(try number("-1").integer(as: UInt64.self) == nil)
        #expect(try number("1e99999999999999999999").integer(as: Int.self) == nil)
        #expect(try number("0e99999999999999999999").integer(as: Int.self) == 0)
        #expect(try number("1e308").double == 1e308)
        #expect(try number("1e309").double == nil)
        #expect(try number("5e-324").double == .leastNonzeroMagnitude)
        #expect(try number("1e-400").double == 0)
        #expect(JSONNumber(Double.nan) == nil && JSONNumber(-Double.infinity) == nil && JSONNumber(Decimal.nan) == nil)
        #expect(JSONNumber(2.0)?.text == "2" && JSONNumber(-0.0)?.text == "-0" && JSONNumber(1e-7)?.text == "1e-07")
        #expect(JSONNumber(UInt64.max).text == "18446744073709551615")
    }

    @Test func `a decimal number is sent with all its digits`() throws {
        struct Price: Encodable { var price: Decimal }
        for text in [
            "12345678901234567.89", "0.1", "-0.0000001", "99999999999999999999999999999999999999", "18446744073709551616",
        ] {
            let price = try #require(Decimal(string: text))
            let parameters = try ParameterValue(encoding: Price(price: price))
            let body = try JSONRequestSerializer().request(method: .post, url: exampleURL, parameters: parameters).httpBody
            #expect(String(decoding: body ?? Data(), as: UTF8.self) == "{\"price\":\(text)}")
            #expect(try QueryStringStyle.brackets.queryString(from: parameters) == "price=\(text)")
        }
        #expect(try ParameterValue(encoding: Price(price: 3)) == ["price": 3])
        #expect(ParameterValue(Decimal(UInt64.max)) == .unsignedInteger(.max))
        let nan = try ParameterValue(encoding: Price(price: .nan))
        #expect(throws: NSError.self) {
            try JSONRequestSerializer().request(method: .post, url: exampleURL, parameters: nan)
        }
    }

    @Test func `a property list contains the exact number, or the conversion fails`() throws {
        func list(_ text: String) throws -> Any? {
            let number = try #require(JSONNumber(text))
            let body = try PropertyListRequestSerializer(format: .binary).request(
                method: .post, url: exampleURL, parameters: ["n": ParameterValue(number)]
            ).httpBody
            let object = try PropertyListSerialization.propertyList(from: try #require(body), format: nil)
            return (object as? [String: Any])?["n"]
        }
        #expect(try list("1.10") as? Double == 1.1)
        #expect(try list("1e3") as? Int == 1000)
        for text in ["12345678901234567.89", "18446744073709551615", "1e400", "1e-400"] {
            #expect(throws: NSError.self, "\(text)") { try list(text) }
        }
    }

    @Test func `a JSON tree converts to parameters with all digits of its numbers`() throws {
        let text = #"{"a":[1.10,12345678901234567.89,1e400,-0,7],"b":null,"c":{"d":true,"e":"x"}}"#
        let parameters = ParameterValue(try JSON(parsing: bytes(text)))
        let body = try JSONRequestSerializer().request(method: .post, url: exampleURL, parameters: parameters).httpBody
        #expect(String(decoding: body ?? Data(), as: UTF8.self) == text)
        #expect(parameters["c"] == ["d": true, "e": "x"] && parameters["b"] == .null)
        #expect(
            ParameterValue(try JSON(parsing: bytes("[7, -7, 18446744073709551615]"))) == [7, -7, .unsignedInteger(.max)])
    }
}
