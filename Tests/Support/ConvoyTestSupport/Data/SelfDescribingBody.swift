/// Bodies that describe themselves: each begins with a number and a length, followed by random bytes with that seed. A
/// body assembled from two others is detected.
package enum SelfDescribingBody {
    package static func make(number: UInt64, length: Int) -> [UInt8] {
        var random = SplitMix64(seed: number)
        var body = Array("\(number) \(length)\n".utf8)
        body.reserveCapacity(length + 8)
        while body.count < length { withUnsafeBytes(of: random.next()) { body += $0 } }
        return Array(body.prefix(max(length, 48)))
    }

    /// Returns the number of a body; nil if `make` has not created it.
    package static func number(_ body: [UInt8]) -> UInt64? {
        let words = String(decoding: body.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self).split(separator: " ")
        guard words.count == 2, let number = UInt64(words[0]), let length = Int(words[1]),
            make(number: number, length: length) == body
        else { return nil }
        return number
    }
}
