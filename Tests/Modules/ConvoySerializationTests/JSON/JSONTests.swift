import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySerialization

@Suite struct JSONTests {
    private func parse(_ text: String) throws -> JSON { try JSON(parsing: bytes(text)) }

    @Test(arguments: [
        "null", "true", "false", "0", "-0", "1.10", "12345678901234567.89", "1E+400", "1e-07",
        #""""#, #""é\"\\\n""#, "[]", "{}", #"{"z":1,"a":[{"b":null},[[]]],"":""}"#,
        "123456789012345678901234567890123456789012345678901234567890",
    ])
    func `a text survives a round trip with every digit`(text: String) throws {
        #expect(try parse(text).description == text)
        #expect(try parse(" \t\r\n\(text)\n").description == text)
        #expect(try parse("\u{FEFF}\(text)").description == text)
    }

    @Test func `escapes are decoded`() throws {
        #expect(try parse(#""\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00\u0000""#) == .string("\"\\/\u{8}\u{C}\n\r\té😀\0"))
    }

    @Test(arguments: [
        ("", 1, 1), ("  ", 1, 3), ("[1,]", 1, 4), ("[1 2]", 1, 4), ("[\n 1,\n 01]", 3, 2), ("{\"a\":1,}", 1, 8),
        ("{\"a\" 1}", 1, 6), ("{a:1}", 1, 2), ("[1", 1, 3), ("{\"a\":", 1, 6), ("\"a", 1, 1), ("\"\u{1}\"", 1, 2),
        (#""\x""#, 1, 2), (#""\u12""#, 1, 2), (#""\u+123""#, 1, 2), (#""\ud800""#, 1, 2), (#""\ud800\n""#, 1, 2),
        (#""\udc00""#, 1, 2), ("\"\\", 1, 2), ("tru", 1, 1), ("nulL", 1, 1), ("1 1", 1, 3), ("+1", 1, 1), (".5", 1, 1),
        ("1.", 1, 1), ("1e", 1, 1), ("1e+", 1, 1), ("-", 1, 1), ("-01", 1, 1), ("0x1", 1, 2), ("NaN", 1, 1),
        ("[1]]", 1, 4), ("'a'", 1, 1), ("/**/1", 1, 1), ("\u{FEFF}\u{FEFF}1", 1, 4),
    ])
    func `invalid JSON is an error with its position`(text: String, line: Int, column: Int) {
        #expect {
            try parse(text)
        } throws: { error in
            guard let error = error as? JSONSyntaxError else { return false }
            return error.position.line == line && error.position.column == column && !error.reason.isEmpty
        }
    }

    @Test(arguments: [#"{"a":1,"a":2}"#, #"{"b":0,"a":{"x":1},"\u0061":{"x":2},"a":3}"#, #"{"a":null,"a":1}"#])
    func `a repeated key has the value that JSONDecoder uses, or is an error`(text: String) throws {
        let tree = try parse(text)
        #expect(tree == (try JSONDecoder().decode(JSON.self, from: bytes(text))))
        let error = #expect(throws: JSONSyntaxError.self) {
            try JSON(parsing: bytes(text), rejectsDuplicateKeys: true)
        }
        #expect(error?.reason == "duplicate key" && error?.url == nil)
    }

    @Test func `bytes that are not UTF-8 are an error`() {
        for body in [[0x22, 0xC3, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22], [0x22, 0xC0, 0xAF, 0x22], [0xFF]] as [[UInt8]] {
            #expect(throws: JSONSyntaxError.self) { try JSON(parsing: Data(body)) }
        }
    }

    @Test func `the nesting depth is limited`() throws {
        func nested(_ depth: Int) -> Data {
            bytes(String(repeating: "[", count: depth) + String(repeating: "]", count: depth))
        }
        #expect(try JSON(parsing: nested(512)) != .null)
        #expect(throws: JSONSyntaxError.self) { try JSON(parsing: nested(513)) }
        #expect(throws: JSONSyntaxError.self) { try JSON(parsing: nested(1_000_000)) }
        #expect(throws: JSONSyntaxError.self) { try JSON(parsing: nested(2), maximumDepth: 1) }
        #expect(throws: JSONSyntaxError.self) { try JSON(parsing: nested(1), maximumDepth: 0) }
        #expect(throws: JSONSyntaxError.self) {
            try parse(String(repeating: #"{"a":"#, count: 1_000_000))
        }
    }

    @Test func `equivalent trees are equal`() throws {
        #expect(try parse(#"{"a":1.0,"b":[2]}"#) == parse(#"{"b":[20e-1],"a":1}"#))
        #expect(try parse(#"{"a":1.0,"b":[2]}"#).hashValue == parse(#"{"b":[20e-1],"a":1}"#).hashValue)
        for (one, other) in [
            ("1", "1.0000000000000000000001"), ("1", #""1""#), ("1", "true"), ("0", "false"), ("null", "false"),
            ("[1,2]", "[2,1]"), (#"{"a":1}"#, #"{"a":1,"b":1}"#), (#"{"a":1}"#, #"{"b":1}"#), ("{}", "[]"),
            // These texts are equal as `String`, but have different code points.
            ("\"\u{E9}\"", "\"e\u{301}\""), ("{\"\u{E9}\":1}", "{\"e\u{301}\":1}"),
        ] {
            #expect(try parse(one) != parse(other), "\(one), \(other)")
        }
    }

    @Test func `canonically equivalent keys are different`() throws {
        let both = try parse("{\"\u{E9}\":1,\"e\u{301}\":2}")
        #expect(both[JSONPointer(tokens: ["\u{E9}"])] == .number(JSONNumber(1)))
        #expect(both[JSONPointer(tokens: ["e\u{301}"])] == .number(JSONNumber(2)))
    }

    /// Returns a text of random values, and the text without whitespace.
    private func text(_ generator: inout SplitMix64, depth: Int = 0) -> String {
        func many(_ element: (inout SplitMix64) -> String) -> String {
            (0..<Int.random(in: 0...4, using: &generator)).map { _ in element(&generator) }.joined(separator: ",")
        }
        func digits(_ most: Int) -> String {
            (0..<Int.random(in: 1...most, using: &generator))
                .map { _ in String(Int.random(in: 0...9, using: &generator)) }.joined()
        }
        switch Int.random(in: 0...(depth < 5 ? 7 : 5), using: &generator) {
        case 0: return ["null", "true", "false"].randomElement(using: &generator) ?? ""
        case 1...3:
            let sign = Bool.random(using: &generator) ? "-" : ""
            let whole = Bool.random(using: &generator) ? "0" : "7" + digits(30)
            let fraction = Bool.random(using: &generator) ? "." + digits(30) : ""
            let exponents = ["", "e", "E", "e+", "e-", "E-"]
            let exponent = exponents.randomElement(using: &generator) ?? ""
            return sign + whole + fraction + (exponent.isEmpty ? "" : exponent + digits(3))
        case 4, 5: return [#""""#, #""é😀""#, #""\"\\\n""#, "\"plain\""].randomElement(using: &generator) ?? ""
        case 6: return "[" + many { self.text(&$0, depth: depth + 1) } + "]"
        default:
            var keys = 0
            return "{"
                + many { generator in
                    keys += 1
                    return "\"\(keys)\":" + self.text(&generator, depth: depth + 1)
                } + "}"
        }
    }

    @Test func `random JSON survives a round trip, and invalid JSON fails as in Foundation`() throws {
        let seed = UInt64.random(in: 0...999_999_999)
        print("JSONTests: seed \(seed)")
        var generator = SplitMix64(seed: seed)
        for round in 0..<3_000 {
            let whole = text(&generator)
            #expect(try parse(whole).description == whole, "seed \(seed), round \(round)")
            var broken = Array(whole.utf8)
            let place = Int.random(in: broken.indices, using: &generator)
            let bytes = Array(#"[]{},:"\0123e.-+ntf"#.utf8) + [0, 0x1F, 0x80]
            if Bool.random(using: &generator) {
                broken[place] = bytes.randomElement(using: &generator) ?? 0
            } else {
                broken.remove(at: place)
            }
            let foundation = try? JSONSerialization.jsonObject(with: Data(broken), options: .fragmentsAllowed)
            if foundation == nil {
                // Foundation rejects valid numbers that it cannot represent.
                if let read = try? JSON(parsing: Data(broken)) {
                    let again = try JSON(parsing: bytesOf(read))
                    #expect(again == read, "seed \(seed), round \(round)")
                    let text = String(decoding: broken, as: UTF8.self)
                    #expect(hasGreatNumber(read), "seed \(seed), round \(round): \(text)")
                }
            } else if let error = failure({ try JSON(parsing: Data(broken)) }) {
                // Foundation accepts texts with these errors, but they are not valid JSON.
                let reason = (error as? JSONSyntaxError)?.reason ?? ""
                let known = [
                    "expected a value", "expected a key in quotes", "unpaired surrogate",
                    "unexpected text after the value",  // a zero
                ]
                let text = String(decoding: broken, as: UTF8.self)
                #expect(known.contains(reason), "seed \(seed), round \(round): \(reason) in \(text)")
            }
        }
    }

    private func failure(_ body: () throws -> JSON) -> (any Error)? {
        do {
            _ = try body()
            return nil
        } catch { return error }
    }

    private func bytesOf(_ json: JSON) -> Data { Data(json.description.utf8) }

    private func hasGreatNumber(_ json: JSON) -> Bool {
        switch json {
        case .number(let number): return number.text.utf8.count > 15 || number.text.lowercased().contains("e")
        case .array(let values): return values.contains(where: hasGreatNumber)
        case .object(let object): return object.members.contains { hasGreatNumber($0.value) }
        default: return false
        }
    }
}
