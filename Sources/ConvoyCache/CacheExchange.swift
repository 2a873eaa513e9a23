import ConvoySupport

/// The cache's part in one hop of a request. Its methods never block and never call user code on the calling thread.
package final class CacheExchange: ResponseCacheExchange {
    private struct State {
        /// The stored response, to be validated or to be served after a failure. Its body stays available until then.
        var entry: CacheEntry?
        var isValidating = false
        /// The time at which the request was sent; nil until then.
        var sent: CacheTime?
        var generation: UInt64
    }

    private let storage: CacheStorage
    private let request: RequestFacts
    private let handler: CacheResponseHandler?
    private let state: Locked<State>

    init(_ storage: CacheStorage, _ request: CacheRequest, _ handler: CacheResponseHandler?) {
        self.storage = storage
        self.request = RequestFacts(request, salt: storage)
        self.handler = handler
        state = Locked(State(generation: storage.generation))
    }

    // MARK: Before the request

    package func lookUp() -> CacheAnswer? { storage.find(request).map(answer) }

    package func lookUpInFiles(_ then: @escaping @Sendable (CacheAnswer) -> Void) {
        storage.findOnDisk(request) { lookup in then(self.answer(lookup)) }
    }

    /// Looks up a request whose fields are not all known. The lookup is not counted as a hit or miss.
    func lookUpLeniently(_ then: @escaping @Sendable (StoredResponse?) -> Void) {
        var request = request
        request.isLenient = true
        @Sendable func take(_ lookup: CacheStorage.Lookup) {
            guard case .serve(let form, let use, _) = lookup.decision, let entry = lookup.entry else { return then(nil) }
            then(self.response(entry, form, use, lookup.now))
        }
        if let lookup = storage.find(request) { take(lookup) } else { storage.findOnDisk(request, take) }
    }

    private func answer(_ lookup: CacheStorage.Lookup) -> CacheAnswer {
        switch lookup.decision {
        case .serve(let form, let use, let revalidates):
            guard let entry = lookup.entry else { return .miss }
            storage.counts.hits.add(1, ordering: .relaxed)
            return .hit(response(entry, form, use, lookup.now), revalidates: revalidates)
        case .unavailable(let reason):
            storage.counts.misses.add(1, ordering: .relaxed)
            return .unavailable(reason)
        case .miss:
            storage.counts.misses.add(1, ordering: .relaxed)
            begin(lookup, isValidating: false)
            return .miss
        case .validate:
            guard let record = lookup.entry?.record else { return .miss }
            begin(lookup, isValidating: true)
            return .validate(fields: ServedHead.validation(of: record, for: request))
        }
    }

    private func begin(_ lookup: CacheStorage.Lookup, isValidating: Bool) {
        let generation = storage.generation
        state.withLock { state in
            state.entry = lookup.entry
            state.isValidating = isValidating
            state.sent = lookup.now
            state.generation = generation
        }
    }

    /// Records that the request is being sent: the age of the response counts from now (RFC 9111, section 4.2.3).
    /// Without this call, it counts from the result of the lookup.
    package func willSend() {
        let (now, generation) = (storage.clock.now(), storage.generation)
        state.withLock { ($0.sent, $0.generation) = (now, generation) }
    }

    // MARK: After the request

    package var needsHead: Bool { request.method == .unsafe || state.withLock { $0.entry != nil } }

    /// Handles the head of the network's response, after a lookup has returned `miss` or `validate`.
    package func receive(_ head: CachedHead) -> CacheReaction {
        let now = storage.clock.now()
        let state = state.withLock { state in
            defer { state.entry = nil }
            return state
        }
        let invalidated = StorageRules.invalidated(by: head, to: request)
        guard invalidated.isEmpty else {
            storage.invalidate(invalidated)
            return .pass
        }
        guard request.method == .get || request.method == .head, !request.hasBody else { return .pass }
        if head.statusCode == 304 { return notModified(head, state, now) }
        if StatusRules.isFailure(head.statusCode), let response = standIn(state, now) { return .serveStored(response) }
        if request.method == .head {
            describe(head, state, now)
            return .pass
        }
        return store(head, state, now)
    }

    /// Records that the transfer has failed before its head was complete.
    ///
    /// - Returns: The stored response to serve instead of an error (RFC 5861, section 4), or nil.
    package func failed() -> (any ServableResponse)? {
        let state = state.withLock { state in
            defer { state.entry = nil }
            return state
        }
        return standIn(state, storage.clock.now())
    }

    /// Releases the stored response after the hop has ended in any other way, for example by cancellation.
    package func cancel() { state.withLock { $0.entry = nil } }

    private func notModified(_ head: CachedHead, _ state: State, _ now: CacheTime) -> CacheReaction {
        guard let entry = state.entry else { return .pass }
        guard state.isValidating else {
            // A 304 to the client's own condition is passed on, and updates the stored response.
            if StorageRules.describes(head, entry.record, needsValidator: true) { _ = update(entry, head, state, now) }
            return .pass
        }
        storage.counts.validations.add(1, ordering: .relaxed)
        // A 304 with a different strong validator must not update the stored response (RFC 9111, section 4.3.4), but it
        // still answers the condition: the origin has nothing else to send.
        guard StorageRules.confirms(head, entry.record) else {
            return .serveStored(response(entry, .whole, .validated, now))
        }
        return .serveStored(response(update(entry, head, state, now), .whole, .validated, now))
    }

    /// Updates a stored response with the fields of another response.
    private func update(_ entry: CacheEntry, _ head: CachedHead, _ state: State, _ now: CacheTime) -> CacheEntry {
        let old = entry.record
        let fields = StoredFields.updated(old.head.fields, by: head.fields, arrival: now.wall / 1000)
        guard let vary = VaryKey(response: fields, request: request.fields, salt: storage) else {
            // The response now has `Vary: *`, which no request matches.
            storage.discard(old)
            return entry
        }
        let record = CacheRecord(
            id: old.id, address: old.address, partition: old.partition, vary: vary,
            head: CachedHead(statusCode: old.head.statusCode, fields: fields), requested: state.sent ?? now, received: now,
            boot: storage.clock.boot, length: old.length, userInfo: old.userInfo)
        if record.facts.directives.noStore, !record.facts.directives.mustUnderstand {
            storage.discard(old)
        } else if record.headSize > CacheRecord.headLimit {
            // The limit prevents a server that sends new fields in each response from growing the head indefinitely.
            storage.discard(old)
            return entry
        } else {
            storage.update(record)
        }
        return CacheEntry(record: record, body: entry.body)
    }

    /// Updates or discards stored responses with the head of a response to HEAD (RFC 9111, section 4.3.5).
    private func describe(_ head: CachedHead, _ state: State, _ now: CacheTime) {
        guard head.statusCode == 200, let entry = state.entry, entry.record.head.statusCode == 200 else { return }
        if StorageRules.describes(head, entry.record, needsValidator: false) {
            _ = update(entry, head, state, now)
        } else {
            storage.discard(entry.record)
        }
    }

    private func standIn(_ state: State, _ now: CacheTime) -> StoredResponse? {
        guard let entry = state.entry, entry.body.isReady,
            CacheDecision.mayStandIn(entry.record, for: request, now: now, boot: storage.clock.boot),
            let form = ServedForm(request, entry.record)
        else { return nil }
        return response(entry, form, .staleIfError, now)
    }

    private func store(_ head: CachedHead, _ state: State, _ now: CacheTime) -> CacheReaction {
        let stored = CachedHead(
            statusCode: head.statusCode, fields: StoredFields.stored(head.fields, arrival: now.wall / 1000))
        let facts = ResponseFacts(stored, requested: state.sent ?? now, received: now)
        guard StorageRules.isStorable(request, head, facts),
            let vary = VaryKey(response: stored.fields, request: request.fields, salt: storage)
        else {
            // The stored response is obsolete, although the new one cannot be stored.
            if let entry = state.entry, StatusRules.replaces(head.statusCode) { storage.discard(entry.record) }
            return .pass
        }
        let draft = CacheDraft(
            address: request.address, partition: request.partition, vary: vary, head: stored, requested: state.sent ?? now,
            received: now, generation: state.generation, expectedLength: CacheDraft.length(head.fields))
        guard draft.expectedLength ?? 0 <= storage.bodyLimit else {
            if let entry = state.entry { storage.discard(entry.record) }
            return .pass
        }
        return .store(CacheWriter(storage, draft, handler))
    }

    private func response(
        _ entry: CacheEntry, _ form: ServedForm, _ use: StoredUse, _ now: CacheTime
    ) -> StoredResponse {
        storage.noteUse(of: entry.record, at: now)
        let range =
            switch form {
            case .whole: 0..<entry.record.length
            case .part(let range): range
            case .head, .notModified: 0..<0
            }
        return StoredResponse(
            head: ServedHead.make(entry.record, form, use, now: now, boot: storage.clock.boot), use: use,
            userInfo: entry.record.userInfo, body: entry.body, range: range
        ) { [storage, record = entry.record] in storage.discard(record) }
    }
}

/// A stored response to serve. Its body stays readable as long as this object exists, even after eviction, replacement
/// or removal, including by another process.
package final class StoredResponse: ServableResponse {
    /// The head to serve, with `Age` (RFC 9111, section 5.1). If a part or a 304 is served, the head is already that of
    /// a 206 or a 304.
    package let head: CachedHead
    /// The reason why the response may be served.
    package let use: StoredUse
    /// The strings that a user's handler has added to the response.
    package let userInfo: [String: String]
    private let body: StoredBody
    private let range: Range<Int>
    private let discard: @Sendable () -> Void

    /// - Parameters:
    ///   - range: The bytes of the body to serve.
    ///   - discard: A closure that removes the entry, called if the body is damaged.
    init(
        head: CachedHead, use: StoredUse, userInfo: [String: String], body: StoredBody, range: Range<Int>,
        discard: @escaping @Sendable () -> Void
    ) {
        self.head = head
        self.use = use
        self.userInfo = userInfo
        self.body = body
        self.range = range
        self.discard = discard
    }

    /// The number of bytes to serve; 0 for HEAD and for a 304.
    package var length: Int { range.count }

    /// The whole body, if it is in memory.
    package var bytes: [UInt8]? {
        guard !range.isEmpty else { return [] }
        return body.bytes.map { $0.count == range.count ? $0 : Array($0[range]) }
    }

    /// Reads a part of the body: immediately if the body is in memory, on the cache's queue if it is in a file.
    ///
    /// - Parameters:
    ///   - offset: The offset of the first byte.
    ///   - count: The maximum number of bytes; fewer arrive only at the end of the body.
    ///   - then: Called once. After a failure the entry has been removed.
    package func read(
        at offset: Int, count: Int, _ then: @escaping @Sendable (Result<[UInt8], any Error>) -> Void
    ) {
        let start = min(max(offset, 0), length)
        let part = range.lowerBound + start..<range.lowerBound + start + min(max(count, 0), length - start)
        guard !part.isEmpty else { return then(.success([])) }
        switch body {
        case .memory(let bytes): then(.success(Array(bytes[part])))
        case .open(let file):
            file.read(part) { [discard] result in
                if case .failure = result { discard() }
                then(result)
            }
        case .row, .file: then(.failure(CacheError.unreadable(reason: "The body was not loaded.")))
        }
    }
}
