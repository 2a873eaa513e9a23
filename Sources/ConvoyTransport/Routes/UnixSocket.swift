import Foundation

/// The address of a Unix socket (unix(7)).
struct UnixSocket: Sendable, Hashable {
    /// A path in the file system, or a name without one.
    let name: String
    /// Whether it is a name in the abstract namespace, which Linux has.
    let isAbstract: Bool

    /// - Parameter text: a path, or `@` and an abstract name.
    /// - Throws: `URLError.badURL` for one that no socket can have.
    init(_ text: String) throws(URLError) {
        isAbstract = text.first == "@"
        name = isAbstract ? String(text.dropFirst()) : text
        guard !name.isEmpty, !name.utf8.contains(0), name.utf8.count <= Self.limit else {
            throw URLError(
                .badURL, url: nil,
                "The path of the Unix socket is empty, longer than \(Self.limit) bytes, or has a zero byte.")
        }
    }

    /// `sun_path`, with a zero byte before or after.
    private static let limit = 107
}
