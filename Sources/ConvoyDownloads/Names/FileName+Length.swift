/// Shortening names.
extension FileName {
    /// The name in two parts, between which a number can be inserted: "a" and ".txt", "b" and ".tar.gz".
    package static func parts(of name: String) -> (stem: Substring, suffix: Substring) {
        let scalars = name.unicodeScalars
        guard let dot = scalars.lastIndex(of: "."), dot > scalars.startIndex else { return (name[...], "") }
        let stem = scalars[..<dot]
        let isArchive = stem.count > 4 && stem.suffix(4).elementsEqual(".tar".unicodeScalars)
        let cut = isArchive ? scalars.index(dot, offsetBy: -4) : dot
        return (Substring(scalars[..<cut]), Substring(scalars[cut...]))
    }

    /// Shortens the stem to fit the name into this many bytes, so that the suffix still shows the type; a suffix of more
    /// than 32 bytes is cut too.
    package static func shortened(_ name: String, to maximumLength: Int) -> String {
        guard name.utf8.count > maximumLength else { return name }
        let (stem, suffix) = parts(of: name)
        guard suffix.utf8.count <= 32 else { return prefix(name[...], maximumLength) }
        return prefix(stem, maximumLength - suffix.utf8.count) + suffix
    }

    /// The longest prefix that fits. It ends between two characters, unless the last one is very long: a letter may
    /// have any number of accents.
    private static func prefix(_ text: Substring, _ limit: Int) -> String {
        var (used, end) = (0, text.unicodeScalars.startIndex)
        for index in text.unicodeScalars.indices {
            let length = text.unicodeScalars[index].utf8.count
            guard used + length <= limit else { break }
            used += length
            end = text.unicodeScalars.index(after: index)
        }
        let short = text.unicodeScalars[..<end]
        guard end < text.endIndex, let last = text.indices.last(where: { $0 < end }) else { return String(short) }
        let isCut = text.index(after: last) > end
        return isCut && text.utf8.distance(from: last, to: end) <= 64 ? String(text[..<last]) : String(short)
    }
}
