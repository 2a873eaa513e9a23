import ConvoySupport
import ConvoyWorkflow
import Foundation

/// Paths of files below a directory, as a manifest or a list names them.
enum RelativePath {
    /// The path without empty components and dots; nil for one that leaves the directory, names none of its files, or has
    /// characters that control a terminal.
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

/// Makes file URLs of paths that users, lists and manifests name.
typealias UserPath = ConvoyWorkflow.UserPath

/// What a path is that is none of a file.
enum SpecialFile {
    /// Whether a path is another name of standard output.
    static func isStandardOutput(_ path: String) -> Bool {
        ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].contains(path)
    }

    /// Whether what has this path is written as it is: a device, a pipe, or a descriptor.
    static func isStream(_ path: String) -> Bool {
        if path == "/dev/stderr" || path.hasPrefix("/dev/fd/") || path.hasPrefix("/proc/self/fd/") { return true }
        var information = stat()
        guard stat(path, &information) == 0 else { return false }
        return [S_IFCHR, S_IFIFO].contains(information.st_mode & S_IFMT)
    }
}

/// Reads files that the user names.
enum InputFile {
    /// The contents of a file; of standard input for `-`.
    ///
    /// - Parameter what: what the file is, for errors.
    /// - Throws: a usage error if it cannot be read, or is longer than the limit in bytes.
    static func contents(of path: String, called what: String, limit: Int) throws(ToolError) -> Data {
        // Foundation's `Data(contentsOf:)` does not read pipes, which a shell makes for `<(…)`.
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .usage("cannot read \(what): \(SystemError().text)") }
        defer { if descriptor != STDIN_FILENO { close(descriptor) } }
        return try contents(of: descriptor, called: what, limit: limit)
    }

    /// What is left to read from a descriptor, which stays open.
    ///
    /// - Throws: as ``contents(of:called:limit:)`` of a path.
    static func contents(of descriptor: Int32, called what: String, limit: Int) throws(ToolError) -> Data {
        do throws(FileContents.Failure) {
            return Data(try FileContents.read(descriptor, limit: limit))
        } catch {
            switch error {
            case .system(let cause): throw .usage("cannot read \(what): \(cause.text)")
            case .tooLarge(let limit): throw .usage("\(what): it has more than \(limit) bytes")
            }
        }
    }
}
