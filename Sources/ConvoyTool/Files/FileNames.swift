import ConvoySupport
import Foundation

/// Names for files from URLs, which are not to be trusted.
enum FileNames {
    /// Short enough that ".part", and a number where two names are the same, still make a name of 255 bytes.
    static let maximumLength = 240

    /// The last component of the URL's path as a file name; "index.html" for one that ends in a slash.
    static func name(for url: URL) -> String {
        let path = URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedPath ?? ""
        let last = path.split(separator: "/", omittingEmptySubsequences: false).last ?? ""
        return last.isEmpty ? "index.html" : sanitised(decoded(last))
    }

    /// A name that stays in its directory and that no shell or terminal takes for something else.
    static func sanitised(_ name: String) -> String {
        var safe = String.UnicodeScalarView()
        for scalar in name.unicodeScalars { safe.append(scalar == "/" || Printable.isObeyed(scalar) ? "_" : scalar) }
        var text = String(safe).trimmingCharacters(in: .whitespaces)
        // A dot would hide the file, or name a directory; a hyphen or a tilde means something to a shell.
        if let first = text.first, ".-~".contains(first) { text = "_" + text.dropFirst() }
        return text.isEmpty ? "_" : shortened(text, to: maximumLength)
    }

    /// The name in two parts, between which a number can stand: "a" and ".txt", "b" and ".tar.gz".
    static func parts(of name: String) -> (stem: Substring, suffix: Substring) {
        guard let dot = name.lastIndex(of: "."), dot > name.startIndex else { return (name[...], "") }
        let stem = name[..<dot]
        guard stem.hasSuffix(".tar"), stem.utf8.count > 4 else { return (stem, name[dot...]) }
        let cut = name.index(dot, offsetBy: -4)
        return (name[..<cut], name[cut...])
    }

    private static func decoded(_ component: Substring) -> String {
        if let text = component.removingPercentEncoding { return text }
        // Bytes that are not UTF-8: each is replaced, so that a name stays.
        return String(decoding: PercentEncoding.decoded(Array(component.utf8)[...]), as: UTF8.self)
    }

    /// Cut in the stem, so that the suffix still shows the type; a suffix that is too long is cut as well.
    private static func shortened(_ name: String, to limit: Int) -> String {
        guard name.utf8.count > limit else { return name }
        let (stem, suffix) = parts(of: name)
        let kept = suffix.utf8.count <= 32 ? String(suffix) : ""
        var short = kept.isEmpty ? name : String(stem)
        while short.utf8.count + kept.utf8.count > limit { short.removeLast() }
        return short + kept
    }
}
