import ConvoyTestSupport
import Foundation

/// Random JSON with constructs that are difficult for decoders.
struct RandomDocument {
    static let keys = [
        "a", "b", "first_name", "firstName", "firstNam", "_x_", "é", "e\u{301}", "K", "\u{212A}", "super", "", "URL_path",
        "urlPath", "x_2nd", "x2Nd", "a key that is long", "hidden", "1", "aB_cD", "abCd",
    ]

    private var random: SplitMix64

    init(seed: UInt64) { random = SplitMix64(seed: seed) }

    private mutating func pick(_ count: Int) -> Int { Int(random.next() % UInt64(count)) }
    private mutating func pick<Value>(of values: [Value]) -> Value { values[pick(values.count)] }

    /// Returns a valid text.
    mutating func text() -> [UInt8] {
        var text: [UInt8] = []
        appendValue(to: &text, depth: pick(2) == 0 ? 1 : 0)
        return text
    }

    /// Returns a text with some bytes changed, removed or duplicated.
    mutating func mutated(_ text: [UInt8]) -> [UInt8] {
        var text = text
        for _ in 0...pick(2) where !text.isEmpty {
            let place = pick(text.count)
            switch pick(6) {
            case 0: text[place] = UInt8(truncatingIfNeeded: random.next())
            case 1: text.removeSubrange(place...)
            case 2: text.remove(at: place)
            case 3: text[place] ^= 1 << UInt8(pick(8))
            case 4: text.insert(text[pick(text.count)], at: place)
            default: text.insert(pick(of: Array(#"[]{}:,"\-+.eE0 "#.utf8)), at: place)
            }
        }
        return text
    }

    private mutating func appendSpace(to text: inout [UInt8]) {
        guard pick(4) == 0 else { return }
        for _ in 0...pick(2) { text.append(pick(of: [0x20, 0x09, 0x0A, 0x0D])) }
    }

    private mutating func appendValue(to text: inout [UInt8], depth: Int) {
        appendSpace(to: &text)
        defer { appendSpace(to: &text) }
        // Usually, the outermost value is a container.
        switch depth == 0 ? 4 + pick(2) : pick(depth < 5 ? 6 : 4) {
        case 0: text += pick(of: ["null", "true", "false"]).utf8
        case 1, 2: text += number().utf8
        case 3: appendString(pick(of: RandomDocument.texts), to: &text)
        case 4:
            text.append(UInt8(ascii: "["))
            for index in 0..<pick(5) {
                if index > 0 { text.append(UInt8(ascii: ",")) }
                appendValue(to: &text, depth: depth + 1)
            }
            if text.last != UInt8(ascii: "[") { appendSpace(to: &text) }
            text.append(UInt8(ascii: "]"))
        default:
            text.append(UInt8(ascii: "{"))
            // Some objects are so large that their keys are not looked up one by one.
            for index in 0..<(pick(50) == 0 ? 400 : pick(7)) {
                if index > 0 { text.append(UInt8(ascii: ",")) }
                appendSpace(to: &text)
                appendString(RandomDocument.keys[pick(pick(3) == 0 ? RandomDocument.keys.count : 6)], to: &text)
                appendSpace(to: &text)
                text.append(UInt8(ascii: ":"))
                appendValue(to: &text, depth: index > 7 ? 5 : depth + 1)
            }
            appendSpace(to: &text)
            text.append(UInt8(ascii: "}"))
        }
    }

    private static let texts =
        keys + [
            "text", "aGVsbG8=", "aGVsbG8", "2024-02-29T12:34:56Z", "http://a.example/", "http://[", "a \"quoted\" \\ text",
            "line\nbreak\ttab\u{8}\u{C}\r", "😀", "日本語のテキスト", "\u{0}", "sixteen letters!", "/", "\u{FFFF}",
        ]

    private static let numbers = [
        "0", "-0", "1", "-1", "127", "128", "255", "256", "-129", "65536", "4294967296", "9007199254740993",
        "9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616",
        "1.0", "1.5", "-0.0", "1e2", "1E+2", "10e-1", "1e400", "1e-400", "0e999", "1e39", "3.4028236e38", "0.1", "1e22",
        "1e23",
        "9007199254740993.0", "170141183460469231731687303715884105728", "1e19", "5e-324",
        "123456789012345678901234567890.5",
        "1e130", "1e200", "1e-200",
    ]

    private mutating func number() -> String {
        switch pick(4) {
        case 0: return pick(of: RandomDocument.numbers)
        case 1: return "\(Int64(bitPattern: random.next()) >> pick(64))"
        case 2:
            let value = Double(bitPattern: random.next())
            return value.isFinite ? "\(value)" : "1e5"
        default:
            let fraction = pick(2) == 0 ? "" : ".\(random.next() >> pick(64))"
            let exponent = pick(2) == 0 ? "" : "\(pick(of: ["e", "E", "e+", "e-"]))\(pick(40))"
            return "\(pick(2) == 0 ? "-" : "")\(random.next() >> pick(64))\(fraction)\(exponent)"
        }
    }

    private mutating func appendString(_ string: String, to text: inout [UInt8]) {
        text.append(0x22)
        let escapesMore = pick(6) == 0
        for scalar in string.unicodeScalars {
            if scalar == "\"" || scalar == "\\" || scalar.value < 0x20 || (escapesMore && pick(3) == 0) {
                for unit in String(scalar).utf16 {
                    let digits = String(unit, radix: 16, uppercase: pick(2) == 0)
                    text += ("\\u" + String(repeating: "0", count: 4 - digits.count) + digits).utf8
                }
            } else {
                text += String(scalar).utf8
            }
        }
        text.append(0x22)
    }
}
