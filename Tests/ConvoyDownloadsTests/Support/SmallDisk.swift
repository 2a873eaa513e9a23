import ConvoyTestSupport
import Foundation
import Testing

/// A file system in memory with room for so many bytes, in a mount namespace of a process of its own. Nothing of the
/// system's changes, and it needs no superuser where the kernel lets users have namespaces.
final class SmallDisk: Sendable {
    private let holder: ChildProcess
    private let folder: TemporaryDirectory
    /// Its root, as this process sees it.
    let url: URL

    /// Whether the system permits that.
    static let canBeMade = (try? SmallDisk(bytes: 1 << 20)) != nil

    /// nil where the system does not permit that.
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

    /// Fills it up with one file, and leaves so many bytes.
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
    /// The test is skipped, with the reason, where no file system can be mounted.
    static var needsSmallDisk: Self {
        .enabled(if: SmallDisk.canBeMade, "this system lets no user mount a file system (unshare -rm, mount -t tmpfs)")
    }
}
