import ConvoySecurity
import ConvoySupport
import Foundation

/// The names of a download's files while it is not whole: those of the file with `.convoypart` and `.convoyjournal`
/// behind them, in the same directory.
package struct PartialPaths: Sendable, Equatable {
    package let partial: String
    package let journal: String
    /// That of what is to replace a partial file, which is kept meanwhile.
    package let replacement: String

    package static let partialSuffix = ".convoypart"
    package static let journalSuffix = ".convoyjournal"
    package static let replacementSuffix = ".convoynew"
    /// No name out of text from outside ends in one of these; see `FileName`.
    package static let suffixes = [partialSuffix, journalSuffix, replacementSuffix]

    /// Those of a file.
    package init(destination path: String) {
        self.init(directory: PathText.directory(of: path), name: PathText.name(of: path))
    }

    /// Those of a file, or of the one that a link leads to. Blocks.
    package init(following path: String) { self.init(destination: (try? FileRenaming.target(of: path)) ?? path) }

    /// Those of a file whose name the server will say, in a directory: named after its URL, so that a later download of
    /// the same finds them.
    package init(directory: String, url: URL) {
        self.init(directory: directory, name: "convoy-\(ResourcePlace(url).digest.prefix(24))")
    }

    private init(directory: String, name: String) {
        let stem = PathText.join(directory, Self.shortened(name))
        (partial, journal) = (stem + Self.partialSuffix, stem + Self.journalSuffix)
        replacement = stem + Self.replacementSuffix
    }

    /// A name to which the suffixes can be added. Most file systems allow 255 bytes.
    private static func shortened(_ name: String) -> String {
        let limit = 255 - journalSuffix.utf8.count
        guard name.utf8.count > limit else { return name }
        let digest = MessageDigest()
        digest.update(Data(name.utf8))
        let end = "-" + (digest.value()?.hexadecimalString.prefix(16) ?? "")
        var stem = name
        while stem.utf8.count + end.utf8.count > limit { stem.removeLast() }
        return stem + end
    }
}
