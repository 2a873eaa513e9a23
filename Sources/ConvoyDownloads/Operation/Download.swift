import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The state of a `DownloadOperation` across pauses and retries: the files, the plan, and the requests for the parts.
///
/// All decisions are made by the plan under one lock, and take effect after the lock has been released. Files are
/// opened, verified and renamed on threads that may block.
final class Download: @unchecked Sendable {
    let settings: DownloadSettings
    let request: URLRequest
    private(set) weak var operation: DownloadOperation?
    /// The serializer that determines the acceptable statuses and types.
    let serializer: HTTPResponseSerializer
    let state: Locked<DownloadState>
    /// Whether to decode an encoded body. False if the user has requested an encoding, and for archives that many
    /// servers send as encoded contents.
    let decodes: Bool
    /// Whether the download requests no content encoding, because the user has not set `Accept-Encoding`.
    let asksForIdentity: Bool
    /// Whether a short file may be kept in memory until complete, because it is new, and neither the file nor its
    /// partial file is needed earlier.
    private let mayKeepInMemory: Bool
    let digest: Locked<FileDigest?> = Locked(nil)

    init(_ operation: DownloadOperation) {
        self.operation = operation
        settings = operation.downloadSettings.withLock { $0 }
        let request = operation.request
        asksForIdentity = request.value(forHTTPHeaderField: "Accept-Encoding") == nil
        decodes = asksForIdentity && !DownloadOperation.isCompressedFile(request.url)
        mayKeepInMemory =
            type(of: operation) == DownloadOperation.self && settings.commitCheck == nil && settings.segments == 1
            && settings.pieces == nil && settings.checksums.isEmpty && settings.computed.isEmpty
            && (settings.existing == .fail || settings.existing == .skip)
        self.request = request
        serializer = operation.responseSerializer.http
        var plan = DownloadPlan(
            sources: request.url.map { [$0] } ?? [], maximumParts: settings.segments, minimumPart: settings.minimumSegment,
            isVerified: !settings.checksums.isEmpty || settings.pieces != nil, lengths: settings.lengths,
            secrets: operation.connectionConfiguration.secrets)
        plan.add(settings.mirrors)
        state = Locked(DownloadState(plan: plan))
    }

    var outcome: DownloadOutcome? { state.withLock { $0.outcome } }
    var finalURL: URL? { state.withLock { $0.finalURL } }

    func progress(_ progress: TransferProgress) -> DownloadProgress {
        var snapshot = DownloadProgress(progress)
        snapshot.bytesPerSecond = state.withLock { $0.meter.rate(at: settings.clock()) }
        return snapshot
    }

    // MARK: Starting and stopping

    /// Starts an attempt. This method can be called on any thread.
    func begin(_ work: AttemptContext) {
        state.withLock { state in
            state.work = work
            state.isFetching = false
            state.isStopping = false
            state.fatal = nil
            state.failures = [:]
        }
        guard work.begin(stop: { self.stop() }) else {
            // Clear `work` first, because `didStop` may start the next attempt.
            state.withLock { $0.work = nil }
            return work.didStop()
        }
        FileWorkers.shared.perform { self.open(after: nil) }
    }

    /// Stops the attempt after the operation was paused or cancelled. This method can be called on any thread.
    private func stop() {
        let operations = state.withLock { state in
            state.isStopping = true
            return state.isFetching ? Array(state.operations.values) : []
        }
        // Code that opens or checks the files polls the flag `isStopping`, but digests must be stopped explicitly.
        digest.withLock { $0 }?.stop()
        for operation in operations { operation.cancel() }
    }

    /// Ends the attempt if it should stop. Call this method on a thread that may block, with no part running.
    func endsIfStopped() -> Bool {
        let (work, file) = state.withLock { state -> (AttemptContext?, DownloadFile?) in
            guard state.isStopping else { return (nil, nil) }
            state.isFetching = false
            return (state.work.take(), state.file)
        }
        guard let work else { return false }
        file?.synchronize()
        work.didStop()
        return true
    }

    /// Fails the attempt, after which the operation may start another. Call this method on a thread that may block.
    func fail(_ failure: DownloadFailure) {
        let (work, file) = state.withLock { state in
            state.isFetching = false
            return (state.work.take(), state.file)
        }
        file?.synchronize()
        if failure.isFinal {
            work?.fail(finally: failure.error)
        } else if failure.isOfStatus, let head = failure.head {
            work?.fail(with: failure.error, response: head, data: failure.data, object: failure.object)
        } else {
            work?.fail(with: failure.error, head: failure.head)
        }
    }

    func fail(_ error: any Error) { fail(DownloadFailure(error: error, isFinal: true)) }

    /// Releases the files when the operation has finished or was deallocated. The partial file is kept for a later
    /// download.
    func close() {
        guard let file = state.withLock({ $0.file.take() }) else { return }
        digest.withLock { $0.take() }?.stop()
        if file.closesAtOnce { file.close() } else { FileWorkers.shared.perform { file.close() } }
    }

    // MARK: Opening

    /// - Parameter wait: The wait for descriptors that has ended, if any.
    private func open(after wait: DescriptorWait?) {
        if endsIfStopped() { return }
        do {
            try DescriptorLimit.openFiles(2, after: wait, else: URLError(lackingDescriptorFor: request.url) as any Error) {
                isAmple in try openFiles(mayDefer: isAmple)
            }
        } catch {
            guard wait?.isLast != true, (error as? URLError)?.lacksDescriptor == true,
                let work = state.withLock({ $0.work })
            else { return fail(error) }
            return work.awaitDescriptors(after: wait) { wait in FileWorkers.shared.perform { self.open(after: wait) } }
        }
        if endsIfStopped() { return }
        if state.withLock({ $0.existing?.isAsked }) == false { return askAboutExisting() }
        fetch()
    }

    /// Requests the first part. The files must be open. Blocks.
    func fetch() {
        digest.withLock { $0 }?.goOn()
        if state.withLock({ $0.outcome }) == .skipped { return succeed() }
        let request = state.withLock { state -> PartRequest? in
            state.meter.begin(at: settings.clock())
            state.earlierHead = state.head ?? state.earlierHead
            state.head = nil
            let request = state.plan.begin()
            if !state.plan.done.isEmpty { state.file?.begin(state.plan.representation, keeping: state.plan.done) }
            return request
        }
        report(0)
        let (done, total) = state.withLock { ($0.plan.done.count, $0.plan.total) }
        if done > 0 { state.withLock { $0.work }?.didResume(at: done, expected: total) }
        if let request {
            start(request)
        } else if state.withLock({ $0.plan.isComplete }) {
            finish()
        } else {
            fail(lastFailure ?? DownloadFailure(error: DownloadError.keepsChanging, isFinal: true))
        }
    }

    private func openFiles(mayDefer: Bool) throws {
        if let file = state.withLock({ $0.file }) { return file.isOpen ? () : openLater(file) }
        guard let paths = try findPlace() else { return state.withLock { $0.outcome = .skipped } }
        try open(paths, mayDefer: mayDefer && mayKeepInMemory)
        // A file whose opening has been deferred does not replace an existing file.
        if state.withLock({ $0.file?.isOpen == false }) { return }
        // Check again now that the partial file is locked: another download may have committed its file since the first
        // check, which also freed the name of the partial file. From now on, no other download can commit a file.
        guard settings.existing == .fail || settings.existing == .skip, let path = state.withLock({ $0.finalPath }) else {
            return
        }
        if try dealsWithExisting(path) { state.withLock { $0.outcome = .skipped } }
    }

    /// Determines where the bytes are stored until the file is complete; nil if the file exists and stays unchanged.
    /// Blocks.
    func findPlace() throws -> PartialPaths? {
        let method = request.httpMethod ?? "GET"
        guard method == "GET", request.httpBody == nil, request.httpBodyStream == nil,
            request.value(forHTTPHeaderField: "Range") == nil
        else { throw DownloadError.unsuitableRequest }
        guard let place = settings.place else { throw DownloadError.noDestination }
        switch place {
        case .file(let url):
            guard let path = PathText.path(ofFile: url), !path.isEmpty, path.utf8.count < 4096
            else { throw DownloadError.unusableDestination(url) }
            state.withLock { ($0.finalURL, $0.finalPath) = (url, path) }
            return try dealsWithExisting(path) ? nil : PartialPaths(destination: state.withLock { $0.finalPath } ?? path)
        case .directory(let url):
            guard url.isFileURL, let source = request.url else { throw DownloadError.unusableDestination(url) }
            guard !settings.usesServerFileName else { return PartialPaths(directory: url.path, url: source) }
            let place = url.appendingPathComponent(
                SuggestedName.name(for: source) ?? SuggestedName.fallback, isDirectory: false)
            state.withLock { ($0.finalURL, $0.finalPath) = (place, place.path) }
            return try dealsWithExisting(place.path)
                ? nil : PartialPaths(destination: state.withLock { $0.finalPath } ?? place.path)
        }
    }

    /// Opens or creates the partial file. Blocks.
    ///
    /// - Parameter mayDefer: Whether a file that does not exist yet may be opened later.
    func open(_ paths: PartialPaths, mayDefer: Bool = false) throws {
        let file = DownloadFile(paths, calls: settings.calls, clock: settings.clock)
        if mayDefer, file.isUntouched {
            openLater(file)
            digest.withLock { $0 = FileDigest(file: file) }
            return state.withLock { $0.file = file }
        }
        do throws(FileWritingError) {
            let found = try file.open()
            state.withLock { state in
                state.file = file
                let isVerified = !settings.checksums.isEmpty || settings.pieces != nil
                if let found, isVerified || !found.representation.isCombined {
                    state.plan.resume(found.representation, found.written)
                }
                if !state.plan.done.isEmpty { state.condition = nil }
            }
            digest.withLock { $0 = FileDigest(file: file) }
            expect(settings.checksums)
        } catch {
            throw self.error(error)
        }
    }

    private func openLater(_ file: DownloadFile) { file.openLater(unless: state.withLock { $0.finalPath }) }

    /// Decides whether to keep the file in memory. This method is called when the head has arrived, before any bytes.
    func keepShortFileInMemory() {
        guard mayKeepInMemory else { return }
        state.withLock { state in
            guard state.expected.isEmpty, let total = state.plan.total, (1...DownloadFile.longestInMemory).contains(total),
                state.plan.done.isEmpty
            else { return }
            state.file?.keepInMemory()
        }
    }

    /// Converts an error of the file layer to an error of the operation.
    func error(_ error: FileWritingError) -> any Error {
        let file = finalURL ?? URL(fileURLWithPath: error.path)
        switch error.reason {
        case .partialIsShared where error.cause.code == EBUSY: return DownloadError.inUse(file)
        case .exists: return DownloadError.fileExists(file)
        // The error concerns a file other than the destination.
        case .cannotCreate, .partialIsShared, .partialExists:
            return error.urlError(request.url, URL(fileURLWithPath: error.path))
        default: return error.urlError(request.url, file)
        }
    }

    /// Verifies the file against additional checksums.
    func expect(_ checksums: [Checksum]) {
        let algorithms = state.withLock { state -> [Checksum] in
            for checksum in checksums where !state.expected.contains(checksum) { state.expected.append(checksum) }
            if !state.expected.isEmpty { state.plan.isVerified = true }
            return state.expected
        }
        let distinct = Array(settings.computed.union(algorithms.map(\.algorithm)))
        digest.withLock { $0 }?.begin(distinct)
    }
}

extension FileWritingError {
    /// Returns the error for users, which names the file.
    func urlError(_ url: URL?, _ file: URL) -> URLError {
        URLError(writing: file, url: url, underlying: posixError)
    }
}

/// The failure of a part.
struct DownloadFailure: @unchecked Sendable {
    let error: any Error
    var head: ResponseHead?
    var data: Data?
    var object: Any?
    /// Whether the server has responded with an unacceptable status.
    var isOfStatus = false
    /// Whether the failure is final, so that the download is not retried.
    var isFinal = false
}

/// The mutable state of a download, guarded by its lock.
struct DownloadState: @unchecked Sendable {
    /// Whether the attempt has started to send requests, whose completion determines the next step.
    var isFetching = false
    var work: AttemptContext?
    /// Whether the attempt must stop.
    var isStopping = false
    var plan: DownloadPlan
    var operations: [Int: HTTPRequestOperation] = [:]
    /// The operations that completed while their bytes were being written.
    var endedWhileWriting: [Int: HTTPRequestOperation] = [:]
    /// The failures of parts, by the identifiers of the parts.
    var failures: [Int: DownloadFailure] = [:]
    /// The failure of the attempt, which takes precedence over all later results.
    var fatal: DownloadFailure?
    var file: DownloadFile?
    /// The destination; nil until the name is known.
    var finalURL: URL?
    var finalPath: String?
    /// The head of the response that provides the file.
    var head: ResponseHead?
    /// The head from an earlier attempt.
    var earlierHead: ResponseHead?
    var outcome: DownloadOutcome?
    var meter = RateMeter()
    /// Whether a write was so slow that further ones must not delay other transfers.
    var isDiskSlow = false
    var expected: [Checksum] = []
    /// The requested checksums of the complete file.
    var computed: [Checksum] = []
    /// The number of failed checks of each piece.
    var rejections: [Int: Int] = [:]
    /// The stored validators of the existing file, if the request is conditional.
    var condition: StoredValidators?
    /// The previously known length, if the server's file now has a different length.
    var earlierLength: Int64?
    /// The existing file that the download resumes, if any.
    var existing: Download.ExistingFile?
}
