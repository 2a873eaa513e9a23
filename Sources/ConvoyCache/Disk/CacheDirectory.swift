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

    /// Makes the directories where they are missing, readable by their owner only. Those that are there must be this user's
    /// or root's: who else can write to them could answer any request.
    func create() throws(PrivateFile.Failure) {
        try PrivateFile.makeDirectory(path, isChosen: true)
        try PrivateFile.makeDirectory(bodies)
    }

    func remove(_ ids: some Sequence<Int64>) { for id in ids { Self.remove(path(id)) } }

    private static func remove(_ path: String) {
        // Somebody may have put a directory there.
        if unlink(path) != 0 { rmdir(path) }
    }

    /// Removes the files that no process knows any more: those that are not in the index, and have not been written to
    /// for an hour. A killed process leaves such. Blocks.
    ///
    /// - Parameters:
    ///   - age: in seconds.
    ///   - known: which of the bodies of these numbers the index has; nil if it does not tell.
    func collectOrphans(olderThan age: Int, known: ([Int64]) -> Set<Int64>?) {
        guard let lock = try? PrivateFile.openOrCreate("\(path)/collect.lock") else { return }
        defer { close(lock) }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0, let names = try? FileManager.default.contentsOfDirectory(atPath: bodies)
        else { return }
        let limit = time(nil) - age
        var whole: [Int64] = []
        for name in names {
            let file = "\(bodies)/\(name)"
            var facts = stat()
            guard let id = UInt64(name.prefix(16), radix: 16), lstat(file, &facts) == 0, facts.st_mtim.tv_sec <= limit
            else { continue }
            if name.utf8.count > 16 { Self.remove(file) } else { whole.append(Int64(bitPattern: id)) }
        }
        // In small portions, so that requests that need the index do not wait for all.
        for start in stride(from: 0, to: whole.count, by: 64) {
            let ids = Array(whole[start..<min(start + 64, whole.count)])
            guard let known = known(ids) else { return }
            remove(ids.filter { !known.contains($0) })
        }
    }
}
