import ConvoySupport
import Foundation

/// Where files go.
enum Directories {
    /// Makes sure that there is a directory to write to.
    static func prepare(_ directory: String) throws(ToolError) {
        let path = directory.isEmpty ? "." : directory
        var isDirectory: ObjCBool = false
        if FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory) {
            guard isDirectory.boolValue else { throw .failure("not a directory: \(Printable.line(path))") }
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
        return directory.hasSuffix("/") ? directory + name : "\(directory)/\(name)"
    }

    /// Whether there is anything under the name, a link to nowhere included.
    static func isTaken(_ path: String) -> Bool {
        var information = stat()
        return lstat(path, &information) == 0
    }
}
