import Convoy
import ConvoySupport
import Foundation

/// Decides where the files of a run go.
struct DownloadPlaces {
    /// Where a file goes.
    enum Place {
        case file(String)
        /// The server tells the name.
        case directory(String)
    }

    private let directory: String
    private let usesServerNames: Bool
    /// The names that are taken, for each directory.
    private var names: [String: FileNameAllocator] = [:]
    /// The paths that lists have named, with the directories.
    private var named: [String: OutputPaths] = [:]

    init(directory: String, usesServerNames: Bool) {
        (self.directory, self.usesServerNames) = (directory, usesServerNames)
    }

    /// The place of a file.
    ///
    /// - Returns: the place, and the name that it should have had, if another file of the run has that.
    /// - Throws: a usage error for a name that a list has given to two files.
    mutating func take(_ item: DownloadItem) throws(ToolError) -> (place: Place, wanted: String?) {
        let directory = item.directory ?? self.directory
        guard let path = item.name else {
            if usesServerNames { return (.directory(directory), nil) }
            let wanted = FileNames.name(for: item.urls[0])
            let name = names[directory, default: FileNameAllocator()].take(wanted)
            return (.file(PathText.join(directory, name)), name == wanted ? nil : wanted)
        }
        let shown = Printable.line(path)
        switch named[directory, default: OutputPaths()].add(path, of: item.urls[0].absoluteString) {
        case nil: break
        case .same: throw .usage("two files of the list have the name \(shown)")
        case .below(let file, _, _):
            throw .usage("\(shown) is below \(Printable.line(file)), which is another file of the list")
        }
        try Directories.checkIsInside(directory, path)
        // Those of URLs go out of its way.
        if !path.contains("/") { _ = names[directory, default: FileNameAllocator()].take(path) }
        return (.file(PathText.join(directory, path)), nil)
    }
}
