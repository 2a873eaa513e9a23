import Foundation

/// Functions that create file URLs from paths in options, lists and manifests.
package enum UserPath {
    /// Returns the URL of a path, interpreted as the system does. Foundation expands a leading `~` to a home directory,
    /// which would let a list name files outside its directory.
    package static func url(_ path: String, isDirectory: Bool? = nil) -> URL {
        let literal = path.utf8.first == UInt8(ascii: "~") ? "./\(path)" : path
        guard let isDirectory else { return URL(fileURLWithPath: literal) }
        return URL(fileURLWithPath: literal, isDirectory: isDirectory)
    }
}

extension ManifestValue {
    /// Returns the path of a file or a socket.
    func path(_ what: String) throws(ManifestError) -> String {
        let text = try string(what)
        guard !text.isEmpty else { throw problem("\(what) must be a file") }
        // The system would end the path at a NUL character.
        guard !text.utf8.contains(0) else { throw problem("\(what) must not contain a NUL character") }
        return text
    }

    /// Checks that a file that is sent or read exists, is readable and is allowed.
    func checkFile(_ file: String) throws(ManifestError) {
        let path: String
        do throws(EvaluationError) { path = try document.files.path(of: file) } catch { throw problem(error.message) }
        guard access(path, R_OK) == 0 else {
            throw problem("cannot read \(quoted(file)): \(String(cString: strerror(errno)))")
        }
    }

    func file(_ what: String) throws(ManifestError) -> URL { UserPath.url(try path(what)) }
}
