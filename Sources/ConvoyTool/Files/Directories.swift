import ConvoySupport
import Foundation

/// Checks the directories and files that will be written, before anything is sent.
enum Directories {
    /// Makes sure that a directory exists and is writable.
    static func prepare(_ path: String) throws(ToolError) {
        var information = stat()
        if stat(path, &information) == 0 {
            guard information.st_mode & S_IFMT == S_IFDIR else {
                throw .disk("not a directory: \(Printable.line(path))")
            }
        } else {
            do {
                try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            } catch {
                throw .disk("cannot create the directory \(Printable.line(path)): \(ErrorText.line(for: error))")
            }
        }
        guard access(path, W_OK | X_OK) == 0 else {
            throw .disk("cannot write to \(Printable.line(path)): \(SystemError().text)")
        }
    }

    /// The path of a file in a directory, in its shortest form.
    static func join(_ directory: String, _ name: String) -> String {
        if directory.isEmpty || directory == "." { return name }
        return directory.utf8.last == UInt8(ascii: "/") ? directory + name : "\(directory)/\(name)"
    }

    /// The parent directories of a relative path, the shortest first: "a" and "a/b" for "a/b/c".
    static func parents(of path: String) -> [String] {
        path.utf8.indices.filter { path.utf8[$0] == UInt8(ascii: "/") }.map { String(path[..<$0]) }
    }

    /// The directory of the file at a path. Foundation's `deletingLastPathComponent` traps for a path of one character.
    static func directory(of path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// Checks that a file can be written at a path without losing another one.
    ///
    /// - Parameters:
    ///   - partial: the path of the file while it is being written, which must be free, too; nil for one that another
    ///     checks.
    ///   - replaces: whether an existing file may be replaced. Directories, devices and pipes are never replaced.
    static func checkIsFree(_ path: String, partial: String?, replaces: Bool) throws(ToolError) {
        for name in [path, partial].compactMap(\.self) {
            guard let kind = kind(of: name) else { continue }
            guard replaces else { throw name == path ? FileProblem.exists(path) : FileProblem.partialExists(name) }
            // A link itself is replaced; its target is kept.
            guard kind == S_IFREG || kind == S_IFLNK && name == path else {
                throw .disk("\(Printable.line(name)) is not a file")
            }
        }
        let longest = FileNames.companions(of: path).map(\.utf8.count).max() ?? 0
        guard longest < Int(PATH_MAX) else {
            throw .disk("cannot create \(Printable.line(path)): \(SystemError(code: ENAMETOOLONG).text)")
        }
    }

    /// Checks that the existing directories between an output directory and a file in it are real directories inside
    /// it. A link may lead anywhere.
    static func checkIsInside(_ directory: String, _ path: String) throws(ToolError) {
        for parent in parents(of: path) {
            let place = join(directory, parent)
            guard let kind = kind(of: place) else { return }
            guard kind != S_IFLNK else {
                throw .disk("\(Printable.line(place)) is a symbolic link, which outputs must not pass through")
            }
            guard kind == S_IFDIR else { throw .disk("not a directory: \(Printable.line(place))") }
        }
    }

    /// The type of the file at a path, without following links; nil if there is none.
    private static func kind(of path: String) -> mode_t? {
        var information = stat()
        return lstat(path, &information) == 0 ? information.st_mode & S_IFMT : nil
    }
}
