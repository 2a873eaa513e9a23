import ConvoySupport
import Foundation

/// The files of a cache: the index, and a directory of bodies that are too large for it. Their names are random
/// numbers and tell nothing about what was fetched.
struct CacheDirectory: Sendable {
    let path: String
    var index: String { "\(path)/index.sqlite" }
    private var bodies: String { "\(path)/bodies" }

    func path(_ id: Int64) -> String { "\(bodies)/\(name(id))" }

    /// The name of a body that is still arriving.
    func partialPath(_ id: Int64) -> String { "\(bodies)/\(name(id)).part" }

    private func name(_ id: Int64) -> String {
        let digits = String(UInt64(bitPattern: id), radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// Makes the directories where they are missing, readable by their owner only.
    func create() throws(SystemError) {
        for path in [path, bodies] where mkdir(path, 0o700) != 0 {
            let error = SystemError()
            var facts = stat()
            guard error.code == EEXIST, stat(path, &facts) == 0, facts.st_mode & S_IFMT == S_IFDIR
            else { throw error }
        }
    }

    func remove(_ ids: some Sequence<Int64>) { for id in ids { unlink(path(id)) } }

    /// Removes the files that no process knows any more: those that are not in the index, and have not been written to
    /// for an hour. A killed process leaves such.
    ///
    /// - Parameter isKnown: whether the index has the body of this number.
    func collectOrphans(olderThan age: TimeInterval = 3600, isKnown: (Int64) -> Bool) {
        let lock = open("\(path)/collect.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard lock >= 0 else { return }
        defer { close(lock) }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0, let names = try? FileManager.default.contentsOfDirectory(atPath: bodies)
        else { return }
        let limit = time(nil) - Int(age)
        for name in names {
            let file = "\(bodies)/\(name)"
            var facts = stat()
            guard let id = UInt64(name.prefix(16), radix: 16), lstat(file, &facts) == 0, facts.st_mtim.tv_sec < limit
            else { continue }
            if name.count > 16 || !isKnown(Int64(bitPattern: id)) { unlink(file) }
        }
    }
}
