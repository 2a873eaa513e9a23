import ConvoySupport
import Foundation

/// The store of a ``SharedQueue``: an SQLite file, for one machine, or a PostgreSQL database, for several
/// (`ConvoyPostgres`).
public struct SharedQueueStore: Sendable {
    /// The name to show, without secrets.
    public let name: String
    package let open: @Sendable () throws(SharedQueueError) -> any WorkDatabase
    let listen: @Sendable () throws(SharedQueueError) -> any WorkListener

    package init(
        name: String, open: @escaping @Sendable () throws(SharedQueueError) -> any WorkDatabase,
        listen: @escaping @Sendable () throws(SharedQueueError) -> any WorkListener
    ) {
        self.name = name
        self.open = open
        self.listen = listen
    }

    /// Returns a store in a file shared by processes on this machine. The file is created with mode 0600 if it does not
    /// exist, but its directory must exist. Do not use a network file system.
    public static func sqlite(_ file: URL) -> SharedQueueStore {
        let path = file.path
        return SharedQueueStore(
            name: path, open: { () throws(SharedQueueError) in try SQLiteWorkDatabase(path: path) },
            listen: { () throws(SharedQueueError) in try SQLiteWorkListener(path: path) })
    }
}

extension SharedQueueStore: CustomStringConvertible {
    /// The name of the store.
    public var description: String { name }
}
