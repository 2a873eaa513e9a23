import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Sending the parts of a resumable upload.
extension Upload {
    /// The maximum number of consecutive requests without progress.
    private static let mostSetbacks = 8

    /// Sends all parts, starting at the offsets reported by the server. Starts over if necessary and allowed.
    func sendResumably(_ dialect: ResumableDialect) async throws -> UploadResult {
        while true {
            do {
                var dialect = dialect
                if state.withLock({ $0.parts.isEmpty }) {
                    if let answer = try await create(dialect) { return try await finalResult(answer) }
                    if case .draft(let version)? = state.withLock({ $0.uploadProtocol }) { dialect = .draft(version) }
                }
                state.withLock { $0.isResumable = true }
                report()
                let isCombined = state.withLock { $0.hasFinal }
                let last = isCombined ? nil : try await sendParts(dialect)
                if isCombined || state.withLock({ $0.parts.count > 1 }) { try await combineParts() }
                try await check()
                report()
                guard let last else { return UploadResult() }
                // The response to a request for the offset is not the response of the resource.
                return dialect.isTus || last.isQuestion ? UploadResult(last.answer) : try await finalResult(last.answer)
            } catch let error as UploadError {
                guard mayRestart(after: error.reason), settings.uploadURL == nil,
                    state.withLock({ state in
                        state.restarts += 1
                        return state.restarts <= 3
                    })
                else { throw error }
                forgetParts()
                state.withLock { $0.uploadProtocol = dialect.uploadProtocol }
            }
        }
    }

    private func mayRestart(after reason: UploadError.Reason) -> Bool {
        switch reason {
        case .gone: settings.resumption.restartsWhenGone
        // A sequence that can be created again may begin with other bytes than in an earlier process. A file has been
        // compared before.
        case .sourceChanged: settings.resumption.restartsWhenChanged && settings.source?.isRepeatableSequence == true
        default: false
        }
    }

    /// The last response, and whether it is the response to a request for the offset.
    private typealias LastAnswer = (answer: UploadAnswer, isQuestion: Bool)

    private func sendParts(_ dialect: ResumableDialect) async throws -> LastAnswer? {
        let count = state.withLock { $0.parts.count }
        guard count > 1 else { return try await sendPart(0, dialect) }
        return try await withThrowingTaskGroup(of: LastAnswer?.self) { group in
            for index in 0..<count { group.addTask { try await self.sendPart(index, dialect) } }
            var last: LastAnswer?
            while let answer = try await group.next() { last = answer ?? last }
            return last
        }
    }

    private func part(_ index: Int) -> UploadPart { state.withLock { $0.parts[index] } }

    /// Sends the rest of a part. Returns the last response; nil if the server already had all of it.
    private func sendPart(_ index: Int, _ dialect: ResumableDialect) async throws -> LastAnswer? {
        var highest = part(index).offset
        var setbacks = 0
        var last: LastAnswer?
        var damages = 0
        while true {
            try Task.checkCancellation()
            if !part(index).isKnown, let answer = try await askOffset(index, dialect) { last = (answer, true) }
            var part = self.part(index)
            if part.offset > highest {
                highest = part.offset
                setbacks = 0
            }
            try await position(at: part)
            part = self.part(index)
            if isWhole(part, dialect) { return last }
            let chunk = try await nextChunk(part, dialect)
            if chunk.isLast, state.withLock({ $0.parts.count == 1 }) { try await checkWhole() }
            let earlierBound = part.bound
            try await willSend(index, to: chunk.range.upperBound)
            let begun = MonotonicClock.now
            let answer: UploadAnswer
            do {
                answer = try await append(chunk, to: part, dialect)
            } catch let failure as UploadFailure {
                state.withLock { $0.chunk = max(UploadSettings.chunks.lowerBound, $0.chunk / 2) }
                throw failure
            }
            // The server cannot have more bytes than were sent.
            state.withLock { state in
                state.parts[index].bound = max(earlierBound, chunk.range.lowerBound + answer.sent)
            }
            switch answer.status {
            case 200..<300:
                noteLimits(answer)
                adapt(to: chunk, MonotonicClock.now &- begun)
                last = (answer, false)
                if try await take(answer, chunk, index, dialect) { continue }
            case 404, 410: throw UploadError(.gone(status: answer.status))
            case 412 where dialect.isTus: throw UploadError(.unsupportedVersion(ServerAbilities(answer.head).tusVersions))
            case 413:
                try shrinkRequests(after: chunk.range.upperBound - chunk.range.lowerBound, answer)
                state.withLock { $0.parts[index].isKnown = false }
                continue
            case 460 where dialect.isTus:
                damages += 1
                guard damages < 4 else { throw UploadError(.damaged) }
            // The server has a different offset, or is still processing an earlier request.
            case 409, 423: break
            default: throw refusal(answer)
            }
            setbacks += 1
            guard setbacks <= Self.mostSetbacks else {
                throw answer.isSuccess || answer.status == 409 || answer.status == 460
                    ? UploadError(.noProgress) : refusal(answer)
            }
            state.withLock { $0.parts[index].isKnown = false }
            if answer.status == 423 || setbacks > 2 { try await pause(setbacks) }
        }
    }

    /// Handles a success response to appended bytes. Returns whether the part can continue without requesting the
    /// offset.
    private func take(
        _ answer: UploadAnswer, _ chunk: UploadChunk, _ index: Int, _ dialect: ResumableDialect
    ) async throws -> Bool {
        let end = chunk.range.upperBound
        guard answer.sent >= chunk.range.upperBound - chunk.range.lowerBound else { return false }
        if !dialect.isTus, chunk.isLast {
            let offset = try answer.number("Upload-Offset")
            // This is the response of the resource itself, which may not include an offset.
            if dialect.isComplete(answer) != false, offset == end || offset == nil && answer.isOfDraft {
                return try await finish(index, at: end)
            }
        }
        guard let offset = try answer.number("Upload-Offset") else { return false }
        guard offset <= end else { throw UploadError(.invalidOffset(offset, allowed: 0...end)) }
        if let expires = answer.head["Upload-Expires"] { state.withLock { $0.record.expires = expires } }
        // Request the offset if it is too low: a stale number in a response must not cause bytes to be sent again.
        guard offset == end else { return false }
        if dialect.isTus, chunk.isLast { return try await finish(index, at: end) }
        confirm(index, offset)
        try await record(synchronizes: false)
        return true
    }

    private func finish(_ index: Int, at end: Int64) async throws -> Bool {
        complete(index, at: end)
        try await record(synchronizes: false)
        return true
    }

    // MARK: Offsets

    /// Requests the offset of a part from the server. Returns the response if the server reports that the upload is
    /// complete.
    private func askOffset(_ index: Int, _ dialect: ResumableDialect) async throws -> UploadAnswer? {
        var tries = 0
        while true {
            let part = self.part(index)
            var question = uploadRequest("HEAD", part.url)
            dialect.mark(&question)
            let answer = try await send(question)
            switch answer.status {
            case 200..<300: break
            case 404, 410: throw UploadError(.gone(status: answer.status))
            // tus 1.0 also allows this status for an upload that does not exist.
            case 403 where dialect.isTus && answer.head["Upload-Offset"] == nil:
                throw UploadError(.gone(status: answer.status))
            case 412 where dialect.isTus: throw UploadError(.unsupportedVersion(ServerAbilities(answer.head).tusVersions))
            case 423 where tries < Self.mostSetbacks, 409 where tries < Self.mostSetbacks:
                tries += 1
                try await pause(tries)
                continue
            default: throw refusal(answer)
            }
            noteLimits(answer)
            guard let offset = try answer.number("Upload-Offset") else {
                throw UploadError(.invalidAnswer("The upload's offset is missing."))
            }
            // The length of a sequence that has ended may not have been sent to the server yet.
            let length = part.length ?? state.withLock { $0.window }?.length
            let said = try answer.number("Upload-Length")
            if let said, let length, said != length {
                throw UploadError(.invalidAnswer("The upload has \(said) bytes, but \(length) were expected."))
            }
            let bound = min(part.bound, part.length ?? .max)
            guard offset <= bound else { throw UploadError(.invalidOffset(offset, allowed: 0...bound)) }
            var isComplete = false
            if dialect.isTus {
                isComplete = part.length == nil && said == offset && said == length
            } else if dialect.isComplete(answer) == true {
                isComplete = true
                guard offset == length else {
                    throw UploadError(
                        .invalidAnswer("The upload is complete with \(offset) of \(length.map { "\($0)" } ?? "more") bytes.")
                    )
                }
            }
            state.withLock { state in
                (state.parts[index].isKnown, state.parts[index].isComplete) = (true, isComplete)
                if let expires = answer.head["Upload-Expires"] { state.record.expires = expires }
            }
            confirm(index, offset)
            try await record(synchronizes: false)
            return isComplete ? answer : nil
        }
    }

    /// Returns whether a part is complete.
    private func isWhole(_ part: UploadPart, _ dialect: ResumableDialect) -> Bool {
        // In the draft, a part is complete once a request has declared this. In tus, a part is complete once the server
        // has its length and all of its bytes.
        part.isComplete || dialect.isTus && part.offset == part.length
    }

    /// Records the offset confirmed by the server.
    func confirm(_ index: Int, _ offset: Int64) {
        let (digest, prefix, released) = state.withLock { state -> (SentDigest?, Int64, (Int64, SequenceWindow)?) in
            state.meter.note(max(0, offset - state.parts[index].offset), at: MonotonicClock.now)
            state.parts[index].offset = offset
            return (state.digest, state.confirmedPrefix, state.window.map { (offset, $0) })
        }
        if let (offset, window) = released {
            let start = window.kept.lowerBound
            window.release(to: offset).withUnsafeBytes { digest?.update($0, at: start) }
        } else {
            digest?.advance(to: prefix)
        }
        report()
    }

    /// Records that the server has confirmed the complete upload.
    func complete(_ index: Int, at end: Int64) {
        state.withLock { state in
            (state.parts[index].isKnown, state.parts[index].isComplete) = (true, true)
            state.parts[index].range = state.parts[index].range.lowerBound..<(state.parts[index].range.lowerBound + end)
        }
        confirm(index, end)
    }

    func noteLimits(_ answer: UploadAnswer) {
        guard answer.head["Upload-Limit"] != nil else { return }
        state.withLock { state in
            var abilities = state.abilities ?? ServerAbilities()
            abilities.noteLimits(answer.head)
            state.abilities = abilities
        }
    }

    /// Waits before the next request, longer after each setback.
    private func pause(_ count: Int) async throws {
        let milliseconds = min(2000, settings.patience * Double(1 << min(count, 10)))
        try await Task.sleep(nanoseconds: UInt64(milliseconds * 1_000_000))
    }

    // MARK: Requests

    /// Appends bytes to a part.
    private func append(
        _ chunk: UploadChunk, to part: UploadPart, _ dialect: ResumableDialect
    ) async throws -> UploadAnswer {
        var sent = uploadRequest("PATCH", part.url)
        dialect.mark(&sent)
        if let type = dialect.partType {
            sent.setValue(type, forHTTPHeaderField: "Content-Type")
        } else {
            setContentType(&sent)
        }
        sent.setValue("\(chunk.range.lowerBound)", forHTTPHeaderField: "Upload-Offset")
        dialect.setComplete(chunk.isLast, &sent)
        // Send the length of an upload that was created without one.
        if dialect.isTus, chunk.isLast, part.length == nil {
            sent.setValue("\(chunk.range.upperBound)", forHTTPHeaderField: "Upload-Length")
        }
        if let algorithm = settings.chunkChecksum { try await setChecksum(algorithm, of: chunk.body, dialect, &sent) }
        return try await send(sent, chunk.body) { [self] head in
            if !dialect.isTus { noteInterim(head, chunk, creating: false) }
        }
    }

    func setChecksum(
        _ algorithm: ChecksumAlgorithm, of body: UploadRequestBody, _ dialect: ResumableDialect, _ sent: inout URLRequest
    ) async throws {
        let digest: Data? = try await blocking {
            switch body {
            case .data(let data):
                let digest = MessageDigest(algorithm)
                digest.update(data)
                return digest.value()
            case .range(let source, let range): return try source.checksum(algorithm, of: range).digest
            case .none, .stream: return nil
            }
        }
        guard let digest else { throw UploadError(.unreadableSource("OpenSSL failed to compute the \(algorithm) digest.")) }
        let text = digest.base64EncodedString()
        if dialect.isTus {
            sent.setValue("\(algorithm.tusName) \(text)", forHTTPHeaderField: "Upload-Checksum")
        } else if let name = algorithm.digestName {
            sent.setValue("\(name)=:\(text):", forHTTPHeaderField: "Content-Digest")
        } else {
            throw UploadError(.unsupported("\(algorithm) checksums, which only tus can transmit"))
        }
    }
}
