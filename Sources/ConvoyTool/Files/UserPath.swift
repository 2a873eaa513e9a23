import Foundation

/// Makes file URLs of paths that users, lists and manifests name.
enum UserPath {
    /// The URL of a path, which is taken as the system takes it. Foundation takes a `~` at its beginning for a home
    /// directory, so that a list could name files outside of the directory.
    static func url(_ path: String, isDirectory: Bool? = nil) -> URL {
        let literal = path.utf8.first == UInt8(ascii: "~") ? "./\(path)" : path
        guard let isDirectory else { return URL(fileURLWithPath: literal) }
        return URL(fileURLWithPath: literal, isDirectory: isDirectory)
    }
}
