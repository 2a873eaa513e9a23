import Foundation

/// Makes file URLs of paths that users, lists and manifests name.
package enum UserPath {
    /// The URL of a path, which is taken as the system takes it. Foundation takes a `~` at its beginning for a home
    /// directory, so that a list could name files outside of the directory.
    package static func url(_ path: String, isDirectory: Bool? = nil) -> URL {
        let literal = path.utf8.first == UInt8(ascii: "~") ? "./\(path)" : path
        guard let isDirectory else { return URL(fileURLWithPath: literal) }
        return URL(fileURLWithPath: literal, isDirectory: isDirectory)
    }
}

extension ManifestValue {
    /// The path of a file or a socket.
    func path(_ what: String) throws(ManifestError) -> String {
        let text = try string(what)
        guard !text.isEmpty else { throw problem("\(what) must be a file") }
        // The system would end the path there.
        guard !text.utf8.contains(0) else { throw problem("\(what) must not have a NUL") }
        return text
    }

    func file(_ what: String) throws(ManifestError) -> URL { UserPath.url(try path(what)) }
}
