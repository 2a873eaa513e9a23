import Convoy
import ConvoySupport
import Foundation

/// Decides where the files of a run go, so that no two are written to the same place, however their directories are
/// written.
struct DownloadPlaces {
    /// Where a file goes.
    enum Place {
        case file(String)
        /// The server tells the name. Also the directory's absolute path without links and dots.
        case directory(String, resolved: String)

        var directory: String {
            switch self {
            case .file(let path): PathText.directory(of: path)
            case .directory(let directory, _): directory
            }
        }

        /// nil if the server tells the name.
        var path: String? {
            guard case .file(let path) = self else { return nil }
            return path
        }
    }

    private let directory: String
    private let usesServerNames: Bool
    /// The names that are taken, for each directory.
    private var names: [String: FileNameAllocator] = [:]
    /// The paths that lists have named.
    private var named = OutputPaths()
    /// The absolute paths of directories, by how they are written.
    private var resolved: [String: String] = [:]

    init(directory: String, usesServerNames: Bool) {
        (self.directory, self.usesServerNames) = (directory, usesServerNames)
    }

    /// Keeps the names of the directories of files, and of those below them, free of other files. Called for all files
    /// before any gets its place.
    mutating func keepDirectories(of item: DownloadItem) {
        guard item.directory != nil || item.name?.contains("/") == true else { return }
        let directory = resolve(item.directory ?? self.directory)
        if item.directory != nil { keep(directory) }
        for parent in Directories.parents(of: item.name ?? "") { keep(PathText.join(directory, parent)) }
    }

    /// The place of a file.
    ///
    /// - Returns: the place, and the name that it should have had, if another file of the run has that.
    /// - Throws: a usage error for a name that a list has given to two files.
    mutating func take(_ item: DownloadItem) throws(ToolError) -> (place: Place, wanted: String?) {
        let directory = item.directory ?? self.directory
        guard let path = item.name else {
            if usesServerNames { return (.directory(directory, resolved: resolve(directory)), nil) }
            let wanted = FileNames.name(for: item.urls[0])
            let name = names[resolve(directory), default: FileNameAllocator()].take(wanted)
            return (.file(PathText.join(directory, name)), name == wanted ? nil : wanted)
        }
        let shown = Printable.line(path)
        let root = resolve(directory)
        let whole = PathText.join(root, path)
        switch named.add(whole, of: item.urls[0].absoluteString) {
        case nil: break
        case .same: throw .usage("two files of the list have the name \(shown)")
        case .below(let file, _, _):
            let other = Printable.line(file.hasPrefix("\(root)/") ? String(file.dropFirst(root.count + 1)) : file)
            throw .usage("\(shown) is below \(other), which is another file of the list")
        }
        try Directories.checkIsInside(directory, path)
        // Those of URLs go out of its way.
        let parent = PathText.directory(of: whole)
        names[parent, default: FileNameAllocator()].keep(PathText.name(of: whole))
        return (.file(PathText.join(directory, path)), nil)
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
