import Foundation

/// Paths of files below a directory, as a manifest or a list names them.
enum RelativePath {
    /// The path without empty components and dots; nil for one that leaves the directory, names none of its files, or has
    /// characters that control a terminal.
    static func normalized(_ text: String) -> String? {
        // Split by scalars: a slash with a combining accent is another `Character`, but still a slash to the system.
        let slash: Unicode.Scalar = "/"
        let parts = text.unicodeScalars.split(separator: slash).map { String($0) }.filter { $0 != "." }
        let isSafe =
            text.unicodeScalars.first != slash && text.unicodeScalars.last != slash && !parts.contains("..")
            && !parts.isEmpty && text.utf8.count < Int(PATH_MAX) - FileNames.maximumLength
        guard isSafe, !text.unicodeScalars.contains(where: Printable.isObeyed),
            parts.allSatisfy({ $0.utf8.count <= FileNames.maximumLength })
        else { return nil }
        return parts.joined(separator: "/")
    }
}
