import Foundation

/// A new directory that is removed with its contents when this object is released.
public final class TemporaryDirectory: Sendable {
    /// The directory.
    public let url: URL

    /// Creates a directory whose name begins with the prefix, readable only by this user.
    ///
    /// - Parameter isInMemory: Whether to use memory if the system supports that, for tests that create thousands of
    ///   files.
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

    /// Removes the directory immediately.
    public func remove() {
        try? FileManager.default.removeItem(at: url)
    }

    /// Returns the URL of a file in the directory.
    public func file(_ name: String) -> URL {
        url.appendingPathComponent(name)
    }

    /// Writes a file into the directory, and creates intermediate directories.
    @discardableResult
    public func write(_ data: Data, to name: String) throws -> URL {
        let url = file(name)
        try FileManager.default.createDirectory(
            at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try data.write(to: url)
        return url
    }
}
