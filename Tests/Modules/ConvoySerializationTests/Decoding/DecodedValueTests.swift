import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySerialization

/// Numbers, strings, keys and containers, which are decoded as by `JSONDecoder`.
@Suite struct DecodedValueTests {
    @Test(arguments: [
        "0", "-0", "1", "-1", "127", "128", "-128", "-129", "255", "256", "32767", "32768", "65535", "65536", "2147483647",
        "2147483648", "-2147483648", "4294967295", "4294967296", "9007199254740991", "9007199254740992", "9007199254740993",
        "9007199254740993.0", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
        "9999999999999999999", "10000000000000000000", "18446744073709551615", "18446744073709551616", "1e19", "1.0", "1.5",
        "-1.0", "1e2", "1E+2", "12e-1", "120e-1", "1e400", "-1e400", "1e-400", "0e999", "0.0", "-0.0", "0e-5", "1e22",
        "1e23",
        "123456789012345678e4", "0.1", "0.30000000000000004", "1.7976931348623157e308", "1.7976931348623159e308", "5e-324",
        "2e-324", "2.2250738585072011e-308", "3.4028235e38", "3.4028236e38", "1e-46", "16777217", "0.1000000014901161",
        "170141183460469231731687303715884105727", "170141183460469231731687303715884105728", "1e-1000000", "1e1000000",
        "340282366920938463463374607431768211455", "123456789012345678901234567890", "0.000000000000000000000000000001",
        "8.41e21", "9007199254740993e0", "100000000000000000000000", "1.00000000000000000000", "9.5367431640625e-7",
        "1234567890123456789", "-1234567890123456789.0", "4.35", "2.5e-8", "1e15", "1e16", "922337203685477580.7e1",
    ])
    func `a number decodes as every type`(text: String) {
        func compare<Value: Decodable>(_ type: Value.Type) {
            for text in [text, "[\(text)]", "[\(text) ]", #"{"a":\#(text)}"#] {
                expectSame(type, text)
                expectSame([Value].self, text)
                expectSame([String: Value].self, text)
            }
            expectSame([Value?].self, "[\(text),null]")
        }
        compare(Int8.self)
        compare(Int16.self)
        compare(Int32.self)
        compare(Int64.self)
        compare(Int.self)
        compare(Int128.self)
        compare(UInt8.self)
        compare(UInt16.self)
        compare(UInt32.self)
        compare(UInt64.self)
        compare(UInt.self)
        compare(UInt128.self)
        compare(Double.self)
        compare(Float.self)
        compare(Decimal.self)
        compare(Bool.self)
        compare(String.self)
    }

    @Test(arguments: [
        #""""#, #""a""#, #""fifteen letters""#, #""sixteen letters!""#, #""é""#, #""日本語 and more text""#, #""😀""#, #""\n""#,
        #""\"\\\/\b\f\n\r\t""#, #""\u0000""#, #""\u00e9\u00E9""#, #""\ud83d\ude00 and text""#, #""a\u0041b""#, #""e\u0301""#,
        "\"\u{7F}\u{80}\u{7FF}\u{800}\u{FFFF}\u{10000}\u{10FFFF}\"", #""12345678\"12345678\\1234567\u0030""#, #""\uFFFF""#,
    ])
    func `a string decodes as in Foundation`(text: String) {
        expectSame(String.self, text)
        expectSame([String].self, "[\(text), \(text)]")
        expectSame([String: String].self, "{\(text):\(text)}")
        expectSame(Int.self, text)
        expectSame([Bool].self, "[\(text)]")
    }

    @Test(arguments: [
        "", " ", "\"", "{", "[", "]", "[1,]", #"{"a":1,}"#, "[1 2]", #"{"a" 1}"#, #"{"a":}"#, #"{a:1}"#, "01", "[01]", "-",
        "[-]",
        "1.", "[1.]", ".5", "+1", "1e", "[1e+]", "0x10", "NaN", "[nul]", "truE", "tru", "[true", "\"\\x\"", "\"\\u12\"",
        "\"\\u12g4\"", #""\ud800""#, #""\udc00""#, #""\ud800\u0041""#, #""\ud800x""#, "\"\u{1}\"", "\"a\tb\"", "\u{FEFF}[1]",
        "[1]x",
        "[1] ]", "{}{}", "[1]\0", "\"abc", "\"abc\\", "\"abc\\\"", #"{"a":1"#, #"{"a":1 "b":2}"#, #"[1}"#, #"{"a":1]"#,
        "[,1]", "'a'",
    ])
    func `text that is not plain JSON is passed to Foundation`(text: String) throws {
        let decoder = JSONDecoder()
        func compare<Value: Decodable>(_ type: Value.Type) throws {
            let isLeft = try decoder.decodePlain(type, from: bytes(text), maximumDepth: 512) == nil
            #expect(isLeft)
            let outcome = DecodingOutcome.of { try decoder.decodeIndexed(type, from: bytes(text)) }
            #expect(outcome == DecodingOutcome.of { try decoder.decode(type, from: bytes(text)) })
        }
        try compare([Int].self)
        try compare([String: Int].self)
        try compare(Int.self)
        try compare(String.self)
    }

    @Test func `invalid UTF-8 is passed to Foundation`() throws {
        let bad: [[UInt8]] = [
            [0x80], [0xC0, 0x80], [0xC1, 0xBF], [0xC2], [0xC2, 0x41], [0xE0, 0x9F, 0xBF], [0xE1, 0x80], [0xED, 0xA0, 0x80],
            [0xF0, 0x8F, 0xBF, 0xBF], [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFF], [0xF1, 0x80, 0x80],
        ]
        for text in bad {
            for around in [0, 7, 8, 9] {
                let padding = [UInt8](repeating: 0x61, count: around)
                let data = Data([0x22] + padding + text + padding + [0x22])
                #expect(try JSONDecoder().decodePlain(String.self, from: data, maximumDepth: 512) == nil)
                #expect(throws: DecodingError.self) { try JSONDecoder().decodeIndexed(String.self, from: data) }
            }
        }
        let wide = try #require("[1]".data(using: .utf16LittleEndian))
        #expect(try JSONDecoder().decodeIndexed([Int].self, from: wide) == [1])
    }

    @Test func `the nesting limit is Foundation's`() throws {
        indirect enum Nest: Decodable {
            case end
            case more(Nest)
            init(from decoder: any Decoder) throws {
                var container = try decoder.unkeyedContainer()
                self = container.isAtEnd ? .end : .more(try container.decode(Nest.self))
            }
        }
        for depth in [511, 512, 513] {
            let text = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
            let outcome = Result { try JSONDecoder().decode(Nest.self, from: bytes(text)) }
            let own = Result { try JSONDecoder().decodePlain(Nest.self, from: bytes(text), maximumDepth: 512) }
            #expect((try own.get() != nil) == ((try? outcome.get()) != nil))
            #expect((depth > 512) == ((try? outcome.get()) == nil))
        }
    }

    private struct Pair: Decodable {
        var a: Int
        var b: Int?
        var é: Int?
        var kelvin: Int?
        enum CodingKeys: String, CodingKey { case a, b, é, kelvin = "K" }
    }

    @Test(arguments: [
        #"{"a":1,"a":2}"#, #"{"b":3,"a":1,"b":4,"a":2}"#, #"{"\u0061":1,"a":2}"#, #"{"a":1,"e\u0301":2}"#, #"{"a":1,"é":2}"#,
        #"{"a":1,"\u212a":2}"#, "{\"a\":1,\"\u{212A}\":2,\"K\":3}", "{}", #"{"b":1}"#, #"{"a":null}"#, #"{"a":1,"b":null}"#,
        #"{"":1}"#,
    ])
    func `the first of equal keys applies`(text: String) {
        expectSame(Pair.self, text)
        expectSame([String: Int].self, text)
    }

    /// Keys of large objects are no longer looked up one by one.
    @Test func `an object with many members decodes as in Foundation`() {
        let members = (0..<1000).map { #""k\#($0)":\#($0)"# }.joined(separator: ",")
        expectSame([String: Int].self, "{\(members)}")
        struct Backwards: Decodable {
            var sum = 0
            init(from decoder: any Decoder) throws {
                let container = try decoder.container(keyedBy: AnyKey.self)
                for number in (0..<1001).reversed() {
                    sum += try container.decodeIfPresent(Int.self, forKey: AnyKey("k\(number)")) ?? 1
                }
            }
        }
        expectSame(Backwards.self, "{\(members)}")
    }

    private class Base: Decodable {
        var id: Int
        private enum Keys: CodingKey { case id }
        required init(from decoder: any Decoder) throws {
            id = try decoder.container(keyedBy: Keys.self).decode(Int.self, forKey: .id)
        }
    }

    private final class Derived: Base, CustomStringConvertible {
        var name: String
        private enum Keys: CodingKey { case name, base }
        required init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Keys.self)
            name = try container.decode(String.self, forKey: .name)
            try super.init(from: name == "named" ? container.superDecoder(forKey: .base) : container.superDecoder())
        }
        var description: String { "\(id) \(name)" }
    }

    @Test(arguments: [
        #"{"name":"a","super":{"id":1}}"#, #"{"name":"named","base":{"id":2}}"#, #"{"name":"a"}"#,
        #"{"name":"a","super":null}"#,
        #"{"name":"named","base":{"id":"x"}}"#, #"{"name":"a","super":[]}"#,
    ])
    func `classes and their superclasses decode as in Foundation`(text: String) {
        expectSame(Derived.self, text)
        expectSame([Derived].self, "[\(text)]")
    }

    private enum Shape: Decodable {
        case circle(radius: Double)
        case square(Int)
        case none
    }
    private enum Color: String, Decodable { case red, green }

    @Test func `types of the standard library decode as in Foundation`() {
        for text in [
            #"[{"circle":{"radius":1}},{"square":{"_0":2}},{"none":{}}]"#, #"[{"x":{}}]"#, #"[{"square":{"_0":"x"}}]"#,
            "[{}]",
        ] {
            expectSame([Shape].self, text)
        }
        for text in [#"["red","green"]"#, #"["blue"]"#, "[1]", "[null]"] { expectSame([Color].self, text) }
        for text in [#"{"red":1}"#, #"{"blue":1}"#] { expectSame([String: Color].self, text) }
        for text in ["[1,2]", "[2,1]", "[1]"] { expectSame(Range<Int>.self, text) }
        expectSame(UUID.self, #""9B9E5C4E-6F0C-4A0B-9C52-0B3D7E0A1F11""#)
        expectSame(UUID.self, #""x""#)
        expectSame(Set<Int>.self, "[1]")
        expectSame([Int?].self, "[1,null]")
        expectSame([[[Int]]?].self, "[[[1],[]],null]")
        expectSame([Int: Int].self, #"{"-3":4}"#)
        expectSame([Int: Int].self, #"{"x":2}"#)
        expectSame(Int?.self, "null")
        expectSame(Int?.self, "1")
        expectSame([String?].self, #"[null,"a",1]"#)
    }

    /// A decoder that outlives the call keeps the bytes, although they belonged to the caller.
    @Test func `a retained decoder can be used later`() throws {
        struct Keeping: Decodable {
            let decoder: any Decoder
            let container: KeyedDecodingContainer<AnyKey>
            init(from decoder: any Decoder) throws {
                self.decoder = decoder
                container = try decoder.container(keyedBy: AnyKey.self)
            }
        }
        var text = bytes(#"{"a":"a text that is long","b":[1,2]}"#)
        let kept = try #require(try JSONDecoder().decodePlain(Keeping.self, from: text, maximumDepth: 9))
        text.resetBytes(in: 0..<text.count)
        #expect(try kept.container.decode(String.self, forKey: AnyKey("a")) == "a text that is long")
        #expect(try kept.decoder.container(keyedBy: AnyKey.self).decode([Int].self, forKey: AnyKey("b")) == [1, 2])
    }
}
