import ConvoyOperations
import ConvoySupport
import Foundation

/// The bytes sent in one request.
struct UploadChunk: Sendable {
    /// The positions of the bytes in the part.
    let range: Range<Int64>
    /// Whether this is the last chunk of the part.
    let isLast: Bool
    let body: UploadRequestBody
}

/// The bytes of the requests of a resumable upload, and their number.
extension Upload {
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
    func position(at part: UploadPart) async throws {
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
    func adapt(to chunk: UploadChunk, _ nanoseconds: UInt64) {
        guard case .adaptive = settings.chunkSize else { return }
        let size = chunk.range.upperBound - chunk.range.lowerBound
        state.withLock { state in
            guard size >= state.chunk else { return }
            state.chunk = UploadSettings.chunk(after: size, in: nanoseconds)
        }
    }

    /// Records the maximum number of bytes that the server may have after the next request, for a later process.
    func willSend(_ index: Int, to bound: Int64) async throws {
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
}
