import ConvoySupport
import ConvoyWorkflow
import Foundation

/// Paths of files below a directory, as used in manifests and lists.
enum RelativePath {
    /// Returns the path without empty components and dots, or nil if it leaves the directory, names the directory itself, or
    /// contains characters that control a terminal.
    static func normalized(_ text: String) -> String? {
        let slash: Unicode.Scalar = "/"
        let parts = PathText.components(of: text).filter { !$0.isEmpty && $0 != "." }
        let isSafe =
            text.unicodeScalars.first != slash && text.unicodeScalars.last != slash && !parts.contains("..")
            && !parts.isEmpty && text.utf8.count < Int(PATH_MAX) - FileNames.maximumLength
        guard isSafe, !text.unicodeScalars.contains(where: Printable.isObeyed),
            parts.allSatisfy({ $0.utf8.count <= FileNames.maximumLength })
        else { return nil }
        return parts.joined(separator: "/")
    }
}

/// Functions that create file URLs from paths in options, lists and manifests.
typealias UserPath = ConvoyWorkflow.UserPath

/// Paths that do not name regular files.
enum SpecialFile {
    /// Returns whether a path is another name for standard output.
    static func isStandardOutput(_ path: String) -> Bool {
        ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].contains(path)
    }

    /// Returns whether a path names a device, a pipe or a descriptor, which is written to directly.
    static func isStream(_ path: String) -> Bool {
        if path == "/dev/stderr" || path.hasPrefix("/dev/fd/") || path.hasPrefix("/proc/self/fd/") { return true }
        var information = stat()
        guard stat(path, &information) == 0 else { return false }
        return [S_IFCHR, S_IFIFO].contains(information.st_mode & S_IFMT)
    }
}

/// Functions that read files specified by the user.
enum InputFile {
    /// Returns the contents of a file, or of standard input for `-`.
    ///
    /// - Parameter what: A description of the file, for errors.
    /// - Throws: A usage error if the file cannot be read or exceeds the limit in bytes.
    static func contents(of path: String, called what: String, limit: Int) throws(ToolError) -> Data {
        // Foundation's `Data(contentsOf:)` does not read pipes, which a shell makes for `<(…)`.
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .usage("cannot read \(what): \(SystemError().text)") }
        defer { if descriptor != STDIN_FILENO { close(descriptor) } }
        return try contents(of: descriptor, called: what, limit: limit)
    }

    /// Returns the remaining contents of a descriptor, which stays open.
    ///
    /// - Throws: The errors of ``contents(of:called:limit:)``.
    static func contents(of descriptor: Int32, called what: String, limit: Int) throws(ToolError) -> Data {
        do throws(FileContents.Failure) {
            return Data(try FileContents.read(descriptor, limit: limit))
        } catch {
            switch error {
            case .system(let cause): throw .usage("cannot read \(what): \(cause.text)")
            case .tooLarge(let limit): throw .usage("\(what) is larger than \(limit) bytes")
            }
        }
    }
}
