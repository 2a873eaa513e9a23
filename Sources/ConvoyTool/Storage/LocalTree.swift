import ConvoyDownloads
import ConvoySupport
import Foundation

/// The regular files below a directory.
struct LocalTree: Sendable {
    struct LocalFile: Sendable {
        let size: Int64
        /// The time of the last modification, in seconds since 1970.
        let modified: Double
    }

    /// The files by their paths below the directory.
    private(set) var files: [String: LocalFile] = [:]
    /// The paths of links, devices and pipes, and of files whose names are not UTF-8.
    private(set) var skipped: Set<String> = []

    /// Reads a directory, without following links.
    ///
    /// - Throws: A ``ToolError`` if a directory cannot be read.
    init(_ directory: String, _ filter: PathFilter) throws(ToolError) {
        var waiting = [""]
        while let path = waiting.popLast() { waiting += try read(directory, path, filter) }
    }

    /// Reads one directory. Returns the paths of the directories in it.
    private mutating func read(_ root: String, _ path: String, _ filter: PathFilter) throws(ToolError) -> [String] {
        let place = path.isEmpty ? root : PathText.join(root, path)
        guard let stream = opendir(place) else {
            throw .disk("cannot read the directory \(Printable.line(place)): \(SystemError().text)")
        }
        defer { closedir(stream) }
        var directories: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                guard errno == 0 else {
                    throw .disk("cannot read the directory \(Printable.line(place)): \(SystemError().text)")
                }
                return directories
            }
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { chars in
                    (text: String(cString: chars), isValid: String(validatingCString: chars) != nil)
                }
            }
            guard name.text != ".", name.text != ".." else { continue }
            let child = path.isEmpty ? name.text : "\(path)/\(name.text)"
            guard name.isValid else {
                skipped.insert(child)
                continue
            }
            var facts = stat()
            guard lstat(PathText.join(root, child), &facts) == 0 else {
                // The file may have been removed in the meantime.
                if errno == ENOENT { continue }
                throw .disk("cannot read \(Printable.line(PathText.join(root, child))): \(SystemError().text)")
            }
            switch facts.st_mode & S_IFMT {
            case S_IFDIR: directories.append(child)
            case S_IFREG:
                guard filter.accepts(child) else { continue }
                let file = LocalFile(
                    size: Int64(facts.st_size),
                    modified: Double(facts.st_mtim.tv_sec) + Double(facts.st_mtim.tv_nsec) / 1e9)
                guard files.updateValue(file, forKey: child) == nil else {
                    throw Self.clash("two files have the name", PathText.join(root, child))
                }
            default:
                skipped.insert(child)
            }
        }
    }

    /// Throws an error if an object has the path of a file in another normal form, because one of them would be missed.
    func checkForm(of path: String) throws(ToolError) {
        guard let index = files.index(forKey: path), !files[index].key.utf8.elementsEqual(path.utf8) else { return }
        throw Self.clash("a file and an object have the name", path)
    }

    /// Returns the error for names that are equal except for their normal form. File systems and storages distinguish
    /// them, but Swift's strings and people do not.
    static func clash(_ what: String, _ name: String) -> ToolError {
        .disk("\(what) \(Printable.line(name)), in different Unicode normal forms; rename one of them")
    }

    /// Returns whether a path is that of a skipped file, or is below a skipped link to a directory.
    func hasSkipped(_ path: String) -> Bool {
        guard !skipped.isEmpty else { return false }
        let slashes = path.utf8.indices.filter { path.utf8[$0] == UInt8(ascii: "/") }
        return skipped.contains(path) || slashes.contains { skipped.contains(String(path[..<$0])) }
    }
}

/// The files that `--include` and `--exclude` select. Files of incomplete transfers are never selected.
struct PathFilter: Sendable {
    private let included: [String]
    private let excluded: [String]
    private static let own = FileNames.companionSuffixes.filter { $0 != ".part" } + [".convoyupload"]

    init(_ options: Options) {
        included = options.all("include")
        excluded = options.all("exclude")
    }

    func accepts(_ path: String) -> Bool {
        guard !Self.own.contains(where: path.hasSuffix) else { return false }
        let matches = { (pattern: String) in fnmatch(pattern, path, 0) == 0 }
        return (included.isEmpty || included.contains(where: matches)) && !excluded.contains(where: matches)
    }
}
