import ConvoySupport
import Foundation

/// Where the entries of a ``SharedQueue`` are kept: a file of SQLite, for one machine, or a database of PostgreSQL, for many
/// (`ConvoyPostgres`).
public struct SharedQueueStore: Sendable {
    /// How it is shown, without secrets.
    public let name: String
    package let open: @Sendable () throws(SharedQueueError) -> any WorkDatabase
    let listen: @Sendable () throws(SharedQueueError) -> any WorkListener

    package init(
        name: String, open: @escaping @Sendable () throws(SharedQueueError) -> any WorkDatabase,
        listen: @escaping @Sendable () throws(SharedQueueError) -> any WorkListener
    ) {
        (self.name, self.open, self.listen) = (name, open, listen)
    }

    /// A file on this machine, which its processes share. It is made with the mode 0600 if it is not there; its directory must
    /// be. Not for a file system of the network.
    public static func sqlite(_ file: URL) -> SharedQueueStore {
        let path = file.path
        return SharedQueueStore(
            name: path, open: { () throws(SharedQueueError) in try SQLiteWorkDatabase(path: path) },
            listen: { () throws(SharedQueueError) in try SQLiteWorkListener(path: path) })
    }
}

extension SharedQueueStore: CustomStringConvertible {
    /// The name.
    public var description: String { name }
}
