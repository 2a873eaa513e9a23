/// The files of a manifest's outputs, including partial files. Checks that no two are the same, and none is a directory
/// of another.
struct OutputPaths {
    /// Two outputs that cannot both be written.
    enum Conflict: Equatable {
        case same(other: String)
        /// One output is below a file of another.
        case below(file: String, of: String, by: String)
    }

    /// The owner of each file.
    private var files: [Path: String] = [:]
    /// For each directory, the owner of a file below it.
    private var directories: [Path: String] = [:]

    /// A path compared by its bytes, as by the system; `String` considers canonically equivalent strings equal.
    private struct Path: Hashable {
        let bytes: [UInt8]
        init(_ text: some StringProtocol) { bytes = Array(text.utf8) }
    }

    /// Adds an output, whose path has neither empty components nor dots.
    mutating func add(_ path: String, of id: String) -> Conflict? {
        let names = [path] + FileNames.companions(of: path)
        for name in names {
            if let other = files[Path(name)] { return .same(other: other) }
            if let other = directories[Path(name)] { return .below(file: name, of: id, by: other) }
        }
        var parents: [Path] = []
        for index in path.utf8.indices where path.utf8[index] == UInt8(ascii: "/") {
            let parent = path[..<index]
            if let other = files[Path(parent)] { return .below(file: String(parent), of: other, by: id) }
            parents.append(Path(parent))
        }
        for name in names { files[Path(name)] = id }
        for parent in parents { directories[parent] = id }
        return nil
    }
}
