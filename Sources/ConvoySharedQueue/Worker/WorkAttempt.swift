import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import ConvoyUploads
import Foundation
import FoundationNetworking

/// A worker's attempt to execute a leased entry.
final class WorkAttempt: @unchecked Sendable {
    let work: ClaimedWork
    private let worker: UUID
    private let core: WorkerCore
    /// The time of the claim, and the time until which the request may be sent, on the monotonic clock.
    let claimed: MonotonicTime
    private let deadline: MonotonicTime

    /// The time after which another worker may try what this one cannot do, in microseconds.
    private static let otherWorkerDelay: Int64 = 2_000_000

    private struct State {
        var operation: HTTPRequestOperation?
        /// Whether the attempt was abandoned: another worker may have the entry by now, the entry was cancelled or
        /// paused, or the worker is stopping.
        var isAbandoned = false
        /// Whether the operation prepares its request, or has sent it.
        var hasStarted = false
        /// Whether the store has recorded that the request is about to be sent.
        var hasBegun = false
        var payload: WorkPayload?
        /// The file for the body of the response.
        var file: FolderSink?
    }

    private let state = Locked(State())

    /// - Parameter claimed: The time before the claim, on the monotonic clock.
    init(_ work: ClaimedWork, worker: UUID, claimed: MonotonicTime, core: WorkerCore) {
        self.work = work
        self.worker = worker
        self.claimed = claimed
        self.core = core
        deadline = work.timeLeft.map { Nanoseconds.deadline(Double($0) / 1e6, after: claimed) } ?? .max
    }

    /// Whether the worker may still take actions that are visible to others.
    var mayGoOn: Bool { !state.withLock { $0.isAbandoned } && core.hasLeases }

    /// Abandons the attempt if its operation has not started. Its request is then not sent.
    func abandonIfWaiting() {
        let operation = state.withLock { state -> HTTPRequestOperation? in
            guard !state.hasStarted, let operation = state.operation, !operation.isExecuting, !operation.isFinished else {
                return nil
            }
            state.isAbandoned = true
            return operation
        }
        operation?.cancel()
    }

    func start() {
        if let file = work.mark.flatMap({ FinishedFile(mark: $0) }), file.isThere {
            // An earlier attempt has written the file, but could not report it.
            DownloadFile(PartialPaths(following: file.url.path)).removeJournal(ofCommittedFileAt: file.url.path)
            return finish(.succeeded) { report in
                report.size = file.length
                report.result = WorkResult()
                report.result?.place = file.url.absoluteString
            }
        }
        do {
            let operation = try makeOperation()
            let isAbandoned = state.withLock { state in
                state.operation = operation
                return state.isAbandoned
            }
            operation.whenDelivered { [self] in conclude(operation) }
            if isAbandoned { operation.cancel() }
            operation.enterCompletionGroup()
            core.operationQueue.addOperation(operation)
        } catch {
            // The entry may have been written by another version, or another worker may have the folder or storage that
            // is missing here.
            let isOurs: Bool
            switch error {
            case is DecodingError, SharedQueueError.missingPlace, SharedQueueError.missingSecrets: isOurs = true
            default: isOurs = false
            }
            finish(isOurs ? .returned(delay: Self.otherWorkerDelay) : .failed) {
                $0.error = Self.text(of: error, .standard)
            }
        }
    }

    /// Abandons the attempt. The entry is returned to the queue unless it has ended or must not be sent twice.
    func abandon() {
        let operation = state.withLock { state in
            state.isAbandoned = true
            return state.operation
        }
        operation?.cancel()
    }

    // MARK: The operation

    private func makeOperation() throws -> HTTPRequestOperation {
        let payload = try WorkPayload(work.payload), stored = payload.request
        var request = try stored.request(with: [], core.manager)
        if let trace = work.trace.flatMap({ TraceContext(traceparent: $0) }) {
            request.setValue(trace.child().traceparent, forHTTPHeaderField: "traceparent")
        }
        let operation: HTTPRequestOperation
        var file: FolderSink?
        switch stored.work {
        case .download(let download):
            let made = DownloadOperation(request: request)
            download.apply(to: made)
            made.commitCheck = { [self] partialFile, place in try willCommit(partialFile, as: place) }
            operation = made
        case .upload(let upload):
            let made = UploadOperation(request: request, file: upload.file)
            try StoredUploadOptions.apply(upload, to: made)
            operation = made
        case .send:
            if let body = work.body {
                request.httpBody = Data(body)
                request.setDefaultContentType()
            }
            file = try place(of: payload).map { place in FolderSink(place) { [weak self] in self?.mayGoOn ?? false } }
            operation = HTTPRequestOperation(request: request)
            if let file { operation.setBodySink(file) }
        }
        core.manager.adopt(operation)
        operation.responseSerializer = HTTPResponseSerializer()
        operation.retryPolicy = nil
        operation.completionQueue = core.completionQueue
        operation.name = work.id.uuidString.lowercased()
        // The operation may wait for a job, and the durations of requests do not include that.
        operation.collectsMetrics = true
        state.withLock { ($0.payload, $0.file) = (payload, file) }
        core.configure(operation, work.entry)
        stored.requireWithheld(in: operation) { SharedQueueError.missingSecrets($0) }
        if !work.sendsAgain { noteBeginning(of: operation) }
        // A closure costs another request a thread.
        if !work.sendsAgain || deadline != .max { checkStart(of: operation) }
        return operation
    }

    /// Checks before the request is sent that the attempt was not abandoned while it was waiting, and that the deadline
    /// has not passed.
    private func checkStart(of operation: HTTPRequestOperation) {
        let prepare = operation.prepare
        operation.prepare = { [self] request in
            let mayStart = state.withLock { state in
                state.hasStarted = true
                return !state.isAbandoned
            }
            guard mayStart, MonotonicClock.now < deadline else { throw NothingSent(delay: 0) }
            try prepare?(&request)
        }
    }

    /// The error of an operation whose request was not sent, because the worker may not send it now.
    private struct NothingSent: LocalizedError {
        /// The time after which the entry may be claimed again, in microseconds.
        let delay: Int64
        var errorDescription: String? { "The request was not sent." }
    }

    /// Records that a request that must not be sent twice is about to be sent. Without the database, the request is not
    /// sent.
    private func noteBeginning(of operation: HTTPRequestOperation) {
        let prepare = operation.prepare
        operation.prepare = { [self] request in
            try prepare?(&request)
            let isHeld = core.ask { [work] store throws(SharedQueueError) in
                try store.begin(work.id, lease: work.lease)
            }
            if isHeld != false { state.withLock { $0.hasBegun = true } }
            guard isHeld == true, mayGoOn, MonotonicClock.now < deadline else {
                throw NothingSent(delay: isHeld == nil ? 1_000_000 : 0)
            }
        }
    }

    /// Checks the lease before the file of a complete download is renamed to its final name, and stores a mark from
    /// which the next attempt recognizes the file, in case this one cannot report it. Blocks.
    private func willCommit(_ partialFile: String, as place: URL) throws {
        guard mayGoOn else { throw SharedQueueError.closed }
        let mark = FinishedFile(partialFile, as: place)?.mark ?? ""
        // Without the database, the next attempt will not recognize the file.
        let isHeld = core.ask { [work] store throws(SharedQueueError) in
            try store.mark(work.id, lease: work.lease, mark)
        }
        guard isHeld != false, mayGoOn else { throw SharedQueueError.closed }
    }

    /// Returns the file for the body of a response; nil for none.
    private func place(of payload: WorkPayload) throws(SharedQueueError) -> URL? {
        if let name = payload.storage, core.settings.objectStorages[name] == nil {
            throw .missingPlace("This worker has no object storage named \(name.debugDescription).")
        }
        guard let name = payload.folder, let path = payload.path else { return nil }
        guard let folder = core.settings.folders[name] else {
            throw .missingPlace("This worker has no folder named \(name.debugDescription).")
        }
        return folder.appendingPathComponent(path)
    }

    // MARK: Completion

    private func conclude(_ operation: HTTPRequestOperation) {
        let (payload, isAbandoned, file) = state.withLock { ($0.payload, $0.isAbandoned, $0.file) }
        let error = operation.error
        if let metrics = operation.metrics, !metrics.transactions.isEmpty, !isAbandoned {
            core.record(metrics.workDuration, host: work.host)
        }
        if let error {
            // The lease may have ended just before the file would have appeared.
            let isLost = if case .closed = error as? SharedQueueError { true } else { false }
            if isAbandoned || isLost { return giveBack(operation, error) }
        }
        guard let error else {
            guard let payload else { return finish(.succeeded) }
            return keep(operation, payload, file)
        }
        let secrets = operation.connectionConfiguration.secrets
        let text = Self.text(of: error, secrets)
        // The folder is prepared before the request is sent.
        let mayHaveArrived = operation.mayHaveArrived && file?.isOpen != false
        if !work.sendsAgain, operation.statusCode == nil, mayHaveArrived {
            return finish(.failed, operation) { $0.error = "\(WorkStanding.unknownOutcome) \(text)" }
        }
        var policy = core.settings.retryPolicy
        policy.maximumRetryCount = .max
        policy.maximumDuration = nil
        policy.budget = nil
        if work.sendsAgain { policy.idempotentMethods.insert(work.method) }
        var end = WorkReport.End.failed, gate: Int64?, isOverloaded = false
        if let error = error as? NothingSent {
            end = .returned(delay: error.delay)
        } else if case .missingSecrets = error as? SharedQueueError {
            // Another worker may have the secrets.
            end = .returned(delay: Self.otherWorkerDelay)
        } else if Self.isLocal(error), !work.sendsAgain, operation.statusCode != nil {
            return failToKeep(operation, error)
        } else if Self.isLocal(error) {
            // The disk of this machine is full, or the folder is missing: another worker may succeed.
            end = .returned(delay: Self.otherWorkerDelay)
        } else if operation.isCancelled {
            // The operation was cancelled by a handler of the program.
            end = .failed
        } else if let event = policy.evaluate(operation, retryCount: work.attempts - 1, elapsed: 0) {
            if case .retry(let delay) = event.decision {
                end = .failedForNow(delay: SharedRequest.microseconds(delay))
                (gate, isOverloaded) = overload(event, policy, operation)
            }
        }
        finish(end, operation) { ($0.error, $0.gate, $0.isOverloaded) = (text, gate, isOverloaded) }
    }

    /// Returns whether the error concerns a file on this machine.
    private static func isLocal(_ error: any Error) -> Bool {
        if error is FileWritingError { return true }
        switch (error as? DownloadError)?.reason {
        case .inUse, .notEnoughSpace: return true
        default: break
        }
        switch (error as? UploadError)?.reason {
        case .inUse, .unreadableSource, .unusableJournal: return true
        default: break
        }
        let codes: Set<URLError.Code> = [
            .cannotCreateFile, .cannotOpenFile, .cannotWriteToFile, .cannotCloseFile, .cannotMoveFile,
        ]
        return (error as? URLError).map { codes.contains($0.code) } ?? false
    }

    /// Returns whether the host is overloaded, and the time for which it accepts no requests, in microseconds, if it has
    /// specified one.
    private func overload(
        _ event: RetryEvent, _ policy: RetryPolicy, _ operation: HTTPRequestOperation
    ) -> (gate: Int64?, isOverloaded: Bool) {
        let isOverload =
            switch event.reason {
            case .status(let status): status == 429 || status == 503
            case .error(let error): error.code == .cannotConnectToHost
            default: false
            }
        guard isOverload, operation.redirects.isEmpty else { return (nil, false) }
        let header = operation.response?.value(forHTTPHeaderField: "Retry-After")
        let duration = header.flatMap(RetryAfter.seconds).map { min($0, policy.maximumGateDuration) } ?? 0
        return duration > 0 ? (SharedRequest.microseconds(duration), true) : (nil, true)
    }

    /// Gives back the entry of an abandoned attempt. If the request must not be sent twice and may have arrived, the
    /// entry fails.
    private func giveBack(_ operation: HTTPRequestOperation, _ error: (any Error)? = nil) {
        if !work.sendsAgain, state.withLock({ $0.hasBegun }) {
            // The store has recorded that the request is about to be sent, but it was not.
            if error is NothingSent { return finish(.returned(delay: 0)) }
            return finish(.failed, operation) { $0.error = WorkStanding.unknownOutcome }
        }
        core.end(self, with: nil)
    }

    /// Reports that the response could not be stored. A request that must not be sent twice is not repeated.
    private func failToKeep(_ operation: HTTPRequestOperation, _ error: any Error) {
        let text = Self.text(of: error, .standard)
        guard work.sendsAgain else {
            return finish(.failed, operation) { $0.error = "The response could not be stored. \(text)" }
        }
        finish(.failedForNow(delay: 60_000_000), operation) { $0.error = text }
    }

    /// Stores the requested part of a response, then reports the result.
    private func keep(_ operation: HTTPRequestOperation, _ payload: WorkPayload, _ file: FolderSink?) {
        if let file {
            finish(.succeeded, operation) { report in
                report.result?.place = file.fileURL.absoluteString
                report.size = file.count
            }
        } else if let name = payload.storage, let upload = core.settings.objectStorages[name], let key = payload.path {
            let (data, type) = (operation.responseData ?? Data(), operation.response?.mimeType)
            Task { [self] in
                do {
                    let url = try await upload(data, key, type)
                    finish(.succeeded, operation) { $0.result?.place = Redaction.url(url.absoluteString) }
                } catch {
                    failToKeep(operation, error)
                }
            }
        } else {
            finish(.succeeded, operation) { report in
                guard let limit = payload.entryLimit, let data = operation.responseData else { return }
                guard data.count <= limit else {
                    report.error = "The body of \(data.count) bytes was not stored because it is longer than \(limit)."
                    return
                }
                report.result?.body = Array(data)
                report.result?.digest = MessageDigest.sha256(data).map { "sha-256=\($0.hexadecimalString)" }
            }
        }
    }

    private func finish(
        _ end: WorkReport.End, _ operation: HTTPRequestOperation? = nil, _ complete: (inout WorkReport) -> Void = { _ in }
    ) {
        var report = WorkReport(id: work.id, worker: worker, lease: work.lease, end: end)
        let payload = state.withLock { $0.payload }
        if let operation {
            report.statusCode = operation.statusCode
            if let download = operation as? DownloadOperation {
                report.size = download.downloadProgress.bytesReceived
            } else if let upload = operation as? UploadOperation {
                report.size = upload.uploadProgress.bytesConfirmed
            } else {
                report.size = operation.responseData.map { Int64($0.count) }
            }
            var result = WorkResult()
            if payload?.keepsHead == true, let response = operation.response { result.head = Self.head(of: response) }
            if case .succeeded = end, let file = (operation as? DownloadOperation)?.fileURL {
                result.place = file.absoluteString
            }
            if case .succeeded = end, let url = (operation as? UploadOperation)?.uploadURL {
                result.place = Redaction.url(url.absoluteString)
            }
            report.result = result
        }
        complete(&report)
        if report.result == WorkResult() { report.result = nil }
        core.end(self, with: report)
        state.withLock { $0.operation = nil }
    }

    /// Returns the fields of a response, without the values of secret ones.
    private static func head(of response: HTTPURLResponse) -> String {
        response.allHeaderFields.map { name, value in
            let (name, value) = ("\(name)", "\(value)")
            return "\(name): \(SecretClassifier.standard.shown(name, value))"
        }.sorted().joined(separator: "\n").unicodeScalars.prefix(16_384).reduce(into: "") { $0.unicodeScalars.append($1) }
    }

    private static func text(of error: any Error, _ secrets: SecretClassifier) -> String {
        let reason = Redaction.text(ErrorDescription.reason(error), secrets)
        return String(String.UnicodeScalarView(reason.unicodeScalars.prefix(1000)))
    }
}

extension ClaimedWork {
    /// The properties that handlers receive.
    var entry: SharedQueueWorker.ClaimedEntry {
        SharedQueueWorker.ClaimedEntry(id: id, tag: tag.isEmpty ? nil : tag, attempt: attempts)
    }
}
