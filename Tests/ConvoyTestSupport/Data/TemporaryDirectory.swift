import Foundation

/// A new directory that is removed with its contents when this object is released.
public final class TemporaryDirectory: Sendable {
    /// The directory.
    public let url: URL

    /// Makes a directory whose name begins with the prefix, readable for this user only.
    ///
    /// - Parameter isInMemory: whether it is in memory where the system has a place for that, for tests that make
    ///   thousands of files.
    public init(prefix: String = "convoy", isInMemory: Bool = false) throws {
        let memory = URL(fileURLWithPath: "/dev/shm", isDirectory: true)
        let parent =
            isInMemory && access(memory.path, W_OK) == 0 ? memory : FileManager.default.temporaryDirectory
        url = parent.appendingPathComponent("\(prefix)-\(UUID().uuidString)")
        try FileManager.default.createDirectory(
            at: url, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    deinit {
        remove()
    }

    /// Removes it now.
    public func remove() {
        try? FileManager.default.removeItem(at: url)
    }

    /// Returns the URL of a file in it.
    public func file(_ name: String) -> URL {
        url.appendingPathComponent(name)
    }

    /// Writes a file into it, with the directories on the way.
    @discardableResult
    public func write(_ data: Data, to name: String) throws -> URL {
        let url = file(name)
        try FileManager.default.createDirectory(
            at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try data.write(to: url)
        return url
    }
}
