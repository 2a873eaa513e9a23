import Convoy
import ConvoySupport
import Foundation

/// Makes safe file names from URLs, which are untrusted.
enum FileNames {
    /// Short enough that the name fits 255 bytes with a number and ".part" added.
    static let maximumLength = 240

    /// The name of an output of a manifest while it is being written.
    static func partial(of name: String) -> String { name + ".part" }

    /// The names that a file may have beside its own, and those of the files beside it.
    static func companions(of name: String) -> [String] {
        [partial(of: name)] + PartialPaths.suffixes.map { name + $0 }
    }

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
        let short = FileName.shortened(cleaned(safe[...]), to: maximumLength)
        return cleaned(Array(short.unicodeScalars)[...])
    }

    /// The name without whitespace at its ends, and with a visible first character without special meaning.
    private static func cleaned(_ name: ArraySlice<Unicode.Scalar>) -> String {
        var name = name.drop { $0.properties.isWhitespace }
        while name.last?.properties.isWhitespace == true { name.removeLast() }
        if let dot = FileName.reservedDot(in: name) { name[dot] = "_" }
        guard let first = name.first else { return "_" }
        // A dot would hide the file, or name a directory; a hyphen or a tilde is special in a shell.
        if ".-~".unicodeScalars.contains(first) {
            name.removeFirst()
        } else if !FileName.isFloating(first) {
            return text(name)
        }
        return "_" + text(name)
    }

    private static func decoded(_ component: Substring) -> String {
        if let text = component.removingPercentEncoding { return text }
        // Bytes that are not UTF-8 are replaced.
        return String(decoding: PercentEncoding.decoded(Array(component.utf8)[...]), as: UTF8.self)
    }

    private static func text(_ scalars: ArraySlice<Unicode.Scalar>) -> String {
        var view = String.UnicodeScalarView()
        view.append(contentsOf: scalars)
        return String(view)
    }
}
