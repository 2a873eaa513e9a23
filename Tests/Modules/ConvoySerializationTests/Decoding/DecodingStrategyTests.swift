import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySerialization

/// Each strategy of a `JSONDecoder` and each type it applies to, with valid and invalid values.
@Suite struct DecodingStrategyTests {
    private struct Event: Decodable {
        var name: String
        var at: Date
        var ends: Date?
    }

    private struct Blob: Decodable {
        var data: Data
        var more: [Data]?
    }

    private struct Link: Decodable { var url: URL }
    private struct Price: Decodable { var amount: Decimal }

    private struct Person: Decodable {
        var firstName: String
        var homeUrl: String?
        var addresses: [String: Address]
        var _private_: Int?

        struct Address: Decodable {
            var streetName: String
            var line1: String?
        }
    }

    @Test func `dates decode with the deferred strategy`() {
        expectSame(Event.self, #"{"name":"a","at":12.5,"ends":null}"#)
        expectSame(Event.self, #"{"name":"a","at":"x"}"#)
        expectSame(Event.self, #"{"name":"a","at":null}"#)
        expectSame([Date].self, "[1, 2.5e3, -0.0]")
        expectSame(Date.self, "1")
    }

    @Test func `dates decode from seconds and milliseconds`() {
        for strategy in [JSONDecoder.DateDecodingStrategy.secondsSince1970, .millisecondsSince1970] {
            for text in [#"{"name":"a","at":1234567890.123}"#, #"{"name":"a","at":"x"}"#, #"{"name":"a","at":1e999}"#] {
                expectSame(Event.self, text) { $0.dateDecodingStrategy = strategy }
            }
        }
    }

    @Test func `dates decode from ISO 8601`() {
        for date in ["2024-02-29T12:34:56Z", "2024-02-30T00:00:00Z", "x", "2024-01-01T00:00:00+02:00", "2024-01-01"] {
            for text in [#"{"name":"a","at":"\#(date)"}"#, #"[{"name":"a","at":"\#(date)"}]"#] {
                expectSame(Event.self, text) { $0.dateDecodingStrategy = .iso8601 }
                expectSame([Event].self, text) { $0.dateDecodingStrategy = .iso8601 }
            }
            expectSame([String: Date].self, #"{"a":"\#(date)"}"#) { $0.dateDecodingStrategy = .iso8601 }
            expectSame([Date].self, #"["\#(date)"]"#) { $0.dateDecodingStrategy = .iso8601 }
        }
    }

    @Test func `dates decode with a formatter`() {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.dateFormat = "yyyy-MM-dd"
        for date in [#""2024-02-29""#, #""x""#, "1", "null"] {
            expectSame(Event.self, #"{"name":"a","at":\#(date)}"#) { $0.dateDecodingStrategy = .formatted(formatter) }
        }
    }

    @Test func `dates decode with a closure`() {
        for text in [
            #"{"name":"a","at":"7"}"#, #"{"name":"a","at":7}"#, #"{"name":"a","at":"x"}"#, #"{"name":"a","at":null}"#,
        ] {
            expectSame(Event.self, text) {
                $0.dateDecodingStrategy = .custom { decoder in
                    let container = try decoder.singleValueContainer()
                    guard let days = Double(try container.decode(String.self)) else {
                        throw DecodingError.dataCorruptedError(in: container, debugDescription: "no days")
                    }
                    return Date(timeIntervalSince1970: days * 86400)
                }
            }
        }
    }

    @Test func `data decodes with each strategy`() {
        for data in [#""aGVsbG8=""#, #""aGVs\nbG8=""#, #""aGVsbG8""#, #""""#, "[1,2,255]", "[256]", "null", "{}"] {
            let text = #"{"data":\#(data),"more":[\#(data)]}"#
            expectSame(Blob.self, text)
            expectSame(Blob.self, text) { $0.dataDecodingStrategy = .deferredToData }
            expectSame(Blob.self, text) {
                $0.dataDecodingStrategy = .custom { Data(try $0.singleValueContainer().decode(String.self).utf8) }
            }
            expectSame(Data.self, data)
        }
    }

    @Test func `URLs and decimals decode as in Foundation`() {
        for url in [#""http://a.example/b?c""#, #""""#, #""http://[""#, #""a b""#, "1", "null"] {
            expectSame(Link.self, #"{"url":\#(url)}"#)
            expectSame([URL?].self, "[\(url)]")
        }
        for number in [
            "1.10", "-0.1", "123456789012345678901234567890.5", "1e130", "1e-130", "1e500", "-0", #""1""#, "null",
        ] {
            expectSame(Price.self, #"{"amount":\#(number)}"#)
            expectSame([String: Decimal].self, #"{"a":\#(number)}"#)
            expectSame(Decimal.self, number)
        }
    }

    @Test func `non-finite floats decode with each strategy`() {
        for text in [#"["inf","-inf","nan",1]"#, #"["in\u0066"]"#, #"["Inf"]"#, #"[""]"#, "[null]"] {
            expectSame([Double].self, text)
            for strategy in [("inf", "-inf", "nan"), ("", "inf", "Inf"), ("\u{66}", "f", "f")] {
                let prepare = { (decoder: JSONDecoder) in
                    decoder.nonConformingFloatDecodingStrategy = .convertFromString(
                        positiveInfinity: strategy.0, negativeInfinity: strategy.1, nan: strategy.2)
                }
                expectSame([Double].self, text, prepare)
                expectSame([Float].self, text, prepare)
                expectSame([Date].self, text, prepare)
            }
        }
    }

    @Test func `keys are converted from snake case, but not those of dictionaries`() {
        for text in [
            #"{"first_name":"a","home_url":"b","addresses":{"at_home":{"street_name":"c","line_1":"d"}},"_private_":1}"#,
            #"{"firstName":"a","first_name":"b","addresses":{}}"#, #"{"first_name":"b","firstName":"a","addresses":{}}"#,
            #"{"first__name":"a","addresses":{"a":{"street_NAME":"x"}}}"#, #"{"First_name":"a","addresses":{"a":{}}}"#,
            #"{"first_näme":"a","first_name":"b","addresses":{"a":null}}"#, #"{"first_name":"a","addresses":[]}"#,
            #"{"fi\u0072st_name":"a","addresses":{"a_b":{"street_name":1}}}"#,
        ] {
            expectSame(Person.self, text) { $0.keyDecodingStrategy = .convertFromSnakeCase }
            expectSame([Person].self, "[\(text)]") { $0.keyDecodingStrategy = .convertFromSnakeCase }
            expectSame(Person.self, text)
        }
    }

    /// Compares keys with Foundation's own conversion, using the keys that a container lists.
    @Test(arguments: [
        "a_b", "_a_b_", "__", "_", "", "a__b", "aB_cD", "URL_path", "x_2nd", "a_b2c", "line_1a", "don't_stop", "a_b-c",
        "é_é",
        "ab_é", "_a", "a_", "A_B", "a_B", "1_2", "a_1", "a_ß", "a_.b", "foo_BAR_baz", "_FooBar", "FOO",
    ])
    func `snake case is converted as in Foundation`(key: String) throws {
        struct Keys: Decodable {
            var names: [String]
            init(from decoder: any Decoder) throws {
                let container = try decoder.container(keyedBy: AnyKey.self)
                names = container.allKeys.map(\.stringValue)
                // The key is also found by its name before keys have been listed.
                for name in names where !(try decoder.container(keyedBy: AnyKey.self).contains(AnyKey(name))) {
                    names.append("not found")
                }
            }
        }
        let text = #"{"\#(key)":1}"#
        expectSame(Keys.self, text) { $0.keyDecodingStrategy = .convertFromSnakeCase }
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let name = try #require(try decoder.decode(Keys.self, from: bytes(text)).names.first)
        for candidate in [name, key, name.lowercased(), name.uppercased(), name + "x", String(name.dropLast())] {
            let isName = candidate == name
            let matches = bytes(key).withUnsafeBytes { key in
                bytes(candidate).withUnsafeBytes {
                    SnakeCase.matches(key.bindMemory(to: UInt8.self), $0.bindMemory(to: UInt8.self))
                }
            }
            // Without a result, the strings themselves are compared.
            if key.utf8.allSatisfy({ $0 < 0x80 }), let matches { #expect(matches == isName, "\(candidate)") }
        }
    }

    @Test func `keys are converted by a closure`() {
        for text in [#"{"NAME":"a","AT":1}"#, #"{"name":"a","NAME":"b","AT":1,"at":2}"#, #"{"NAME":"a"}"#] {
            expectSame([Event].self, "[\(text)]") {
                $0.keyDecodingStrategy = .custom { path in
                    AnyKey(path.dropLast().isEmpty ? "outside" : path[path.count - 1].stringValue.lowercased())
                }
            }
            expectSame([[String: Int]].self, #"[{"A":1}]"#) { $0.keyDecodingStrategy = .custom { _ in AnyKey("x") } }
        }
    }

    @Test func `a decoder that is a subclass or allows JSON5 decodes the data itself`() throws {
        final class Own: JSONDecoder, @unchecked Sendable {
            override func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
                try super.decode(type, from: bytes("[7]"))
            }
        }
        #expect(try Own().decodeIndexed([Int].self, from: bytes("[1]")) == [7])
        let relaxed = JSONDecoder()
        relaxed.allowsJSON5 = true
        #expect(try relaxed.decodeIndexed([Int].self, from: bytes("[1,/* two */ 2,]")) == [1, 2])
        let open = JSONDecoder()
        open.assumesTopLevelDictionary = true
        #expect(try open.decodeIndexed([String: Int].self, from: bytes(#""a":1"#)) == ["a": 1])
    }

    @Test func `a plain JSONDecoder is replaced by the direct decoder`() throws {
        #expect(try JSONDecoder().decodePlain([Int].self, from: bytes("[1]"), maximumDepth: 1) == [1])
        #expect(try JSONDecoder().decodePlain([Int].self, from: bytes("[1]"), maximumDepth: 0) == nil)
        let decoder = JSONDecoder()
        decoder.userInfo[AnyKey.word] = "x"
        expectSame(Word.self, "{}") { $0.userInfo[AnyKey.word] = "x" }
        #expect(try decoder.decodePlain(Word.self, from: bytes("{}"), maximumDepth: 1)?.word == "x")
    }

    private struct Word: Decodable {
        var word: String
        init(from decoder: any Decoder) throws { word = decoder.userInfo[AnyKey.word] as? String ?? "" }
    }
}
