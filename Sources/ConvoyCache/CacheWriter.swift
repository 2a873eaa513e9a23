import ConvoySupport
import Foundation

/// A writer that receives the body of a response that is being stored. Its methods never block; call them on any
/// thread, but not concurrently.
///
/// A small body stays in memory until it is complete; a larger one is written to a file while it arrives. An incomplete
/// body is not stored.
package final class CacheWriter: ResponseCacheWriter {
    private struct State {
        var buffer: [UInt8] = []
        var count = 0
        var spool: BodySpool?
        /// Whether the body is complete, abandoned, or cannot be stored.
        var isDone = false
    }

    private let storage: CacheStorage
    private let draft: CacheDraft
    private let handler: CacheResponseHandler?
    private let id = EntryNumber.next()
    private let state = Locked(State())

    init(_ storage: CacheStorage, _ draft: CacheDraft, _ handler: CacheResponseHandler?) {
        self.storage = storage
        self.draft = draft
        self.handler = handler
    }

    package var isStoring: Bool { state.withLock { !$0.isDone } }

    /// Copies the next bytes of the body. If the body is too large or the disk too slow, the response is not stored.
    package func write(_ bytes: UnsafeRawBufferPointer) {
        state.withLock { state in
            guard !state.isDone, !bytes.isEmpty else { return }
            state.count += bytes.count
            guard state.count <= min(storage.bodyLimit, draft.expectedLength ?? .max) else { return Self.giveUp(&state) }
            if state.buffer.isEmpty { state.buffer.reserveCapacity(min(draft.expectedLength ?? 0, 1 << 16)) }
            state.buffer += bytes
            guard let disk = storage.disk, state.count > DiskIndex.inlineLimit else { return }
            if state.spool == nil { state.spool = BodySpool(disk.directory, id: id, queue: disk.bodies) }
            if state.buffer.count >= BodyFile.blockSize { Self.spill(&state) }
        }
    }

    /// Completes the body.
    ///
    /// - Parameter then: Called when a lookup can find the response, or when the response is certain not to be stored:
    ///   immediately if the body is in memory, otherwise later on one of the cache's queues.
    package func finish(_ then: @escaping @Sendable () -> Void) { complete { _ in then() } }

    /// Completes the body, and reports to `then` whether the response is stored.
    func complete(_ then: @escaping @Sendable (Bool) -> Void) {
        let body: (bytes: [UInt8], count: Int, spool: BodySpool?)? = state.withLock { state in
            guard !state.isDone else { return nil }
            // A body shorter than the length in its head is incomplete.
            guard state.count == draft.expectedLength ?? state.count else {
                Self.giveUp(&state)
                return nil
            }
            if state.spool != nil { Self.spill(&state) }
            guard !state.isDone else { return nil }
            defer {
                state.isDone = true
                state.buffer = []
                state.spool = nil
            }
            return (state.buffer, state.count, state.spool)
        }
        guard let body else { return then(false) }
        if let handler { return ask(handler, body.bytes, body.count, body.spool, then) }
        guard let spool = body.spool else {
            let record = draft.record(id: id, length: body.count, boot: storage.clock.boot)
            return then(storage.store(record, body.bytes, generation: draft.generation))
        }
        store(draft, spool, id, body.count, then)
    }

    /// Discards the body after an error or a cancellation.
    package func abandon() { state.withLock { Self.giveUp(&$0) } }

    private static func giveUp(_ state: inout State) {
        state.isDone = true
        state.buffer = []
        state.spool = nil
    }

    /// Writes the bytes received so far to the file.
    private static func spill(_ state: inout State) {
        guard let spool = state.spool, !state.buffer.isEmpty else { return }
        if spool.write(state.buffer) { state.buffer = [] } else { giveUp(&state) }
    }

    private func store(
        _ draft: CacheDraft, _ spool: BodySpool, _ id: Int64, _ count: Int, _ then: @escaping @Sendable (Bool) -> Void
    ) {
        guard let disk = storage.disk else { return then(false) }
        let storage = storage
        spool.finish { checksums in
            guard let checksums else { return then(false) }
            disk.queue.async {
                let record = draft.record(id: id, length: count, boot: storage.clock.boot)
                then(storage.store(record, checksums: checksums, generation: draft.generation, disk))
            }
        }
    }

    // MARK: Handlers

    /// Calls the user's handler on a thread that may block.
    private func ask(
        _ handler: @escaping CacheResponseHandler, _ bytes: [UInt8], _ count: Int, _ spool: BodySpool?,
        _ then: @escaping @Sendable (Bool) -> Void
    ) {
        let (storage, draft, id) = (storage, draft, id)
        @Sendable func decide(_ body: CacheCandidate.Body) {
            BlockingWorkers.shared.perform {
                let candidate = CacheCandidate(draft, body, count)
                guard let answer = handler(candidate) else { return then(false) }
                var draft = draft
                guard answer.apply(to: &draft) else { return then(false) }
                if let replacement = answer.replacement {
                    guard replacement.count <= storage.bodyLimit else { return then(false) }
                    self.store(draft, replacement, then)
                } else if let spool {
                    self.store(draft, spool, id, count, then)
                } else {
                    let record = draft.record(id: id, length: count, boot: storage.clock.boot)
                    then(storage.store(record, bytes, generation: draft.generation))
                }
            }
        }
        guard let spool else { return decide(.memory(bytes)) }
        spool.sync { isWritten in isWritten ? decide(.file(spool)) : then(false) }
    }

    /// Stores the body with which a handler has replaced the received one.
    private func store(_ draft: CacheDraft, _ bytes: [UInt8], _ then: @escaping @Sendable (Bool) -> Void) {
        let id = EntryNumber.next()
        guard let disk = storage.disk, bytes.count > DiskIndex.inlineLimit else {
            let record = draft.record(id: id, length: bytes.count, boot: storage.clock.boot)
            return then(storage.store(record, bytes, generation: draft.generation))
        }
        let spool = BodySpool(disk.directory, id: id, queue: disk.bodies)
        guard spool.write(bytes) else { return then(false) }
        store(draft, spool, id, bytes.count, then)
    }
}

/// The head of a response that is being stored.
struct CacheDraft: Sendable {
    let address: String
    let partition: String
    let vary: VaryKey
    var head: CachedHead
    let requested: CacheTime
    let received: CacheTime
    /// The storage's `generation` at the time of the request.
    let generation: UInt64
    /// The length of the body, if the head has one.
    let expectedLength: Int?
    var userInfo: [String: String] = [:]

    func record(id: Int64, length: Int, boot: Int64) -> CacheRecord {
        CacheRecord(
            id: id, address: address, partition: partition, vary: vary, head: head, requested: requested,
            received: received, boot: boot, length: length, userInfo: userInfo)
    }

    /// Returns the `Content-Length` of a response; nil if missing, contradictory, or accompanied by a
    /// `Transfer-Encoding` (RFC 9112, section 6.3).
    static func length(_ fields: Fields) -> Int? {
        let values = fields.members("content-length")
        guard let first = values.first, values.allSatisfy({ $0 == first }), !fields.contains("transfer-encoding")
        else { return nil }
        return DeltaSeconds.parse(first.utf8).map { Int($0) }
    }
}
