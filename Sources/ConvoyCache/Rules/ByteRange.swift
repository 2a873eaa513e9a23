import ConvoySupport

/// A range of bytes that a request asks for (RFC 9110, section 14.1.2). Only single ones are served from the cache.
enum ByteRange {
    /// The part of a body that a `Range` asks for.
    ///
    /// - Returns: nil for a field that asks for several ranges, for none that is there, or cannot be understood: it is the
    ///   origin's to answer.
    static func resolve(_ field: String, length: Int) -> Range<Int>? {
        let text = field.utf8
        guard let equals = text.firstIndex(of: UInt8(ascii: "=")),
            FieldNames.matches(String(field[..<equals]), "bytes")
        else { return nil }
        let range = HTTPSyntax.trimmed(field[text.index(after: equals)...])
        guard let dash = range.utf8.firstIndex(of: UInt8(ascii: "-")) else { return nil }
        let (first, last) = (range.utf8[..<dash], range.utf8[range.utf8.index(after: dash)...])
        if first.isEmpty {
            guard let count = DeltaSeconds.parse(last), count > 0, length > 0 else { return nil }
            return max(0, length - Int(min(count, Int64(length))))..<length
        }
        guard let start = DeltaSeconds.parse(first), start < length else { return nil }
        if last.isEmpty { return Int(start)..<length }
        guard let end = DeltaSeconds.parse(last), end >= start else { return nil }
        return Int(start)..<Int(min(end, Int64(length) - 1)) + 1
    }
}
