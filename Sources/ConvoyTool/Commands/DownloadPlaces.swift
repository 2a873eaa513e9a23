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
    /// Whether a file that is there has a number added to the name of a new one.
    private let numbersFiles: Bool
    /// The names that are taken, for each directory.
    private var names: [String: FileNameAllocator] = [:]
    /// The paths that lists have named.
    private var named = OutputPaths()
    /// The absolute paths of directories, by how they are written.
    private var resolved: [String: String] = [:]
    /// Where there are files with names of their own.
    private(set) var directories: Set<String> = []

    init(directory: String, usesServerNames: Bool, numbersFiles: Bool = false) {
        (self.directory, self.usesServerNames, self.numbersFiles) = (directory, usesServerNames, numbersFiles)
    }

    /// Keeps a name that a list gives to a file, and those of the directories on the way to it, free of other files. Files
    /// that have their names from their URLs go out of the way of those that were reserved before.
    ///
    /// - Throws: a usage error for a name that another file has.
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
        case .same: throw .usage("two files of the list have the name \(shown)")
        case .below(let file, _, _):
            let other = Printable.line(file.hasPrefix("\(root)/") ? String(file.dropFirst(root.count + 1)) : file)
            throw .usage("\(shown) is below \(other), which is another file of the list")
        }
        try Directories.checkIsInside(directory, path)
        let parent = PathText.directory(of: whole)
        guard names[parent]?.isFree(PathText.name(of: whole)) ?? true else {
            throw .usage("\(shown) is the name of another file of the run")
        }
        names[parent, default: FileNameAllocator()].keep(PathText.name(of: whole))
        directories.insert(PathText.directory(of: PathText.join(directory, path)))
    }

    /// The place of a file, which was reserved if a list names it.
    ///
    /// - Returns: the place, and the name that it should have had, if another file of the run has that.
    mutating func take(_ item: DownloadItem) -> (place: Place, wanted: String?) {
        let directory = item.directory ?? self.directory
        if let path = item.name { return (.file(numbered(PathText.join(directory, path))), nil) }
        let root = resolve(directory)
        if usesServerNames { return (.directory(directory, resolved: root), nil) }
        let wanted = FileNames.name(for: item.urls[0])
        let name = names[root, default: FileNameAllocator()].take(wanted)
        return (.file(numbered(PathText.join(directory, name))), name == wanted ? nil : wanted)
    }

    /// A place whose name no file has, if that is wanted.
    mutating func numbered(_ place: Place) -> Place {
        guard case .file(let path) = place else { return place }
        return .file(numbered(path))
    }

    /// The path, or the first with a number behind it that no file has.
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
