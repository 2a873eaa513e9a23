import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The work of a `DownloadOperation`, across its pauses and retries: the files, the plan, and the requests for the parts.
///
/// What is decided is decided under one lock, by the plan; it is carried out when the lock has been released. Files are
/// opened, checked and renamed on threads that may block.
final class Download: @unchecked Sendable {
    let settings: DownloadSettings
    let request: URLRequest
    private(set) weak var operation: DownloadOperation?
    /// Which statuses are acceptable, and which types.
    let serializer: HTTPResponseSerializer
    let state: Locked<DownloadState>
    /// Whether a body that came encoded is decoded. Not where the user has asked for an encoding, and not the archive that
    /// many servers send as its encoded contents.
    let decodes: Bool
    /// Whether the request leaves to the download which encoding is asked for: none.
    let asksForIdentity: Bool
    /// Whether a short file may be kept in memory until it is whole: it is new, and nothing needs it, or its partial file,
    /// before.
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

    // MARK: Beginning and stopping

    /// Begins a try. Any thread.
    func begin(_ work: OperationWork) {
        state.withLock { state in
            (state.work, state.isFetching, state.isStopping) = (work, false, false)
            (state.fatal, state.failures) = (nil, [:])
        }
        guard work.begin(stop: { self.stop() }) else {
            // Before the answer: with it, the next try may begin.
            state.withLock { $0.work = nil }
            return work.didStop()
        }
        work.awaitDescriptors(2) { claim in FileWorkers.shared.perform { self.open(claim) } }
    }

    /// The operation was paused, or cancelled. Any thread.
    private func stop() {
        let operations = state.withLock { state in
            state.isStopping = true
            return state.isFetching ? Array(state.operations.values) : []
        }
        // While the files are opened or checked, those who do it look now and then.
        digest.withLock { $0 }?.stop()
        for operation in operations { operation.cancel() }
    }

    /// Ends the try if it was asked to stop. On a thread that may block, with no part under way.
    func endsIfStopped() -> Bool {
        let (work, file) = state.withLock { state -> (OperationWork?, DownloadFile?) in
            guard state.isStopping else { return (nil, nil) }
            state.isFetching = false
            return (state.work.take(), state.file)
        }
        guard let work else { return false }
        file?.synchronize()
        work.didStop()
        return true
    }

    /// Ends the try with a failure, after which the operation may begin another. On a thread that may block.
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

    /// The operation has ended, or is gone: lets go of the files. What is there stays for a later download.
    func close() {
        guard let file = state.withLock({ $0.file.take() }) else { return }
        digest.withLock { $0.take() }?.stop()
        if file.closesAtOnce { file.close() } else { FileWorkers.shared.perform { file.close() } }
    }

    // MARK: Opening

    private func open(_ claim: DescriptorClaim) {
        if endsIfStopped() { return }
        do {
            try openFiles(claim)
        } catch {
            guard !claim.isLast, (error as? URLError)?.lacksDescriptor == true, let work = state.withLock({ $0.work }) else {
                return fail(error)
            }
            return work.awaitDescriptors(2, after: claim) { claim in FileWorkers.shared.perform { self.open(claim) } }
        }
        withExtendedLifetime(claim) {}
        if endsIfStopped() { return }
        if state.withLock({ $0.existing?.isAsked }) == false { return askAboutExisting() }
        fetch()
    }

    /// Asks for the first part. The files are open. Blocks.
    func fetch() {
        digest.withLock { $0 }?.goOn()
        if state.withLock({ $0.outcome }) == .skipped { return succeed() }
        let request = state.withLock { state -> PartRequest? in
            state.meter.begin(at: settings.clock())
            (state.earlierHead, state.head) = (state.head ?? state.earlierHead, nil)
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

    private func openFiles(_ claim: DescriptorClaim) throws {
        let claim = NetworkThread.hasAmpleDescriptors ? claim : nil
        if let file = state.withLock({ $0.file }) { return file.isOpen ? () : openLater(file, claim) }
        guard let paths = try findPlace() else { return state.withLock { $0.outcome = .skipped } }
        try open(paths, later: mayKeepInMemory ? claim : nil)
        // What is opened later does not replace anything.
        if state.withLock({ $0.file?.isOpen == false }) { return }
        // Another download may have put its file in the place since that was looked at, and with it have freed the name of
        // the partial file. That one is locked now: no other can do so any more.
        guard settings.existing == .fail || settings.existing == .skip, let path = state.withLock({ $0.finalPath }) else {
            return
        }
        if try dealsWithExisting(path) { state.withLock { $0.outcome = .skipped } }
    }

    /// Where the bytes go until the file is whole; nil if the file is there and stays as it is. Blocks.
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

    /// Opens the partial file, or makes it. Blocks.
    ///
    /// - Parameter claim: where it may be opened later, if there is nothing yet.
    func open(_ paths: PartialPaths, later claim: DescriptorClaim? = nil) throws {
        let file = DownloadFile(paths, calls: settings.calls, clock: settings.clock)
        if let claim, file.isUntouched {
            openLater(file, claim)
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

    private func openLater(_ file: DownloadFile, _ claim: DescriptorClaim?) {
        file.openLater(claim, unless: state.withLock { $0.finalPath })
    }

    /// The head of the file has come, and before it nothing of it.
    func keepShortFileInMemory() {
        guard mayKeepInMemory else { return }
        state.withLock { state in
            guard state.expected.isEmpty, let total = state.plan.total, (1...DownloadFile.longestInMemory).contains(total),
                state.plan.done.isEmpty
            else { return }
            state.file?.keepInMemory()
        }
    }

    /// The error for the operation of one of the file layer's.
    func error(_ error: FileWritingError) -> any Error {
        let file = finalURL ?? URL(fileURLWithPath: error.path)
        switch error.reason {
        case .partialIsShared where error.cause.code == EBUSY: return DownloadError.inUse(file)
        case .exists: return DownloadError.fileExists(file)
        // What is in the way is not the file itself.
        case .cannotCreate, .partialIsShared, .partialExists:
            return error.urlError(request.url, URL(fileURLWithPath: error.path))
        default: return error.urlError(request.url, file)
        }
    }

    /// Lets the file be checked against further checksums.
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
    /// The error for a user, which names the file.
    func urlError(_ url: URL?, _ file: URL) -> URLError {
        URLError(writing: file, url: url, underlying: posixError)
    }
}

/// Why a part has failed.
struct DownloadFailure: @unchecked Sendable {
    let error: any Error
    var head: ResponseHead?
    var data: Data?
    var object: Any?
    /// Whether the server has answered with a status that is not acceptable.
    var isOfStatus = false
    /// Whether no retry would help.
    var isFinal = false
}

/// What a download knows, and what it is doing. Guarded by its lock.
struct DownloadState: @unchecked Sendable {
    /// Whether the try has asked for something, and its answers decide what follows.
    var isFetching = false
    var work: OperationWork?
    /// Whether the operation has asked the try to stop.
    var isStopping = false
    var plan: DownloadPlan
    var operations: [Int: HTTPRequestOperation] = [:]
    /// Those that have ended while their bytes were being written.
    var endedWhileWriting: [Int: HTTPRequestOperation] = [:]
    /// Why parts have failed.
    var failures: [Int: DownloadFailure] = [:]
    /// Why the try ends, whatever else happens.
    var fatal: DownloadFailure?
    var file: DownloadFile?
    /// Where the file is to be; nil as long as the name is not known.
    var finalURL: URL?
    var finalPath: String?
    /// The head by which the file is accepted.
    var head: ResponseHead?
    /// That of an earlier try.
    var earlierHead: ResponseHead?
    var outcome: DownloadOutcome?
    var meter = RateMeter()
    /// Whether a write has taken so long that further ones must not delay other transfers.
    var isDiskSlow = false
    var expected: [Checksum] = []
    /// Those of the whole file, which the user wants to know.
    var computed: [Checksum] = []
    /// How often each piece was wrong.
    var rejections: [Int: Int] = [:]
    /// What a file that is there was stored with, if the server is asked whether it has changed.
    var condition: StoredValidators?
    /// The length that was known of what was there, where the server has a file of another length now.
    var earlierLength: Int64?
    /// The file that is there, where the download goes on with it.
    var existing: Download.Existing?
}
