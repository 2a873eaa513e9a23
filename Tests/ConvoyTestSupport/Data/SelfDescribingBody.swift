/// Bodies that describe themselves: a number and a length in front, and random bytes of that seed behind. A body that is
/// put together from two is found out.
package enum SelfDescribingBody {
    package static func make(number: UInt64, length: Int) -> [UInt8] {
        var random = SplitMix64(seed: number)
        var body = Array("\(number) \(length)\n".utf8)
        body.reserveCapacity(length + 8)
        while body.count < length { withUnsafeBytes(of: random.next()) { body += $0 } }
        return Array(body.prefix(max(length, 48)))
    }

    /// The number of a body; nil if it is not one that `make` has made.
    package static func number(_ body: [UInt8]) -> UInt64? {
        let words = String(decoding: body.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self).split(separator: " ")
        guard words.count == 2, let number = UInt64(words[0]), let length = Int(words[1]),
            make(number: number, length: length) == body
        else { return nil }
        return number
    }
}
