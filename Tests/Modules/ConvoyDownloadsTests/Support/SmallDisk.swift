import ConvoyTestSupport
import Foundation
import Testing

/// A small file system in memory, in the mount namespace of a separate process. The system is not affected, and no
/// superuser is needed if the kernel supports user namespaces.
final class SmallDisk: Sendable {
    private let holder: ChildProcess
    private let folder: TemporaryDirectory
    /// The root of the file system, as seen by this process.
    let url: URL

    /// Whether the system permits mounting such a file system.
    static let canBeMade = (try? SmallDisk(bytes: 1 << 20)) != nil

    /// Creates a file system; nil if the system does not permit that.
    init?(bytes: Int) throws {
        folder = try TemporaryDirectory(prefix: "convoy-disk")
        let (mount, ready) = (folder.file("mount"), folder.file("ready"))
        try FileManager.default.createDirectory(at: mount, withIntermediateDirectories: true)
        let script = "mount -t tmpfs -o size=\(bytes) none '\(mount.path)' && : >'\(ready.path)' && exec sleep 1000"
        do {
            holder = try ChildProcess(
                "unshare", ["-rm", "sh", "-c", script], directory: folder.url, log: folder.file("log"))
        } catch {
            return nil
        }
        let holder = holder
        try? eventually(timeout: 20, "a file system") {
            !holder.isRunning || FileManager.default.fileExists(atPath: ready.path)
        }
        guard holder.isRunning, FileManager.default.fileExists(atPath: ready.path) else { return nil }
        url = URL(fileURLWithPath: "/proc/\(holder.id)/root\(mount.path)")
        guard access(url.path, W_OK) == 0 else { return nil }
    }

    deinit { holder.stop() }

    /// Fills the file system with one file, leaving the given number of bytes free.
    func fill(leaving rest: Int = 0) throws {
        var information = statvfs()
        guard statvfs(url.path, &information) == 0 else { throw POSIXError(.EIO) }
        let free = Int(information.f_bavail) * Int(information.f_frsize)
        let path = url.appendingPathComponent("filler").path
        let file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw POSIXError(.EIO) }
        defer { close(file) }
        let bytes = [UInt8](repeating: 1, count: max(0, free - rest))
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes { write(file, $0.baseAddress.map { $0 + written }, bytes.count - written) }
            if count <= 0 { break }
            written += count
        }
    }

    func makeRoom() throws { try FileManager.default.removeItem(at: url.appendingPathComponent("filler")) }
}

extension Trait where Self == ConditionTrait {
    /// Skips the test, with a reason, if no file system can be mounted.
    static var needsSmallDisk: Self {
        .enabled(
            if: SmallDisk.canBeMade, "this system does not allow users to mount file systems (unshare -rm, mount -t tmpfs)")
    }
}
