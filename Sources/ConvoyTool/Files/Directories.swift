import ConvoySupport
import Foundation

/// Functions that check the directories and files to be written, before anything is sent.
enum Directories {
    /// Makes sure that a directory exists and is writable.
    static func prepare(_ path: String) throws(ToolError) {
        var information = stat()
        if stat(path, &information) == 0 {
            guard information.st_mode & S_IFMT == S_IFDIR else {
                throw .disk("not a directory: \(Printable.line(path))")
            }
        } else {
            for parent in parents(of: path) + [path] where !parent.isEmpty && mkdir(parent, 0o777) != 0 {
                let error = SystemError()
                // For an existing directory, mkdir may report an error other than EEXIST, for example on a read-only file
                // system.
                guard stat(parent, &information) != 0 || information.st_mode & S_IFMT != S_IFDIR else { continue }
                let reason = error.code == EEXIST ? SystemError(code: ENOTDIR) : error
                throw .disk("cannot create the directory \(Printable.line(path)): \(reason.text)")
            }
        }
        guard access(path, W_OK | X_OK) == 0 else {
            throw .disk("cannot write to \(Printable.line(path)): \(SystemError().text)")
        }
    }

    /// Returns the parent directories of a relative path, shortest first: "a" and "a/b" for "a/b/c".
    static func parents(of path: String) -> [String] {
        path.utf8.indices.filter { path.utf8[$0] == UInt8(ascii: "/") }.map { String(path[..<$0]) }
    }

    /// Checks that a file can be written at a path without overwriting another file.
    ///
    /// - Parameters:
    ///   - partial: The path of the file while it is being written, which must also be free, or nil if it is checked
    ///     elsewhere.
    ///   - hint: The options to suggest if the file exists.
    ///   - replaces: Whether an existing file may be replaced. Directories, devices and pipes are never replaced.
    static func checkIsFree(_ path: String, partial: String?, replaces: Bool, see hint: String = "--force") throws(ToolError)
    {
        if let kind = kind(of: path) {
            guard replaces else { throw FileProblem.exists(path, see: hint) }
            // A symbolic link itself is replaced; its target is kept.
            guard kind == S_IFREG || kind == S_IFLNK else { throw .disk("\(Printable.line(path)) is not a file") }
        }
        if let partial, let kind = kind(of: partial) {
            guard replaces else { throw FileProblem.partialExists(partial) }
            guard kind == S_IFREG else { throw .disk("\(Printable.line(partial)) is not a file") }
        }
        try checkLength(of: path)
        guard path.utf8.count + FileNames.longestCompanionSuffix < Int(PATH_MAX) else {
            throw .disk("cannot create \(Printable.line(path)): \(SystemError(code: ENAMETOOLONG).text)")
        }
    }

    /// Checks that the file system allows a name of the given length.
    static func checkLength(of path: String) throws(ToolError) {
        let limit = pathconf(PathText.directory(of: path), Int32(_PC_NAME_MAX))
        guard PathText.name(of: path).utf8.count > (limit > 0 ? limit : Int(NAME_MAX)) else { return }
        throw .disk("cannot create \(Printable.line(path)): \(SystemError(code: ENAMETOOLONG).text)")
    }

    /// Returns the absolute path of a directory, with links and dots resolved for the part that exists. Different paths
    /// of the same directory have the same result.
    static func resolved(_ path: String) -> String {
        var components = path.utf8.split(separator: UInt8(ascii: "/")).map { String(decoding: $0, as: UTF8.self) }
        var missing: [String] = []
        while true {
            let start = path.utf8.first == UInt8(ascii: "/") ? "/" : "."
            let known = components.reduce(start) { "\($0)/\($1)" }
            if let found = realpath(known, nil) {
                defer { free(found) }
                // Missing components cannot be links.
                var whole = String(cString: found).utf8.split(separator: UInt8(ascii: "/")).map { String(Substring($0)) }
                for component in missing.reversed() where component != "." {
                    if component == ".." { _ = whole.popLast() } else { whole.append(component) }
                }
                return "/" + whole.joined(separator: "/")
            }
            guard let last = components.popLast() else { return path }
            missing.append(last)
        }
    }

    /// Checks that the existing directories between an output directory and a file in it are real directories. A link
    /// could lead outside the output directory.
    static func checkIsInside(_ directory: String, _ path: String) throws(ToolError) {
        for parent in parents(of: path) {
            let place = PathText.join(directory, parent)
            guard let kind = kind(of: place) else { return }
            guard kind != S_IFLNK else {
                throw .disk("\(Printable.line(place)) is a symbolic link; outputs must not be written through links")
            }
            guard kind == S_IFDIR else { throw .disk("not a directory: \(Printable.line(place))") }
        }
    }

    /// Returns whether something other than a directory exists at a path.
    static func hasFile(_ path: String) -> Bool { kind(of: path).map { $0 != S_IFDIR } ?? false }

    /// Returns the type of the file at a path, without following links, or nil if it does not exist.
    private static func kind(of path: String) -> mode_t? {
        var information = stat()
        return lstat(path, &information) == 0 ? information.st_mode & S_IFMT : nil
    }
}

/// Error messages about files.
enum FileProblem {
    /// Returns an error for a file that already exists.
    ///
    /// - Parameter hint: The options to suggest.
    static func exists(_ path: String, see hint: String = "--force") -> ToolError {
        .disk("file exists: \(Printable.line(path)); see \(hint)")
    }

    static func partialExists(_ path: String) -> ToolError {
        .disk("\(Printable.line(path)) is left from an interrupted or running download; see --force")
    }

    static func error(_ error: FileWritingError) -> ToolError {
        let path = Printable.line(error.path)
        return switch error.reason {
        case .exists: exists(error.path)
        case .partialExists: partialExists(error.path)
        case .partialIsShared: .disk("\(path) is used by another download, or is not a regular file")
        case .cannotCreate: .disk("cannot create \(path): \(error.cause.text)")
        case .cannotWrite, .cannotRead: .disk("cannot write \(path): \(error.cause.text)")
        }
    }
}
