import ConvoySupport

/// One element of a Range field (RFC 9110 section 14.1.2).
enum ByteRange: Equatable {
    /// From the first offset to the last, or to the end.
    case from(Int, last: Int?)
    /// This many bytes at the end.
    case suffix(Int)

    /// Parses a Range field; nil if it must be ignored, because it is not a single byte range.
    static func single(_ field: String) -> ByteRange? {
        guard let equals = field.firstIndex(of: "="), HTTPSyntax.trimmed(field[..<equals]).lowercased() == "bytes" else {
            return nil
        }
        let list = field[field.index(after: equals)...]
        guard !list.contains(",") else { return nil }
        let text = HTTPSyntax.trimmed(list)
        guard let dash = text.firstIndex(of: "-") else { return nil }
        let first = text[..<dash], last = text[text.index(after: dash)...]
        if first.isEmpty { return number(last).map { .suffix($0) } }
        guard let start = number(first) else { return nil }
        if last.isEmpty { return .from(start, last: nil) }
        guard let end = number(last), end >= start else { return nil }
        return .from(start, last: end)
    }

    /// The offsets in a representation of this length; nil if there are none (416).
    func resolved(in length: Int) -> Range<Int>? {
        switch self {
        case .from(let first, let last):
            guard first < length else { return nil }
            return first..<(min(last ?? .max, length - 1) + 1)
        case .suffix(let count):
            guard count > 0, length > 0 else { return nil }
            return max(0, length - count)..<length
        }
    }

    /// A number that is too large counts as the largest.
    private static func number(_ digits: Substring) -> Int? {
        guard !digits.isEmpty, digits.utf8.allSatisfy(ASCII.isDigit) else { return nil }
        return Int(digits) ?? .max
    }
}
