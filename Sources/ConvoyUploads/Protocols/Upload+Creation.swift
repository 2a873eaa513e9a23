import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Creating a resumable upload on the server.
extension Upload {
    /// Creates the upload or its parts. Returns the final response if the server already has all bytes.
    func create(_ dialect: ResumableDialect) async throws -> UploadAnswer? {
        try requireJournal()
        try await checkSize(dialect)
        switch dialect {
        case .tus:
            // Requests that create uploads without sending data can be repeated: at most, an empty upload is left
            // behind.
            state.withLock { $0.isResumable = !settings.sendsDataWithCreation }
            try await createTus()
            return nil
        case .draft:
            while true {
                let creation = try await createDraft(dialect)
                if case .created(let answer) = creation { return answer }
            }
        }
    }

    /// The result of a request that creates an upload and sends its first bytes.
    private enum Creation {
        /// The upload exists. The response is the final one if the server has all bytes.
        case created(UploadAnswer?)
        /// The server has rejected the request as too long.
        case tooLong
    }

    private func checkSize(_ dialect: ResumableDialect) async throws {
        let total = state.withLock { $0.total }
        let needsAbilities = settings.parallelParts > 1 || settings.chunkChecksum != nil || total == nil
        if dialect.isTus, needsAbilities { try await askAbilities() }
        guard let abilities = state.withLock({ $0.abilities }) else { return }
        if dialect.isTus, needsAbilities {
            let hasVersion = abilities.tusVersions.isEmpty || abilities.speaksTus
            guard hasVersion else { throw UploadError(.unsupportedVersion(abilities.tusVersions)) }
            var wanted: [String] = []
            if total == nil { wanted.append("creation-defer-length") }
            if let algorithm = settings.chunkChecksum {
                wanted.append("checksum")
                guard abilities.checksums.isEmpty || abilities.checksums.contains(algorithm.tusName) else {
                    throw UploadError(.unsupported("\(algorithm) checksums"))
                }
            }
            if let missing = wanted.first(where: { !abilities.extensions.contains($0) }) {
                throw UploadError(.unsupported("the tus extension \(missing)"))
            }
        }
        if let total, let limit = abilities.maximumSize, total > limit { throw UploadError(.tooLarge(limit: limit)) }
    }

    // MARK: tus

    private func createTus() async throws {
        let total = state.withLock { $0.total }
        let combines = state.withLock { $0.source != nil && $0.abilities?.extensions.contains("concatenation") == true }
        guard settings.parallelParts > 1, combines, let total, total / 2 >= settings.minimumPart else {
            let part = try await createTusPart(0..<(total ?? .max), isPartial: false)
            state.withLock { $0.parts = [part] }
            return try await record(synchronizes: true)
        }
        let count = min(Int64(settings.parallelParts), total / settings.minimumPart)
        var parts: [UploadPart] = []
        for index in 0..<count {
            let range = (total / count * index)..<(index + 1 == count ? total : total / count * (index + 1))
            parts.append(try await createTusPart(range, isPartial: true))
        }
        let made = parts
        state.withLock { $0.parts = made }
        try await record(synchronizes: true)
    }

    private func createTusPart(_ range: Range<Int64>, isPartial: Bool) async throws -> UploadPart {
        while true {
            if let part = try await sendCreation(of: range, isPartial: isPartial) { return part }
        }
    }

    /// Creates a part. Returns nil if the server has rejected the first bytes as too long, after which fewer are sent.
    private func sendCreation(of range: Range<Int64>, isPartial: Bool) async throws -> UploadPart? {
        guard let url = request.url else { throw UploadError(.unsuitableRequest) }
        var sent = uploadRequest("POST", url)
        ResumableDialect.tus.mark(&sent)
        let length = range.upperBound == .max ? nil : range.upperBound - range.lowerBound
        if let length {
            sent.setValue("\(length)", forHTTPHeaderField: "Upload-Length")
        } else {
            sent.setValue("1", forHTTPHeaderField: "Upload-Defer-Length")
        }
        if isPartial { sent.setValue("partial", forHTTPHeaderField: "Upload-Concat") } else { setMetadata(&sent) }
        var body = UploadRequestBody.none
        var carried: Int64 = 0
        if settings.sendsDataWithCreation, let length, length > 0, let source = state.withLock({ $0.source }) {
            carried = min(length, chunkLimit(.tus))
            if carried == length, !isPartial { try await checkWhole() }
            body = .range(source, range.lowerBound..<(range.lowerBound + carried))
            sent.setValue(ResumableDialect.tus.partType, forHTTPHeaderField: "Content-Type")
            if let algorithm = settings.chunkChecksum {
                let part = range.lowerBound..<(range.lowerBound + carried)
                let checksum = try await blocking { try source.checksum(algorithm, of: part) }
                sent.setValue(
                    "\(algorithm.tusName) \(checksum.digest.base64EncodedString())", forHTTPHeaderField: "Upload-Checksum")
            }
        }
        state.withLock { $0.mustNotRepeat = carried > 0 }
        let answer = try await send(sent, body)
        state.withLock { $0.mustNotRepeat = false }
        if answer.status == 413, carried > 0 {
            try shrinkRequests(after: carried, answer)
            return nil
        }
        guard answer.status == 201 else { throw creationFailure(answer) }
        guard let place = try answer.location() else {
            throw UploadError(.invalidAnswer("The upload's URL is missing."))
        }
        state.withLock { $0.record.expires = answer.head["Upload-Expires"] ?? $0.record.expires }
        var part = UploadPart(url: place, range: range, bound: carried)
        if carried > 0 {
            let offset = try answer.number("Upload-Offset") ?? 0
            guard 0...carried ~= offset else { throw UploadError(.invalidOffset(offset, allowed: 0...carried)) }
            part.offset = offset
            // Request the offset unless the server has confirmed all bytes sent.
            part.isKnown = offset == carried
        } else {
            part.isKnown = true
        }
        return part
    }

    /// Combines the parts into one upload on the server. If the response is lost, the request is not sent again, because
    /// every request creates another upload.
    func combineParts() async throws {
        if !state.withLock({ $0.hasFinal }) { try await sendCombination() }
        try await checkCombination()
    }

    private func sendCombination() async throws {
        guard let url = request.url else { throw UploadError(.unsuitableRequest) }
        try await checkWhole()
        let (parts, total) = state.withLock { ($0.parts, $0.total) }
        var sent = uploadRequest("POST", url)
        ResumableDialect.tus.mark(&sent)
        sent.setValue(
            "final;" + parts.map(\.url.absoluteString).joined(separator: " "), forHTTPHeaderField: "Upload-Concat")
        setMetadata(&sent)
        let answer = try await sendOnce(sent)
        guard answer.status == 201 else { throw creationFailure(answer) }
        guard let place = try answer.location() else {
            throw UploadError(.invalidAnswer("The upload's URL is missing."))
        }
        let length = total ?? 0
        state.withLock { state in
            state.parts = [UploadPart(url: place, range: 0..<length, offset: length, bound: length, isKnown: true)]
            state.hasFinal = true
        }
        try await record(synchronizes: true)
    }

    /// If the server reports the combined length, it must be the total length of the parts.
    private func checkCombination() async throws {
        let (part, total) = state.withLock { ($0.parts.first, $0.total) }
        guard let part else { return }
        var question = uploadRequest("HEAD", part.url)
        ResumableDialect.tus.mark(&question)
        let answer = try await send(question)
        guard answer.isSuccess else { throw refusal(answer) }
        for name in ["Upload-Length", "Upload-Offset"] {
            if let number = try answer.number(name), number != total {
                throw UploadError(
                    .invalidAnswer("The parts have \(total ?? 0) bytes, but the combined upload has \(number)."))
            }
        }
    }

    /// Sends the request that combines the parts, and journals that its response is missing.
    private func sendOnce(_ request: URLRequest) async throws -> UploadAnswer {
        func note(isCombining: Bool) async throws {
            state.withLock { state in
                state.record.isCombining = isCombining ? true : nil
                state.mustNotRepeat = isCombining
            }
            try await record(synchronizes: true)
        }
        try await note(isCombining: true)
        do {
            let answer = try await send(request)
            try await note(isCombining: false)
            return answer
        } catch let failure as UploadFailure where failure.isUnsent {
            try await note(isCombining: false)
            throw failure
        }
    }

    /// Sets `Upload-Metadata` to the user's metadata, with the name and type of the file unless specified.
    private func setMetadata(_ sent: inout URLRequest) {
        guard sent.value(forHTTPHeaderField: "Upload-Metadata") == nil else { return }
        var metadata = settings.metadata
        let file = settings.source?.file
        if metadata["filename"] == nil, let file { metadata["filename"] = file.lastPathComponent }
        if metadata["filetype"] == nil {
            metadata["filetype"] =
                request.value(forHTTPHeaderField: "Content-Type")
                ?? file.map { MIMEType.type(forPathExtension: $0.pathExtension) } ?? MIMEType.unknown
        }
        let items = metadata.sorted { $0.key < $1.key }
            .map { name, value in value.isEmpty ? name : "\(name) \(Data(value.utf8).base64EncodedString())" }
        if !items.isEmpty { sent.setValue(items.joined(separator: ","), forHTTPHeaderField: "Upload-Metadata") }
    }

    /// Returns the error for an upload that was not created.
    private func creationFailure(_ answer: UploadAnswer) -> any Error {
        switch answer.status {
        case 413: return UploadError(.tooLarge(limit: ServerAbilities(answer.head).maximumSize))
        case 412: return UploadError(.unsupportedVersion(ServerAbilities(answer.head).tusVersions))
        case 200..<300:
            return UploadError(
                .invalidAnswer(
                    "The upload was not created: the status "
                        + "is \(answer.status)."))
        default: return refusal(answer)
        }
    }

    // MARK: The draft

    /// Creates the upload with a request that contains all of it or its first chunk. The server sends the URL in an
    /// interim response, so that the upload can be resumed after a failure.
    private func createDraft(_ dialect: ResumableDialect) async throws -> Creation {
        guard let url = request.url else { throw UploadError(.unsuitableRequest) }
        let chunk = try await nextChunk(UploadPart(url: url, range: 0..<(state.withLock { $0.total } ?? .max)), dialect)
        if chunk.isLast { try await checkWhole() }
        var sent = uploadRequest(request.httpMethod.map { $0 == "GET" ? "POST" : $0 } ?? "POST", url)
        dialect.mark(&sent)
        dialect.setComplete(chunk.isLast, &sent)
        setContentType(&sent)
        setWholeDigest(&sent)
        if let total = state.withLock({ $0.total }) { sent.setValue("\(total)", forHTTPHeaderField: "Upload-Length") }
        if let algorithm = settings.chunkChecksum { try await setChecksum(algorithm, of: chunk.body, dialect, &sent) }
        let isRepeatable = Self.isRepeatable(sent)
        state.withLock { ($0.isResumable, $0.mustNotRepeat) = (false, !isRepeatable) }
        let answer = try await send(sent, chunk.body) { [self] head in noteInterim(head, chunk, creating: true) }
        let known = state.withLock { !$0.parts.isEmpty }
        guard answer.isSuccess else {
            // If the server has sent the URL of the upload, it can report the offset.
            if known { state.withLock { $0.isResumable = true } }
            guard answer.status == 413 else { throw refusal(answer) }
            try shrinkRequests(after: chunk.range.upperBound - chunk.range.lowerBound, answer)
            state.withLock { $0.mustNotRepeat = false }
            // If the URL of the upload is known, request the offset from the server.
            return known ? .created(nil) : .tooLong
        }
        noteLimits(answer)
        state.withLock { $0.mustNotRepeat = false }
        if chunk.isLast, dialect.isComplete(answer) != false {
            try checkSent(answer, chunk.body)
            let end = chunk.range.upperBound
            if let offset = try answer.number("Upload-Offset"), offset != end {
                throw UploadError(.invalidOffset(offset, allowed: end...end))
            }
            // Any server can respond with a success, for example a proxy or a server that does not support the draft.
            guard answer.isOfDraft else {
                // If the URL of the upload is known, request the offset from the server.
                if known { return .created(nil) }
                throw UploadError(.unsupported("the draft: its response contains none of the draft's fields"))
            }
            if !known { state.withLock { $0.parts = [UploadPart(url: url, range: 0..<end, bound: end)] } }
            complete(0, at: end)
            return .created(answer)
        }
        if let place = try answer.location() {
            state.withLock { state in
                let range = 0..<(state.total ?? .max)
                if state.parts.isEmpty { state.parts = [UploadPart(url: place, range: range)] }
                state.parts[0].url = place
                state.parts[0].bound = max(state.parts[0].bound, chunk.range.upperBound)
            }
        } else if !known {
            // A server that does not support the draft has treated the first bytes as the complete upload.
            throw UploadError(.unsupported("the draft: its response contains no URL for the upload"))
        }
        state.withLock { $0.isResumable = true }
        let end = chunk.range.upperBound
        if try answer.number("Upload-Offset") == end, answer.sent >= end {
            state.withLock { $0.parts[0].isKnown = true }
            confirm(0, end)
        }
        try await record(synchronizes: true)
        return .created(nil)
    }

    /// Handles an interim response with the URL of the upload or its offset. This method is called on the network
    /// thread.
    func noteInterim(_ head: ResponseHead, _ chunk: UploadChunk, creating: Bool) {
        guard head.statusCode == 104 else { return }
        let place = creating ? (try? UploadAnswer.location(head)) ?? nil : nil
        let offset = head["Upload-Offset"].flatMap { Int64($0) }
        let changed = state.withLock { state -> Bool in
            var changed = false
            if let place, state.parts.isEmpty {
                state.parts = [
                    UploadPart(url: place, range: 0..<(state.total ?? .max), bound: chunk.range.upperBound)
                ]
                state.isResumable = true
                state.mustNotRepeat = false
                if let version = head["Upload-Draft-Interop-Version"].flatMap({ Int($0) }),
                    ResumableDialect.versions.contains(version)
                {
                    state.uploadProtocol = .draft(interopVersion: version)
                }
                changed = true
            }
            // Ignore an offset beyond the bytes sent; the final response will be validated.
            if let offset, !state.parts.isEmpty, offset > state.parts[0].offset, chunk.range.upperBound >= offset {
                state.meter.note(offset - state.parts[0].offset, at: MonotonicClock.now)
                state.parts[0].offset = offset
                changed = true
            }
            return changed
        }
        guard changed else { return }
        report()
        Task { try? await self.record(synchronizes: creating) }
    }
}
