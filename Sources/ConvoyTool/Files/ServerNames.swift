import Convoy
import ConvoySupport
import Foundation
import Synchronization

/// Gives the files whose names servers tell different names, as ``FileNameAllocator`` does for those of URLs.
final class ServerNames: Sendable {
    private let names = Mutex<[String: FileNameAllocator]>([:])

    /// Takes the place of a file that has its name from elsewhere.
    func keep(_ path: String) {
        let directory = Directories.resolved(PathText.directory(of: path))
        names.withLock { $0[directory, default: FileNameAllocator()].keep(PathText.name(of: path)) }
    }

    /// The place of a file, out of the way of others of the run. Called on the network thread, with a file in a directory
    /// that is there.
    ///
    /// - Returns: the place, and the name that it should have had, if another file of the run has that.
    func place(_ wanted: URL, in directory: String) -> (place: URL, wanted: String?) {
        let name = wanted.lastPathComponent
        let free = names.withLock { $0[directory, default: FileNameAllocator()].take(name) }
        guard free != name else { return (wanted, nil) }
        return (wanted.deletingLastPathComponent().appendingPathComponent(free, isDirectory: false), name)
    }
}
