import ConvoyDownloads
import ConvoySecurity
import ConvoySupport
import Foundation

/// The digests of the confirmed bytes of a source.
///
/// To compute them, a source with random access is read again on a thread that may block, concurrently with the
/// transfer.
final class SentDigest: @unchecked Sendable {
    private struct State: @unchecked Sendable {
        var digests: [MessageDigest] = []
        var position: Int64 = 0
        var target: Int64 = 0
        var isReading = false
        /// The time at which the computation began, and the time spent on reading.
        var began: MonotonicTime?
        var spent: MonotonicTime = 0
        var isStopped = false
        /// The SHA-256 digest at a requested position, once reached.
        var mark: (position: Int64, value: String?)?

        /// Returns whether there are more bytes to read, and whether reading them now is within the time limit.
        func mustFollow(at now: MonotonicTime) -> Bool {
            guard !isStopped, target > position else { return false }
            return position < SentDigest.free || spent < (now &- (began ?? now)) / SentDigest.share
        }
    }

    private let source: (any SeekableSource)?
    private let state: Locked<State>

    init(_ source: (any SeekableSource)?, _ algorithms: Set<ChecksumAlgorithm>, mark: Int64? = nil) {
        self.source = source
        var state = State()
        state.digests = algorithms.union([.sha256]).sorted().map { MessageDigest($0) }
        state.mark = mark.map { ($0, $0 == 0 ? "" : nil) }
        self.state = Locked(state)
    }

    /// The current position, and the SHA-256 digest of the bytes so far.
    var value: (position: Int64, sha256: String?) {
        state.withLock { state in
            (state.position, state.digests.first { $0.algorithm == .sha256 }?.value()?.hexadecimalString)
        }
    }

    /// The requested position and its SHA-256 digest; nil until the position is reached.
    var marked: (position: Int64, value: String)? {
        state.withLock { state in
            guard let mark = state.mark, let value = mark.value else { return nil }
            return (mark.position, value)
        }
    }

    /// Returns the digests of a source of the given length; nil if not all bytes have been read.
    func checksums(of length: Int64) -> [Checksum]? {
        state.withLock { state in state.position == length ? state.digests.compactMap { Checksum(of: $0) } : nil }
    }

    /// Adds the bytes that start at a position, except those already added.
    func update(_ bytes: UnsafeRawBufferPointer, at start: Int64) {
        state.withLock { state in
            let known = state.position - start
            guard known >= 0, known < Int64(bytes.count) else { return }
            var rest = UnsafeRawBufferPointer(rebasing: bytes[Int(known)...])
            // Store the digest at the mark.
            if let mark = state.mark, mark.value == nil, mark.position > state.position,
                mark.position - state.position <= Int64(rest.count)
            {
                let head = UnsafeRawBufferPointer(rebasing: rest[..<Int(mark.position - state.position)])
                for digest in state.digests { digest.update(head) }
                state.position = mark.position
                state.mark?.value = state.digests.first { $0.algorithm == .sha256 }?.value()?.hexadecimalString ?? ""
                rest = UnsafeRawBufferPointer(rebasing: rest[head.count...])
            }
            for digest in state.digests { digest.update(rest) }
            state.position += Int64(rest.count)
        }
    }

    /// The number of bytes that are read without a time limit. Beyond that number, reading may use a twentieth of the
    /// time, so that it does not slow down a fast transfer.
    private static let free: Int64 = 8 << 20
    private static let share: MonotonicTime = 20

    /// Continues the computation up to a position, on a thread that may block.
    func advance(to position: Int64) {
        let now = MonotonicClock.now
        let starts = state.withLock { state -> Bool in
            if state.began == nil { state.began = now }
            state.target = max(state.target, position)
            guard source != nil, !state.isReading, state.mustFollow(at: now) else { return false }
            state.isReading = true
            return true
        }
        if starts { BlockingWorkers.shared.perform { self.follow() } }
    }

    private func follow() {
        var started = MonotonicClock.now
        // In the meantime, `reach` may have read past the target.
        var next = state.withLock { $0.position..<max($0.position, $0.target) }
        while !next.isEmpty {
            let isRead =
                (try? read(next) { [self] in
                    let now = MonotonicClock.now
                    defer { started = now }
                    return state.withLock { state in
                        state.spent += now &- started
                        return state.mustFollow(at: now)
                    }
                }) != nil
            next = state.withLock { state in
                // If the source can no longer be read, the transfer fails as well.
                if !isRead { state.isStopped = true }
                guard state.mustFollow(at: started) else {
                    state.isReading = false
                    return state.position..<state.position
                }
                return state.position..<state.target
            }
        }
    }

    /// Reads a range that must begin at or before the current position, while `mayGoOn` allows it. Blocks.
    private func read(_ range: Range<Int64>, while mayGoOn: () -> Bool) throws(UploadError) {
        var position = range.lowerBound
        try source?.read(range) { bytes in
            update(bytes, at: position)
            position += Int64(bytes.count)
            return mayGoOn()
        }
    }

    /// Reads up to a position. Has no effect for a sequence, whose bytes are added with ``update(_:at:)``. Blocks.
    func reach(_ position: Int64) throws(UploadError) {
        while let next = state.withLock({ $0.position < position ? $0.position : nil }), source != nil {
            try read(next..<position) { !state.withLock { $0.isStopped } }
            if state.withLock({ $0.isStopped }) { return }
        }
    }

    func stop() { state.withLock { $0.isStopped = true } }
}
