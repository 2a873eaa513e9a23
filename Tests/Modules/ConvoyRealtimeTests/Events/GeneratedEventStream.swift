import ConvoyTestSupport
import Foundation

/// Random streams that contain typical pitfalls for parsers.
enum GeneratedEventStream {
    private static let names = [
        "data", "data", "data", "event", "id", "retry", "Data", "dat", "datas", "", " data", "id ", "unknown",
        "\u{FEFF}data",
    ]
    private static let values: [[UInt8]] = [
        [], Array("x".utf8), Array(" x".utf8), Array("  two  ".utf8), Array("a:b: c".utf8), Array("1000".utf8),
        Array("-1".utf8), Array("1x".utf8), Array("007".utf8), Array("99999999999999999999".utf8), Array("…é😀".utf8), [0],
        [0x78, 0, 0x79], [0xFF, 0xFE], [0xE2, 0x80], [0xF0, 0x9F, 0x98], [0xC0, 0xAF], [0xED, 0xA0, 0x80],
        [0xF4, 0x90, 0x80],
        [0xE2, 0x28, 0xA1], Array("\t".utf8), Array("\u{2028}".utf8), Array("١".utf8),
    ]
    private static let ends: [[UInt8]] = [[10], [10], [13], [13, 10]]

    static func make(_ random: inout SplitMix64) -> Data {
        var bytes: [UInt8] = []
        if Int.random(in: 0..<6, using: &random) == 0 { bytes += [0xEF, 0xBB, 0xBF] }
        for _ in 0..<Int.random(in: 0...30, using: &random) {
            switch Int.random(in: 0..<10, using: &random) {
            case 0, 1, 2: break
            case 3: bytes += Array(": a comment".utf8)
            case 4: bytes += random.data(count: Int.random(in: 1...6, using: &random))
            default:
                bytes += Array((names.randomElement(using: &random) ?? "").utf8)
                if Int.random(in: 0..<8, using: &random) > 0 { bytes += [0x3A] }
                if Bool.random(using: &random) { bytes += [0x20] }
                bytes += values.randomElement(using: &random) ?? []
            }
            bytes += ends.randomElement(using: &random) ?? []
        }
        if Int.random(in: 0..<4, using: &random) == 0 { bytes += Array("data: cut".utf8) }
        return Data(bytes)
    }

    /// Returns the stream in pieces of random lengths, some of them empty.
    static func split(_ stream: Data, _ random: inout SplitMix64) -> [Data] {
        var (pieces, rest) = ([Data](), stream[...])
        while !rest.isEmpty {
            let count = Int.random(in: 0...min(rest.count, 9), using: &random)
            pieces.append(Data(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        return pieces
    }
}
