import ConvoySupport

/// One hop of a request, as the cache accompanies it. Its methods never block and run nobody's code on the calling
/// thread.
package final class CacheExchange: ResponseCacheExchange {
    private struct State {
        /// What is stored: to be confirmed, or to stand in for a failure. Its body cannot be taken away meanwhile.
        var entry: CacheEntry?
        var isValidating = false
        /// nil as long as nothing is sent.
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
        storage.findOnDisk(request) { finding in then(self.answer(finding)) }
    }

    /// Asks what is stored for a request of which not all fields are known. It is not counted.
    func lookUpLeniently(_ then: @escaping @Sendable (StoredResponse?) -> Void) {
        var request = request
        request.isLenient = true
        @Sendable func take(_ finding: CacheStorage.Finding) {
            guard case .serve(let form, let use, _) = finding.decision, let entry = finding.entry else { return then(nil) }
            then(self.response(entry, form, use, finding.now))
        }
        if let finding = storage.find(request) { take(finding) } else { storage.findOnDisk(request, take) }
    }

    private func answer(_ finding: CacheStorage.Finding) -> CacheAnswer {
        switch finding.decision {
        case .serve(let form, let use, let revalidates):
            guard let entry = finding.entry else { return .miss }
            storage.counts.hits.add(1, ordering: .relaxed)
            return .hit(response(entry, form, use, finding.now), revalidates: revalidates)
        case .unavailable(let reason):
            storage.counts.misses.add(1, ordering: .relaxed)
            return .unavailable(reason)
        case .miss:
            storage.counts.misses.add(1, ordering: .relaxed)
            begin(finding, isValidating: false)
            return .miss
        case .validate:
            guard let record = finding.entry?.record else { return .miss }
            begin(finding, isValidating: true)
            return .validate(fields: ServedHead.validation(of: record, for: request))
        }
    }

    private func begin(_ finding: CacheStorage.Finding, isValidating: Bool) {
        let generation = storage.generation
        state.withLock { state in
            (state.entry, state.isValidating) = (finding.entry, isValidating)
            (state.sent, state.generation) = (finding.now, generation)
        }
    }

    /// The request is being sent: the age of the response counts from now (RFC 9111, section 4.2.3). Without this call,
    /// it counts from the answer of the lookup.
    package func willSend() {
        let (now, generation) = (storage.clock.now(), storage.generation)
        state.withLock { ($0.sent, $0.generation) = (now, generation) }
    }

    // MARK: After the request

    package var needsHead: Bool { request.method == .unsafe || state.withLock { $0.entry != nil } }

    /// Takes the head of the network's response, after a lookup has answered `miss` or `validate`.
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

    /// The transfer has failed before its head was complete.
    ///
    /// - Returns: the stored response that may be served in place of an error (RFC 5861, section 4); nil for none.
    package func failed() -> (any ServableResponse)? {
        let state = state.withLock { state in
            defer { state.entry = nil }
            return state
        }
        return standIn(state, storage.clock.now())
    }

    /// The hop has ended with none of the above.
    package func cancel() { state.withLock { $0.entry = nil } }

    private func notModified(_ head: CachedHead, _ state: State, _ now: CacheTime) -> CacheReaction {
        guard let entry = state.entry else { return .pass }
        guard state.isValidating else {
            // The client's own condition: it gets its 304, and the cache learns from it.
            if StorageRules.describes(head, entry.record, needsValidator: true) { _ = update(entry, head, state, now) }
            return .pass
        }
        storage.counts.validations.add(1, ordering: .relaxed)
        // A 304 with another strong validator must not change what is stored (RFC 9111, section 4.3.4), but the answer
        // to the condition stands: the origin has nothing else to send.
        guard StorageRules.confirms(head, entry.record) else {
            return .serveStored(response(entry, .whole, .validated, now))
        }
        return .serveStored(response(update(entry, head, state, now), .whole, .validated, now))
    }

    /// Updates a stored response by the fields of another one.
    private func update(_ entry: CacheEntry, _ head: CachedHead, _ state: State, _ now: CacheTime) -> CacheEntry {
        let old = entry.record
        let fields = StoredFields.updated(old.head.fields, by: head.fields, arrival: now.wall / 1000)
        guard let vary = VaryKey(response: fields, request: request.fields, salt: storage) else {
            // It now varies by what no request tells.
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
            // A server that names other fields each time does not make the head longer and longer.
            storage.discard(old)
            return entry
        } else {
            storage.update(record)
        }
        return CacheEntry(record: record, body: entry.body)
    }

    /// Learns from the head that HEAD gave (RFC 9111, section 4.3.5).
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
            // What was stored has been overtaken, although the new response cannot take its place.
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
