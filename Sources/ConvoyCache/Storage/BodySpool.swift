import ConvoySupport
import Foundation

/// A file to which the body of a response is written while it arrives, on its own queue.
///
/// The file is renamed to its final name when it is complete. If the disk is too slow or fails, the spool gives up and
/// removes the file.
final class BodySpool: Sendable {
    /// The maximum number of bytes that wait for the disk. With more, the response is not stored.
    static let backlogLimit = 8 << 20

    private struct Pending {
        var backlog = 0
        var hasFailed = false
    }

    /// The state of the file, used on the queue only.
    private struct Output {
        var descriptor: Int32 = -1
        var length = 0
        var block: [UInt8] = []
        var checksums: [UInt64] = []
        var isFinished = false
    }

    private let state = Locked(Pending())
    private let output = Locked(Output())
    private let directory: CacheDirectory
    private let id: Int64
    private let queue: DispatchQueue

    init(_ directory: CacheDirectory, id: Int64, queue: DispatchQueue) {
        self.directory = directory
        self.id = id
        self.queue = queue
    }

    deinit {
        let output = output.withLock { $0 }
        guard !output.isFinished, output.descriptor >= 0 else { return }
        let path = directory.partialPath(id)
        // The last reference may be released on a network thread, which must not wait for the disk.
        queue.async {
            close(output.descriptor)
            unlink(path)
        }
    }

    /// Appends bytes.
    ///
    /// - Returns: False if the spool has given up.
    func write(_ bytes: [UInt8]) -> Bool {
        let isTaken = state.withLock { state in
            if state.backlog + bytes.count > Self.backlogLimit { state.hasFailed = true }
            guard !state.hasFailed else { return false }
            state.backlog += bytes.count
            return true
        }
        guard isTaken else { return false }
        queue.async {
            let isWritten = self.output.withLock { self.append(bytes, &$0) }
            self.state.withLock { state in
                state.backlog -= bytes.count
                if !isWritten { state.hasFailed = true }
            }
        }
        return true
    }

    /// Completes the file and gives it its final name.
    ///
    /// - Parameter then: Called on the spool's queue with the checksums of the blocks, or nil if the file could not be
    ///   written.
    func finish(_ then: @escaping @Sendable ([UInt64]?) -> Void) {
        queue.async {
            guard !self.state.withLock({ $0.hasFailed }) else { return then(nil) }
            then(self.output.withLock { self.complete(&$0) })
        }
    }

    /// The path of the file before it is renamed, for `CacheCandidate`.
    var partialPath: String { directory.partialPath(id) }

    /// Calls `then` when all bytes so far are in the file, with false if the spool has given up.
    func sync(_ then: @escaping @Sendable (Bool) -> Void) {
        queue.async {
            guard !self.state.withLock({ $0.hasFailed }) else { return then(false) }
            then(self.output.withLock { self.writeBlock(&$0, isLast: true) })
        }
    }

    // MARK: On the queue

    private func append(_ bytes: [UInt8], _ output: inout Output) -> Bool {
        guard !state.withLock({ $0.hasFailed }) else { return false }
        if output.descriptor < 0 {
            guard let descriptor = try? PrivateFile.create(directory.partialPath(id)) else { return false }
            output.descriptor = descriptor
        }
        var rest = bytes[...]
        while !rest.isEmpty {
            let room = BodyFile.blockSize - output.block.count
            output.block += rest.prefix(room)
            rest = rest.dropFirst(room)
            if output.block.count == BodyFile.blockSize, !writeBlock(&output, isLast: false) { return false }
        }
        return true
    }

    private func writeBlock(_ output: inout Output, isLast: Bool) -> Bool {
        guard !output.block.isEmpty else { return output.descriptor >= 0 }
        let isWritten = output.block.withUnsafeBytes { bytes in
            var done = 0
            while done < bytes.count {
                let count = Foundation.write(
                    output.descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done)
                if count <= 0 {
                    if count < 0, errno == EINTR { continue }
                    return false
                }
                done += count
            }
            return true
        }
        output.checksums.append(XXHash64.hash(output.block))
        output.length += output.block.count
        output.block.removeAll(keepingCapacity: !isLast)
        return isWritten
    }

    private func complete(_ output: inout Output) -> [UInt64]? {
        guard output.descriptor >= 0, writeBlock(&output, isLast: true) else { return nil }
        // Renaming comes last, so that a file with the final name is complete.
        guard rename(directory.partialPath(id), directory.path(id)) == 0 else { return nil }
        close(output.descriptor)
        output.isFinished = true
        return output.checksums
    }
}

/// The files of a cache: the index, and a directory of the bodies that are too large for it. Their names are numbers
/// that reveal nothing about the requests.
struct CacheDirectory: Sendable {
    let path: String
    var index: String { "\(path)/index.sqlite" }
    private var bodies: String { "\(path)/bodies" }

    func path(_ id: Int64) -> String { "\(bodies)/\(name(id))" }

    /// Returns the path of a body that is still arriving.
    func partialPath(_ id: Int64) -> String { "\(bodies)/\(name(id)).part" }

    private func name(_ id: Int64) -> String {
        let digits = String(UInt64(bitPattern: id), radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// Creates the missing directories, readable only by their owner. Existing ones must belong to this user or root:
    /// another user who can write to them could answer any request.
    func create() throws(PrivateFile.Failure) {
        try PrivateFile.makeDirectory(path, isChosen: true)
        try PrivateFile.makeDirectory(bodies)
    }

    func remove(_ ids: some Sequence<Int64>) { for id in ids { Self.remove(path(id)) } }

    private static func remove(_ path: String) {
        // Another program may have created a directory with that name.
        if unlink(path) != 0 { rmdir(path) }
    }

    /// Removes orphaned files, which a killed process leaves behind: those that are not in the index and were not
    /// written to lately. Blocks.
    ///
    /// - Parameters:
    ///   - age: The time since the last write after which a file can be an orphan, in seconds.
    ///   - known: Returns which of the given bodies are in the index; nil if the index cannot be read.
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
        // Work in small portions, so that requests that need the index do not wait for the whole scan.
        for start in stride(from: 0, to: whole.count, by: 64) {
            let ids = Array(whole[start..<min(start + 64, whole.count)])
            guard let known = known(ids) else { return }
            remove(ids.filter { !known.contains($0) })
        }
    }
}
