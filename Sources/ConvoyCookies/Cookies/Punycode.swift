import Foundation

/// Writes internationalized host names in ASCII (RFC 3492, RFC 5891).
///
/// Names are composed and put in lower case first. That is less than UTS #46 asks for, but the same for each spelling of
/// a name that occurs in URLs: a cookie is at worst not sent, never to another host.
enum Punycode {
    /// The host with each label that is not ASCII encoded as `xn--…`; nil if that is impossible.
    static func host(_ host: Substring) -> String? {
        var labels: [String] = []
        // The dots of other scripts separate labels, too.
        let dots: Set<Character> = [".", "\u{3002}", "\u{FF0E}", "\u{FF61}"]
        for label in host.split(omittingEmptySubsequences: false, whereSeparator: dots.contains) {
            let label = label.lowercased()
            if label.utf8.allSatisfy({ $0 < 0x80 }) {
                labels.append(label)
            } else {
                guard let encoded = encoded(composed(label)), encoded.utf8.count <= 59 else { return nil }
                labels.append("xn--" + encoded)
            }
        }
        return labels.joined(separator: ".")
    }

    private static func composed(_ label: String) -> [UInt32] {
        label.precomposedStringWithCanonicalMapping.unicodeScalars.map(\.value)
    }

    private static func encoded(_ scalars: [UInt32]) -> String? {
        var output = scalars.filter { $0 < 0x80 }.map { UInt8($0) }
        let basicCount = output.count
        if basicCount > 0 { output.append(UInt8(ascii: "-")) }
        // No host is longer, so that nothing below can overflow.
        guard scalars.count <= 63 else { return nil }
        var (next, delta, bias) = (UInt32(0x80), UInt32(0), UInt32(72))
        var handled = basicCount
        while handled < scalars.count {
            guard let smallest = scalars.filter({ $0 >= next }).min() else { return nil }
            delta += (smallest - next) * UInt32(handled + 1)
            next = smallest
            for scalar in scalars {
                if scalar < next { delta += 1 }
                guard scalar == next else { continue }
                var rest = delta
                var k: UInt32 = 36
                while true {
                    let threshold = k <= bias ? 1 : min(k - bias, 26)
                    if rest < threshold { break }
                    output.append(digit(threshold + (rest - threshold) % (36 - threshold)))
                    rest = (rest - threshold) / (36 - threshold)
                    k += 36
                }
                output.append(digit(rest))
                bias = adapted(delta, count: UInt32(handled + 1), isFirst: handled == basicCount)
                delta = 0
                handled += 1
            }
            delta += 1
            next += 1
        }
        return String(decoding: output, as: UTF8.self)
    }

    private static func digit(_ value: UInt32) -> UInt8 {
        UInt8(value < 26 ? value + 0x61 : value - 26 + 0x30)
    }

    private static func adapted(_ delta: UInt32, count: UInt32, isFirst: Bool) -> UInt32 {
        var delta = isFirst ? delta / 700 : delta / 2
        delta += delta / count
        var k: UInt32 = 0
        while delta > 455 {
            delta /= 35
            k += 36
        }
        return k + 36 * delta / (delta + 38)
    }
}
