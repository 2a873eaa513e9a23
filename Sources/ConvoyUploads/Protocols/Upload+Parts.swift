import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The bytes sent in one request.
struct UploadChunk: Sendable {
    /// The positions of the bytes in the part.
    let range: Range<Int64>
    /// Whether this is the last chunk of the part.
    let isLast: Bool
    let body: UploadBody
}

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
            if part.offset > highest { (highest, setbacks) = (part.offset, 0) }
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

    // MARK: Chunks

    /// Returns the maximum number of bytes per request.
    func chunkLimit(_ dialect: ResumableDialect) -> Int64 {
        let (chunk, most) = state.withLock { ($0.chunk, min($0.abilities?.maximumAppend ?? .max, $0.mostPerRequest)) }
        let wanted: Int64 =
            switch settings.chunkSize {
            case .fixed(let size): max(1, size)
            // The draft's interim responses confirm received bytes, so separate requests are unnecessary.
            case .adaptive: dialect.isTus ? chunk : .max
            }
        let kept: Int64 = settings.source?.isSequence == true ? Int64(settings.window) : .max
        return max(1, min(wanted, kept, most))
    }

    /// Halves the maximum length of a chunk after the server, or a proxy, has rejected a request as too long. The status
    /// is about the content of one request (RFC 9110, section 15.5.14).
    ///
    /// - Throws: ``UploadError/Reason/tooLarge(limit:)`` if the upload itself is too large, or the chunk was short.
    func shrinkRequests(after size: Int64, _ answer: UploadAnswer) throws(UploadError) {
        let (total, least) = (state.withLock { $0.total }, UploadSettings.chunks.lowerBound)
        let limit = ServerAbilities(answer.head).maximumSize
        if let limit, let total, total > limit { throw UploadError(.tooLarge(limit: limit)) }
        guard size > least else { throw UploadError(.tooLarge(limit: limit)) }
        state.withLock { $0.mostPerRequest = min($0.mostPerRequest, max(least, size / 2)) }
    }

    /// Returns the next bytes of a part.
    func nextChunk(_ part: UploadPart, _ dialect: ResumableDialect) async throws -> UploadChunk {
        let limit = chunkLimit(dialect)
        let (source, window) = state.withLock { ($0.source, $0.window) }
        guard let source else {
            let window = window ?? makeWindow()
            return try await nextChunk(of: window, part, limit)
        }
        let end = part.range.upperBound - part.range.lowerBound
        let upper = min(end, part.offset.addingReportingOverflow(limit).overflow ? .max : part.offset + limit)
        let range = part.offset..<upper
        let positions = (part.range.lowerBound + range.lowerBound)..<(part.range.lowerBound + range.upperBound)
        // A short body is sent more efficiently from memory.
        guard positions.upperBound - positions.lowerBound <= 256 << 10 else {
            return UploadChunk(range: range, isLast: upper == end, body: .range(source, positions))
        }
        let data = try await blocking {
            var data = Data()
            try source.read(positions) { bytes in
                data.append(contentsOf: bytes)
                return true
            }
            try source.check()
            return data
        }
        return UploadChunk(range: range, isLast: upper == end, body: .data(data))
    }

    private func nextChunk(of window: SequenceWindow, _ part: UploadPart, _ limit: Int64) async throws -> UploadChunk {
        try await window.fill(to: part.offset + limit)
        let expected = state.withLock { $0.total }
        let length = window.length
        if let length {
            if let expected, expected != length { throw UploadError(.unexpectedLength(expected: expected, actual: length)) }
            state.withLock { $0.total = length }
        } else if let expected, window.kept.upperBound > expected {
            throw UploadError(.unexpectedLength(expected: expected, actual: nil))
        }
        let upper = min(part.offset + limit, window.kept.upperBound)
        guard let data = window.bytes(part.offset..<upper) else { throw UploadError(.bytesNotKept(part.offset)) }
        return UploadChunk(range: part.offset..<upper, isLast: upper == length, body: .data(data))
    }

    private func makeWindow() -> SequenceWindow {
        guard case .sequence(_, _, let make)? = settings.source else {
            return SequenceWindow(SequencePump { AsyncStream<Data> { $0.finish() } })
        }
        let window = SequenceWindow(make())
        state.withLock { $0.window = window }
        return window
    }

    /// Advances a sequence to the offset of the server. If the sequence has passed that offset, creates it again.
    private func position(at part: UploadPart) async throws {
        guard let source = settings.source, case .sequence(_, let canRepeat, _) = source else { return }
        var window = state.withLock { $0.window } ?? makeWindow()
        if window.kept.lowerBound > part.offset {
            guard canRepeat else { throw UploadError(.bytesNotKept(part.offset)) }
            window = makeWindow()
        }
        let (digest, record) = state.withLock { ($0.digest, $0.record) }
        while window.kept.lowerBound < part.offset {
            let start = window.kept.lowerBound
            try await window.fill(to: min(part.offset - 1, start + (64 << 10)))
            guard window.kept.upperBound > start else { throw UploadError(.sourceChanged) }
            window.release(to: part.offset).withUnsafeBytes { digest?.update($0, at: start) }
        }
        // The sequence must begin with the same bytes that an earlier process has sent.
        if let marked = digest?.marked, marked.position == record.digested, marked.value != record.digest {
            throw UploadError(.sourceChanged)
        }
    }

    /// Adapts the size of the next chunk to the time taken by this one.
    private func adapt(to chunk: UploadChunk, _ nanoseconds: UInt64) {
        guard case .adaptive = settings.chunkSize else { return }
        let size = chunk.range.upperBound - chunk.range.lowerBound
        state.withLock { state in
            guard size >= state.chunk else { return }
            state.chunk = UploadSettings.chunk(after: size, in: nanoseconds)
        }
    }

    /// Records the maximum number of bytes that the server may have after the next request, for a later process.
    private func willSend(_ index: Int, to bound: Int64) async throws {
        // The recorded bound is ahead of the bytes sent, so not every request requires a write to the disk.
        let mustRecord = state.withLock { state -> Bool in
            state.parts[index].bound = max(state.parts[index].bound, bound)
            let part = state.parts[index]
            guard bound > part.recordedBound else { return false }
            let ahead = bound.addingReportingOverflow(64 << 20)
            state.parts[index].recordedBound = min(part.length ?? .max, ahead.overflow ? .max : ahead.partialValue)
            return true
        }
        if mustRecord { try await record(synchronizes: true) }
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
        _ algorithm: ChecksumAlgorithm, of body: UploadBody, _ dialect: ResumableDialect, _ sent: inout URLRequest
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
