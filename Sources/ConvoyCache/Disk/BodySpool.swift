import ConvoySupport
import Foundation

/// Writes the body of a response into a file, on a queue of its own, while it arrives.
///
/// The file has its final name only once it is whole. If the disk cannot keep up, or refuses, the spool gives up, and
/// the file is removed.
final class BodySpool: Sendable {
    /// So many bytes may wait for the disk. With more the response is not stored.
    static let backlogLimit = 8 << 20

    private struct State {
        var backlog = 0
        var hasFailed = false
    }

    /// Used on the queue only.
    private struct Output {
        var descriptor: Int32 = -1
        var length = 0
        var block: [UInt8] = []
        var checksums: [UInt64] = []
        var isFinished = false
    }

    private let state = Locked(State())
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
        // The last one to hold it may be a network thread, which must not wait for the disk.
        queue.async {
            close(output.descriptor)
            unlink(path)
        }
    }

    /// Takes the next bytes.
    ///
    /// - Returns: false if it has given up.
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

    /// Completes the file.
    ///
    /// - Parameter then: on the spool's queue: the checksums of its blocks, or nil if it could not be written.
    func finish(_ then: @escaping @Sendable ([UInt64]?) -> Void) {
        queue.async {
            guard !self.state.withLock({ $0.hasFailed }) else { return then(nil) }
            then(self.output.withLock { self.complete(&$0) })
        }
    }

    /// Where the body is before it has its final name, for those who look at it before it is stored.
    var partialPath: String { directory.partialPath(id) }

    /// Waits until all that was given is in the file.
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
        // The name comes last: whoever finds it finds all bytes.
        guard rename(directory.partialPath(id), directory.path(id)) == 0 else { return nil }
        close(output.descriptor)
        output.isFinished = true
        return output.checksums
    }
}
