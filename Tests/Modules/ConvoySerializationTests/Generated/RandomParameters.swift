import ConvoyTestSupport
import Foundation

@testable import ConvoySerialization

/// Random trees of parameters, determined by a seed.
struct RandomParameters {
    var generator: SplitMix64
    var allowsSets = true
    var allowsNull = true
    var allowsControlCharacters = true

    init(seed: UInt64) { generator = SplitMix64(seed: seed) }

    mutating func number(_ range: Range<Int>) -> Int { Int.random(in: range, using: &generator) }

    mutating func tree() -> ParameterValue { dictionary(depth: 0) }

    private mutating func value(depth: Int) -> ParameterValue {
        let kind = number(0..<(depth < 4 ? 14 : 10))
        switch kind {
        case 0: return allowsNull ? .null : 0
        case 1: return .bool(Bool.random(using: &generator))
        case 2: return .integer(Int64(truncatingIfNeeded: generator.next()) >> Int64(number(0..<64)))
        case 3: return allowsNull ? ParameterValue(generator.next()) : .integer(1)
        case 4: return .double(finite())
        case 5: return .data(Data((0..<number(0..<6)).map { _ in UInt8(truncatingIfNeeded: generator.next()) }))
        case 6: return .date(Date(timeIntervalSince1970: Double(number(-1_000_000..<4_000_000_000))))
        case 7...9: return .string(string())
        case 10: return .array((0..<number(0..<4)).map { _ in value(depth: depth + 1) })
        case 11 where allowsSets: return .set(Set((0..<number(0..<4)).map { _ in value(depth: depth + 1) }))
        default: return dictionary(depth: depth + 1)
        }
    }

    private mutating func dictionary(depth: Int) -> ParameterValue {
        var values: [String: ParameterValue] = [:]
        for _ in 0..<number(0..<4) { values[key()] = value(depth: depth) }
        return .dictionary(values)
    }

    private mutating func finite() -> Double {
        let value = Double(bitPattern: generator.next())
        return value.isFinite ? value : Double(number(-1000..<1000))
    }

    /// Returns a key that begins with a letter, so that it is never an index, and contains no separators of any style.
    private mutating func key() -> String {
        let text = "k" + string()
        return String(String.UnicodeScalarView(text.unicodeScalars.filter { !"[].".unicodeScalars.contains($0) }))
    }

    mutating func string() -> String {
        var scalars = String.UnicodeScalarView()
        for _ in 0..<number(0..<8) {
            let value: UInt32 =
                switch number(0..<10) {
                case 0 where allowsControlCharacters: UInt32(number(0..<0x20))
                case 1: UInt32(number(0xA0..<0x800))
                case 2: UInt32(number(0x800..<0xD800))
                case 3: UInt32(number(0x10000..<0x110000))
                case 4: UInt32(number(0x300..<0x370))
                default: UInt32(number(0x20..<0x7F))
                }
            if let scalar = Unicode.Scalar(value) { scalars.append(scalar) }
        }
        return String(scalars)
    }
}
