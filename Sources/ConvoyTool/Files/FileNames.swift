import ConvoySupport
import Foundation

/// Makes safe file names from URLs, which are untrusted.
enum FileNames {
    /// Short enough that the name fits 255 bytes with a number and ".part" added.
    static let maximumLength = 240

    /// The name of a file while it is being written.
    static func partial(of name: String) -> String { name + ".part" }

    /// The last component of the URL's path as a file name; "index.html" if the path ends in a slash.
    static func name(for url: URL) -> String {
        let path = URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedPath ?? ""
        let last = path.split(separator: "/", omittingEmptySubsequences: false).last ?? ""
        return last.isEmpty ? "index.html" : sanitised(decoded(last))
    }

    /// A name that cannot leave its directory and is not special to shells or terminals. Not longer than
    /// ``maximumLength`` bytes.
    ///
    /// It works on Unicode scalars: a dot with a combining accent is one `Character`, but still hides the file.
    static func sanitised(_ name: String) -> String {
        let safe = name.unicodeScalars.map { $0 == "/" || Printable.isObeyed($0) ? "_" : $0 }
        return cleaned(shortened(cleaned(safe[...])))
    }

    /// The name without whitespace at its ends, and with a visible first character without special meaning.
    private static func cleaned(_ name: ArraySlice<Unicode.Scalar>) -> String {
        var name = name.drop { $0.properties.isWhitespace }
        while name.last?.properties.isWhitespace == true { name.removeLast() }
        guard let first = name.first else { return "_" }
        // A dot would hide the file, or name a directory; a hyphen or a tilde is special in a shell.
        if ".-~".unicodeScalars.contains(first) { name.removeFirst() } else if !isFloating(first) { return text(name) }
        return "_" + text(name)
    }

    /// Whether a scalar combines with the previous one, or is invisible.
    private static func isFloating(_ scalar: Unicode.Scalar) -> Bool {
        let properties = scalar.properties
        return properties.isGraphemeExtend || properties.isDefaultIgnorableCodePoint
    }

    /// The name in two parts, between which a number can be inserted: "a" and ".txt", "b" and ".tar.gz".
    static func parts(of name: String) -> (stem: Substring, suffix: Substring) {
        let scalars = name.unicodeScalars
        guard let dot = scalars.lastIndex(of: "."), dot > scalars.startIndex else { return (name[...], "") }
        let stem = scalars[..<dot]
        let isArchive = stem.count > 4 && stem.suffix(4).elementsEqual(".tar".unicodeScalars)
        let cut = isArchive ? scalars.index(dot, offsetBy: -4) : dot
        return (Substring(scalars[..<cut]), Substring(scalars[cut...]))
    }

    private static func decoded(_ component: Substring) -> String {
        if let text = component.removingPercentEncoding { return text }
        // Bytes that are not UTF-8 are replaced.
        return String(decoding: PercentEncoding.decoded(Array(component.utf8)[...]), as: UTF8.self)
    }

    /// Shortens the stem, so that the suffix still shows the type; a suffix that is too long is cut too.
    private static func shortened(_ name: String) -> ArraySlice<Unicode.Scalar> {
        guard name.utf8.count > maximumLength else { return Array(name.unicodeScalars)[...] }
        let (stem, suffix) = parts(of: name)
        let keepsSuffix = suffix.utf8.count <= 32
        let short = prefix(keepsSuffix ? stem : name[...], maximumLength - (keepsSuffix ? suffix.utf8.count : 0))
        return Array((short + (keepsSuffix ? String(suffix) : "")).unicodeScalars)[...]
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

    private static func text(_ scalars: ArraySlice<Unicode.Scalar>) -> String {
        var view = String.UnicodeScalarView()
        view.append(contentsOf: scalars)
        return String(view)
    }
}
