import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The state of an `UploadOperation` across pauses and retries: the source, the journal, and the requests for the
/// parts.
///
/// An attempt is one task, which runs the protocol step by step. Stopping the attempt cancels the task, and with it the
/// current request. The next attempt requests the offset from the server. A pause during a request that must not be sent
/// twice only holds the task and its request, and the next attempt continues with them.
final class Upload: @unchecked Sendable {
    let settings: UploadSettings
    let request: URLRequest
    private(set) weak var operation: UploadOperation?
    let secrets: SecretClassifier
    let state = Locked(UploadState())

    init(_ operation: UploadOperation) {
        self.operation = operation
        settings = operation.uploadSettings.withLock { $0 }
        request = operation.request
        secrets = operation.connectionConfiguration.secrets
    }

    // MARK: Starting and stopping

    /// Starts an attempt. This method can be called on any thread.
    func begin(_ work: AttemptContext) {
        let continues = state.withLock { state in
            let isHeld = state.isHeld
            state.work = work
            state.isStopping = false
            state.isHeld = false
            return isHeld
        }
        guard work.begin(stop: { self.stop() }) else {
            // The task may have ended the attempt in the meantime.
            let isOwn = state.withLock { state in
                guard state.work.take() != nil else { return false }
                state.isHeld = continues
                return true
            }
            return isOwn ? work.didStop() : ()
        }
        if continues {
            holdOrReleaseRequest(work)
            state.withLock { $0.awaitingAttempt.take() }?.resume()
            return
        }
        let task = Task { await self.run() }
        let isStopping = state.withLock { state in
            if state.work != nil { state.task = task }
            return state.isStopping
        }
        if isStopping { task.cancel() }
    }

    private func stop() {
        let (held, task) = state.withLock { state -> (AttemptContext?, Task<Void, Never>?) in
            if state.mustNotRepeat, state.unrepeatable != nil, let work = state.work, !work.isEnding {
                state.work = nil
                state.isHeld = true
                return (work, nil)
            }
            state.isStopping = true
            return (nil, state.task)
        }
        task?.cancel()
        guard let held else { return }
        holdOrReleaseRequest(held)
        held.didStop()
    }

    /// Pauses the request that must not be repeated if the upload is held, otherwise resumes it. Runs on one thread, so
    /// that the last change takes effect.
    private func holdOrReleaseRequest(_ work: AttemptContext) {
        work.perform { [self] in
            let (request, isHeld) = state.withLock { ($0.unrepeatable, $0.isHeld) }
            if isHeld { request?.pause() } else { request?.resume() }
        }
    }

    /// Returns the attempt that the task has to end; nil if there is none. Waits for the next attempt while the upload is
    /// held.
    private func takeWork() async -> AttemptContext? {
        await withCheckedContinuation { continuation in
            let waits = state.withLock { state in
                if state.isHeld { state.awaitingAttempt = continuation }
                return state.isHeld
            }
            if !waits { continuation.resume() }
        }
        return state.withLock { $0.work.take() }
    }

    /// Releases the source and the journal when the operation has finished or was deallocated. The journal of an
    /// incomplete upload is kept.
    func close() {
        let (journal, digest, task, waiting) = state.withLock { state in
            defer {
                state.journal = nil
                state.digest = nil
                state.source = nil
                state.window = nil
            }
            state.isHeld = false
            return (state.journal, state.digest, state.task, state.awaitingAttempt.take())
        }
        // Only a held upload still has a task.
        task?.cancel()
        waiting?.resume()
        digest?.stop()
        if let journal { FileWorkers.shared.perform { journal.close() } }
    }

    private func run() async {
        do {
            try await open()
            let result = try await transfer()
            try await blocking { self.state.withLock { $0.journal }?.remove() }
            let work = await takeWork()
            let url = state.withLock { state in
                state.isDone = true
                state.task = nil
                return state.parts.first?.url
            }
            if let head = result.head { work?.note(head, redirects: result.redirects) }
            work?.finish(with: result.object ?? url, data: result.data)
        } catch {
            await end(with: error)
        }
    }

    private func end(with error: any Error) async {
        // Write a final entry, so that few bytes are sent twice. If the source has changed, an entry would be
        // meaningless.
        if (error as? UploadError)?.reason != .sourceChanged { try? await record(synchronizes: true) }
        let work = await takeWork()
        let (isStopping, mustNotRepeat) = state.withLock { state in
            state.task = nil
            defer { state.mustNotRepeat = false }
            return (state.isStopping, state.mustNotRepeat)
        }
        guard let work else { return }
        // A request that ended just before the pause may have arrived.
        let mayBeRepeated = !mustNotRepeat || error is CancellationError || (error as? UploadFailure)?.isUnsent == true
        if isStopping, mayBeRepeated { return work.didStop() }
        switch error {
        case let failure as UploadFailure:
            // Never send a non-idempotent request twice, unless none of it was sent.
            guard failure.isUnsent || !mustNotRepeat else {
                if let head = failure.head { work.note(head, redirects: []) }
                return work.fail(finally: failure.error)
            }
            guard let head = failure.head, failure.isOfStatus else {
                return work.fail(with: failure.error, head: failure.head)
            }
            work.fail(with: failure.error, response: head, data: failure.data, object: nil)
        case let failure as UploadSequenceFailure: work.fail(finally: failure.cause)
        default: work.fail(finally: error)
        }
    }

    // MARK: Opening

    /// Opens the source and the journal, and compares them. Later attempts reuse both.
    private func open() async throws {
        guard let source = settings.source else { throw UploadError(.noSource) }
        guard request.httpBody == nil, request.httpBodyStream == nil, let url = request.url, Target(url) != nil else {
            throw UploadError(.unsuitableRequest)
        }
        if state.withLock({ $0.isOpen }) { return try await check() }
        let isName = { (text: String) in text.utf8.allSatisfy { 0x21...0x7E ~= $0 && $0 != UInt8(ascii: ",") } }
        if let name = settings.metadata.keys.sorted().first(where: { $0.isEmpty || !isName($0) }) {
            throw UploadError(.invalidMetadata(name: name))
        }
        var wait: DescriptorWait?
        while true {
            do {
                try await blocking { [self, wait] in
                    try DescriptorLimit.openFiles(2, after: wait, else: URLError(lackingDescriptorFor: url) as any Error) {
                        _ in try openFiles(of: source, url)
                    }
                }
                break
            } catch let error as URLError where error.lacksDescriptor && wait?.isLast != true {
                guard let work = state.withLock({ $0.work }) else { throw error }
                wait = await withCheckedContinuation { [wait] continuation in
                    work.awaitDescriptors(after: wait) { continuation.resume(returning: $0) }
                }
            }
        }
        state.withLock { $0.isOpen = true }
    }

    /// Opens the source and the journal. Blocks.
    private func openFiles(of source: UploadSource, _ url: URL) throws {
        switch source {
        case .file(let file):
            let opened = try FileSource(file, calls: settings.calls)
            state.withLock { $0.source = opened }
        case .data(let data): state.withLock { $0.source = DataSource(data) }
        case .sequence(let length, _, _): state.withLock { $0.total = length }
        }
        try openJournal(of: source, url)
    }

    /// Throws an error if the source has changed since it was opened.
    func check() async throws {
        guard let source = state.withLock({ $0.source }) else { return }
        try await blocking { try source.check() }
    }

    // MARK: Starting over

    /// Discards the record of all bytes sent so far.
    func forgetParts() {
        state.withLock { state in
            state.parts = []
            state.record.expires = nil
            state.record.isCombining = nil
            state.record.digest = nil
            state.record.digested = 0
            state.uploadProtocol = nil
            state.hasFinal = false
        }
    }

    // MARK: Progress

    /// Reports the confirmed bytes.
    func report() {
        let (work, confirmed, total, more) = state.withLock { state in
            let confirmed = state.confirmed
            defer { state.reported = confirmed }
            return (state.work, confirmed, state.total, confirmed - state.reported)
        }
        work?.reportSent(bytes: more, total: confirmed, expected: total)
    }

    var progress: UploadProgress {
        state.withLock { state in
            var progress = UploadProgress(bytesConfirmed: state.confirmed, bytesExpected: state.total)
            progress.bytesPerSecond = state.meter.rate(at: MonotonicClock.now)
            return progress
        }
    }

    /// Runs a block on a thread that may block.
    func blocking<Value: Sendable>(_ block: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            FileWorkers.shared.perform { continuation.resume(with: Result { try block() }) }
        }
    }
}

/// The failure of an upload request, after which the operation may be retried.
struct UploadFailure: Error, @unchecked Sendable {
    let error: any Error
    var head: ResponseHead?
    var data: Data?
    /// Whether the server has responded with an error status.
    var isOfStatus = false

    /// Whether nothing of the request was sent.
    var isUnsent: Bool { (error as? URLError)?.userInfo[URLError.nothingWasSentKey] as? Bool == true }
}

/// An upload on the server: the complete source, or one of several concurrent parts.
struct UploadPart: Sendable {
    var url: URL
    /// The range in the source; its end is `Int64.max` while unknown.
    var range: Range<Int64>
    /// The number of bytes of the part that the server has confirmed.
    var offset: Int64 = 0
    /// The maximum number of bytes of the part that may have been sent, by this process or an earlier one.
    var bound: Int64 = 0
    /// The value of `bound` in the journal, which is increased in advance rather than for each request.
    var recordedBound: Int64 = 0
    /// Whether the server has reported the part's offset in this attempt.
    var isKnown = false
    /// Whether the server has reported that the upload is complete, or has received the upload's length.
    var isComplete = false

    /// The length in bytes; nil while it is unknown to the server.
    var length: Int64? { range.upperBound == .max ? nil : range.upperBound - range.lowerBound }
}

/// The mutable state of an upload, guarded by its lock.
struct UploadState: Sendable {
    var work: AttemptContext?
    var task: Task<Void, Never>?
    var isStopping = false
    var isOpen = false
    var isDone = false
    var source: (any SeekableSource)?
    var window: SequenceWindow?
    var journal: UploadJournal?
    /// The reason why no journal can be opened.
    var journalFailure: UploadError?
    /// The data that an adapter stored for an earlier upload that is not resumed.
    var discarded: Data?
    var digest: SentDigest?
    var record = UploadRecord(place: "", shown: "")
    var uploadProtocol: UploadProtocol?
    var abilities: ServerAbilities?
    var parts: [UploadPart] = []
    /// Whether the parts have been combined.
    var hasFinal = false
    /// The length of the source; nil while unknown.
    var total: Int64?
    /// The number of bytes reported by an adapter.
    var adapted: Int64?
    var reported: Int64 = 0
    var meter = RateMeter()
    /// The length of the next chunk, in bytes, if it is adaptive.
    var chunk = UploadSettings.firstChunk
    /// The maximum length of a chunk, in bytes, after the server has rejected a longer one.
    var mostPerRequest = Int64.max
    var restarts = 0
    /// The checksums of the complete source.
    var computed: [Checksum] = []
    /// Whether a later attempt can resume this one.
    var isResumable = false
    /// Whether a request was sent that may have arrived and must not be sent again.
    var mustNotRepeat = false
    /// The request in progress that must not be sent again.
    var unrepeatable: HTTPRequestOperation?
    /// Whether a pause holds that request, and the task, until the next attempt.
    var isHeld = false
    /// Continues the task of a held upload, which has ended its work, with the next attempt.
    var awaitingAttempt: CheckedContinuation<Void, Never>?

    /// The number of bytes confirmed by the server.
    var confirmed: Int64 {
        adapted
            ?? parts.reduce(0) { sum, part in
                let (next, overflow) = sum.addingReportingOverflow(part.offset)
                return overflow ? sum : next
            }
    }

    /// The number of contiguous confirmed bytes from the start.
    var confirmedPrefix: Int64 {
        var position: Int64 = 0
        for part in parts where part.range.lowerBound == position {
            position += part.offset
            if part.offset < part.range.upperBound - part.range.lowerBound { break }
        }
        return position
    }
}
