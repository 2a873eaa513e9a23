import ConvoySupport
import Foundation

/// Functions that list the files in a directory that the user names.
enum InputDirectory {
    static func isDirectory(_ path: String) -> Bool {
        var facts = stat()
        return stat(path, &facts) == 0 && facts.st_mode & S_IFMT == S_IFDIR
    }

    /// Returns the regular files in a directory and in its directories, in the order of their paths. Names that begin with
    /// `.` or `_` are skipped.
    static func paths(in directory: String, withSuffixes suffixes: [String]) throws(ToolError) -> [String] {
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: directory)
        } catch {
            throw .usage("cannot read \(Printable.line(directory)): \(ErrorText.line(for: error))")
        }
        var paths: [String] = []
        for name in names.sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) {
            guard let first = name.utf8.first, !"._".utf8.contains(first) else { continue }
            let path = PathText.join(directory, name)
            var facts = stat()
            // Links are not followed, because they may lead to a directory above.
            guard lstat(path, &facts) == 0 else { continue }
            switch facts.st_mode & S_IFMT {
            case S_IFDIR: paths += try self.paths(in: path, withSuffixes: suffixes)
            case S_IFREG where suffixes.contains(where: name.hasSuffix): paths.append(path)
            default: break
            }
        }
        return paths
    }
}
