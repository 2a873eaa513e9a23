import ConvoySupport
import Foundation

/// The directory that contains the files that a manifest may send or read, if they are limited to one.
struct FileRoot: Sendable {
    /// Relative paths start at the current directory, and all files are allowed.
    static let none = FileRoot(directory: nil)

    let directory: String?

    /// Returns the path at which to open a file that a manifest names.
    ///
    /// - Throws: An error if the file is outside the directory, also through a symbolic link.
    func path(of file: String) throws(EvaluationError) -> String {
        guard let directory else { return file }
        let path = file.utf8.first == UInt8(ascii: "/") ? file : PathText.join(directory, file)
        // A missing file is reported when it is opened.
        // The directory itself is allowed, because a computed path may start there.
        guard Self.isInside(directory, path) != false || Self.realPath(path) == Self.realPath(directory) else {
            throw EvaluationError(
                message: "invalid file \(quoted(file, isCut: false)): it is outside --file-root", isAboutFile: true)
        }
        return path
    }

    /// Returns whether a file is in a directory or below it, or nil if one of them does not exist.
    static func isInside(_ directory: String, _ path: String) -> Bool? {
        guard let parent = realPath(directory), let file = realPath(path) else { return nil }
        return file.utf8.starts(with: (parent == "/" ? parent : parent + "/").utf8)
    }

    /// Returns the path without symbolic links, or nil if the file does not exist.
    static func realPath(_ path: String) -> String? {
        guard let found = realpath(path, nil) else { return nil }
        defer { free(found) }
        return String(cString: found)
    }
}
