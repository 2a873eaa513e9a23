import ConvoySupport
import Foundation

/// Where files go, and what may be in their way: looked at before anything is sent.
enum Directories {
    /// Makes sure that there is a directory to write to.
    static func prepare(_ path: String) throws(ToolError) {
        var information = stat()
        if stat(path, &information) == 0 {
            guard information.st_mode & S_IFMT == S_IFDIR else {
                throw .failure("not a directory: \(Printable.line(path))")
            }
        } else {
            do {
                try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            } catch {
                throw .failure("cannot create the directory \(Printable.line(path)): \(ErrorText.line(for: error))")
            }
        }
        guard access(path, W_OK | X_OK) == 0 else {
            throw .failure("cannot write to \(Printable.line(path)): \(SystemError().text)")
        }
    }

    /// A file in a directory, written as people write it.
    static func join(_ directory: String, _ name: String) -> String {
        if directory.isEmpty || directory == "." { return name }
        return directory.utf8.last == UInt8(ascii: "/") ? directory + name : "\(directory)/\(name)"
    }

    /// The directories on the way to a relative path, the shortest first: "a" and "a/b" of "a/b/c".
    static func parents(of path: String) -> [String] {
        path.utf8.indices.filter { path.utf8[$0] == UInt8(ascii: "/") }.map { String(path[..<$0]) }
    }

    /// Whether a file can get this path, and nothing of somebody else's is lost by it.
    ///
    /// - Parameter replaces: whether a file that is there may be lost. What is no file never is: a directory cannot be
    ///   replaced, and a device or a pipe is not meant.
    static func checkIsFree(_ path: String, replaces: Bool) throws(ToolError) {
        let partial = FileNames.partial(of: path)
        for name in [path, partial] {
            guard let kind = kind(of: name) else { continue }
            guard replaces else { throw name == path ? FileProblem.exists(path) : FileProblem.partialExists(partial) }
            // The name of a link is given to the file; what it leads to stays.
            guard kind == S_IFREG || kind == S_IFLNK && name == path else {
                throw .failure("\(Printable.line(name)) is not a file")
            }
        }
        guard partial.utf8.count < Int(PATH_MAX) else {
            throw .failure("cannot create \(Printable.line(path)): \(SystemError(code: ENAMETOOLONG).text)")
        }
    }

    /// Whether all directories on the way from an output directory to a file in it are really inside of it, as far as
    /// they are there. A link may lead anywhere.
    static func checkIsInside(_ directory: String, _ path: String) throws(ToolError) {
        for parent in parents(of: path) {
            let place = join(directory, parent)
            guard let kind = kind(of: place) else { return }
            guard kind != S_IFLNK else {
                throw .failure("\(Printable.line(place)) is a symbolic link, which an output is not written through")
            }
            guard kind == S_IFDIR else { throw .failure("not a directory: \(Printable.line(place))") }
        }
    }

    /// What there is under the name, links not followed; nil for nothing.
    private static func kind(of path: String) -> mode_t? {
        var information = stat()
        return lstat(path, &information) == 0 ? information.st_mode & S_IFMT : nil
    }
}
