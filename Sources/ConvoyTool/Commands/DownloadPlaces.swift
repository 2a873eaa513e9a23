import Convoy
import ConvoySupport
import Foundation

/// The assignment of destinations to the files of a run, so that no two files have the same destination, even if the
/// paths of their directories are written differently.
struct DownloadPlaces {
    /// The destination of a file.
    enum Place {
        case file(String)
        /// The server determines the name. Includes the directory's absolute path, with links and dots resolved.
        case directory(String, resolved: String)

        var directory: String {
            switch self {
            case .file(let path): PathText.directory(of: path)
            case .directory(let directory, _): directory
            }
        }

        /// The path, or nil if the server determines the name.
        var path: String? {
            guard case .file(let path) = self else { return nil }
            return path
        }
    }

    private let directory: String
    private let usesServerNames: Bool
    /// Whether a number is added to the name of a new file if a file of that name exists.
    private let numbersFiles: Bool
    /// The names in use, for each directory.
    private var names: [String: FileNameAllocator] = [:]
    /// The paths that lists have named.
    private var named = OutputPaths()
    /// The absolute paths of directories, keyed by their paths as written.
    private var resolved: [String: String] = [:]
    /// The directories that contain explicitly named files.
    private(set) var directories: Set<String> = []

    init(directory: String, usesServerNames: Bool, numbersFiles: Bool = false) {
        self.directory = directory
        self.usesServerNames = usesServerNames
        self.numbersFiles = numbersFiles
    }

    /// Reserves the name that a list gives to a file, and its parent directories. Files that are named after their URLs
    /// avoid the reserved names.
    ///
    /// - Throws: A usage error if another file has the name.
    mutating func reserve(_ item: DownloadItem) throws(ToolError) {
        guard item.directory != nil || item.name != nil else { return }
        let directory = item.directory ?? self.directory
        let root = resolve(directory)
        if item.directory != nil { keep(root) }
        for parent in Directories.parents(of: item.name ?? "") { keep(PathText.join(root, parent)) }
        guard let path = item.name else {
            directories.insert(directory)
            return
        }
        let shown = Printable.line(path)
        let whole = PathText.join(root, path)
        switch named.add(whole, of: item.text) {
        case nil: break
        case .same: throw .usage("two files in the list have the name \(shown)")
        case .below(let file, _, _):
            let other = Printable.line(file.hasPrefix("\(root)/") ? String(file.dropFirst(root.count + 1)) : file)
            throw .usage("\(shown) is below \(other), which is another file in the list")
        }
        try Directories.checkIsInside(directory, path)
        let parent = PathText.directory(of: whole)
        guard names[parent]?.isFree(PathText.name(of: whole)) ?? true else {
            throw .usage("\(shown) is already the name of another file")
        }
        names[parent, default: FileNameAllocator()].keep(PathText.name(of: whole))
        directories.insert(PathText.directory(of: PathText.join(directory, path)))
    }

    /// Returns the destination of a file. A name given in a list has already been reserved.
    ///
    /// - Returns: The destination, and the preferred name if another file of the run already has that name.
    mutating func take(_ item: DownloadItem) -> (place: Place, wanted: String?) {
        let directory = item.directory ?? self.directory
        if let path = item.name { return (.file(numbered(PathText.join(directory, path))), nil) }
        let root = resolve(directory)
        if usesServerNames { return (.directory(directory, resolved: root), nil) }
        let wanted = FileNames.name(for: item.urls[0])
        let name = names[root, default: FileNameAllocator()].take(wanted)
        return (.file(numbered(PathText.join(directory, name))), name == wanted ? nil : wanted)
    }

    /// Returns a destination whose name is not in use, if numbering is enabled.
    mutating func numbered(_ place: Place) -> Place {
        guard case .file(let path) = place else { return place }
        return .file(numbered(path))
    }

    /// Returns the path, or the path with the first number that is not in use.
    private mutating func numbered(_ path: String) -> String {
        guard numbersFiles, Directories.hasFile(path) else { return path }
        let parent = resolve(PathText.directory(of: path))
        var number = 1
        while true {
            let candidate = "\(path).\(number)"
            let name = PathText.name(of: candidate)
            if !Directories.hasFile(candidate), names[parent]?.isFree(name) ?? true {
                names[parent, default: FileNameAllocator()].keep(name)
                return candidate
            }
            number += 1
        }
    }

    private mutating func keep(_ path: String) {
        names[PathText.directory(of: path), default: FileNameAllocator()].keep(PathText.name(of: path))
    }

    private mutating func resolve(_ directory: String) -> String {
        if let known = resolved[directory] { return known }
        let path = Directories.resolved(directory)
        resolved[directory] = path
        return path
    }
}
