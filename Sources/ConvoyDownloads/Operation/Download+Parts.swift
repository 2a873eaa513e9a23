import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The parts of a download: their requests, responses, bytes and completion.
extension Download {
    // MARK: Starting

    /// Starts the request for a part. This method can be called on any thread.
    func start(_ request: PartRequest) {
        guard let parent = operation else { return }
        let part = HTTPRequestOperation(request: urlRequest(request))
        part.adoptSettings(of: parent, decoding: decodes, identity: asksForIdentity)
        part.setBodySink(PartSink(of: self, id: request.id))
        let isStopping = state.withLock { state in
            state.isFetching = true
            state.operations[request.id] = part
            return state.isStopping || state.plan.isRestarting || state.fatal != nil || state.outcome != nil
        }
        // A weak reference would slow down all other references to the object.
        part.whenDelivered { [unowned part] in self.didEnd(request.id, part) }
        if isStopping { part.cancel() }
        part.start()
    }

    /// Returns the request that fetches a part, with its range and validator.
    func urlRequest(_ part: PartRequest) -> URLRequest {
        var request = self.request
        let isOwn = part.url == request.url
        if !isOwn { request.url = part.url }
        if let range = part.range {
            request.setValue("bytes=\(range.first)-\(range.last.map { "\($0)" } ?? "")", forHTTPHeaderField: "Range")
            request.setValue(part.condition, forHTTPHeaderField: "If-Range")
        } else if isOwn, let condition = state.withLock({ $0.condition }) {
            request.setValue(condition.entityTag, forHTTPHeaderField: "If-None-Match")
            request.setValue(condition.modified, forHTTPHeaderField: "If-Modified-Since")
        }
        return request
    }

    /// Starts as many additional parts as are useful now.
    func startMore() {
        while true {
            let (request, stopped) = state.withLock { state -> (PartRequest?, HTTPRequestOperation?) in
                guard state.isFetching, !state.isStopping, state.fatal == nil,
                    let more = state.plan.more(at: settings.clock())
                else { return (nil, nil) }
                return (more.request, more.stops.flatMap { state.operations[$0] })
            }
            stopped?.cancel()
            guard let request else { return }
            start(request)
        }
    }

    /// Fails the attempt for a reason that concerns all parts.
    func failFatally(_ failure: DownloadFailure) {
        let operations = state.withLock { state in
            if state.fatal == nil { state.fatal = failure }
            return Array(state.operations.values)
        }
        for operation in operations { operation.cancel() }
    }

    // MARK: Bytes

    /// Whether a write returns without waiting.
    var writesAtOnce: Bool {
        let (file, isSlow) = state.withLock { ($0.file, $0.isDiskSlow) }
        return !isSlow && file?.writesAtOnce == true
    }

    /// Writes bytes of a part, except those that the part no longer needs. This method is called on the network thread
    /// or a worker.
    func write(_ bytes: UnsafeRawBufferPointer, for id: Int) throws(FileWritingError) {
        let (file, claim) = state.withLock { state -> (DownloadFile?, DownloadPlan.ByteDisposition) in
            (state.file, state.file == nil ? .drop : state.plan.claim(Int64(bytes.count), for: id))
        }
        guard case .write(let range) = claim, let file else { return claim == .exceeds ? cancelPart(id) : () }
        defer { endClaim(of: id) }
        let start = settings.clock()
        do throws(FileWritingError) {
            try file.write(UnsafeRawBufferPointer(rebasing: bytes.prefix(range.count)), at: range.lowerBound)
        } catch {
            // The bytes are delivered again when a descriptor may be available.
            guard !error.cause.lacksDescriptor else { throw error }
            let failure = DownloadFailure(error: self.error(error), isFinal: true)
            state.withLock { state in
                if error.reason == .exists, settings.existing == .skip {
                    state.outcome = .skipped
                } else if state.fatal == nil {
                    state.fatal = failure
                }
            }
            throw error
        }
        let now = settings.clock()
        let (flow, prefix) = state.withLock { state in
            state.meter.note(Int64(range.count), at: now)
            if now > start + FileSink.longestWrite { state.isDiskSlow = true }
            return (state.plan.didWrite(for: id, at: now), state.plan.done.prefix)
        }
        report(Int64(range.count))
        digest.withLock { $0 }?.advance(to: prefix)
        checkPieces(touching: range)
        if flow == .stop { cancelPart(id) }
    }

    /// Ends the claim of a part whose write has returned. If the part was cancelled during the write, handles its
    /// completion.
    private func endClaim(of id: Int) {
        let ended = state.withLock { state in
            state.plan.endClaim(of: id)
            return state.endedWhileWriting.removeValue(forKey: id)
        }
        if let ended { didEnd(id, ended) }
    }

    private func cancelPart(_ id: Int) { state.withLock { $0.operations[id] }?.cancel() }

    /// Reports the progress.
    func report(_ bytes: Int64) {
        let (work, total, expected) = state.withLock { ($0.work, $0.plan.done.count, $0.plan.total) }
        work?.report(bytes: bytes, total: total, expected: expected)
    }

    // MARK: Completion

    /// The failure to report, which is the failure of the part that failed last.
    var lastFailure: DownloadFailure? { state.withLock { $0.failures.max { $0.key < $1.key }?.value } }

    /// The next step after a part has completed.
    private enum PartDecision {
        case nothing
        case stopped
        case failed(DownloadFailure)
        case succeeded
        case finish
        case start(PartRequest)
        case more
        case stopAll([HTTPRequestOperation])
    }

    /// Handles the completion of a part. This method is called on the network thread or a worker.
    private func didEnd(_ id: Int, _ part: HTTPRequestOperation) {
        let error = part.error
        let head = part.responseHead
        let data = part.responseData
        let object = error == nil ? nil : part.responseObject
        let following = state.withLock { state -> PartDecision in
            guard state.plan.parts[id]?.writing == nil else {
                state.endedWhileWriting[id] = part
                return .nothing
            }
            guard state.operations.removeValue(forKey: id) != nil else { return .nothing }
            // If this download stopped the part, the part's error is only its cancellation, not a failure. A part may
            // also have been stopped without a recorded reason, because the file seemed complete without it.
            let ending = state.plan.parts[id]?.ending
            let end = ending ?? Self.end(error, head)
            let wasStopped = ending != nil || part.isCancelled && (error as? URLError)?.code == .cancelled
            if end != .complete, state.failures[id] == nil, !wasStopped, let error {
                let isOfStatus = end == .refused
                state.failures[id] = DownloadFailure(
                    error: error, head: head, data: isOfStatus ? data : nil, object: isOfStatus ? object : nil,
                    isOfStatus: isOfStatus)
            }
            // If the length was not announced, it is known only at the end of the body.
            if end == .complete, state.plan.total == nil, let length = state.plan.parts[id]?.position,
                settings.lengths?.contains(length) == false, let error = settings.error(ofLength: length)
            {
                state.failures[id] = DownloadFailure(error: error, head: head, isFinal: true)
            }
            let now = settings.clock()
            let goesOn = !state.isStopping && state.fatal == nil && state.outcome == nil
            if !goesOn { state.plan.drop(id, at: now) }
            let replaces = state.plan.isReplacing
            let next = goesOn ? state.plan.didEnd(id, end, at: now) : .more
            // The file still has its bytes, so other sources can continue with them.
            if replaces, !state.plan.isReplacing, case .ask = next {
                state.file?.begin(state.plan.representation, keeping: state.plan.done)
                state.head = nil
                state.expected = settings.checksums
            }
            // A part in the plan that has no operation yet is about to start, and will check this state first.
            let isLast = state.operations.isEmpty && state.plan.parts.isEmpty
            let others = Array(state.operations.values)
            if state.outcome != nil { return isLast ? .succeeded : .stopAll(others) }
            if let fatal = state.fatal { return isLast ? .failed(fatal) : .stopAll(others) }
            if state.isStopping { return isLast ? .stopped : .nothing }
            switch next {
            case .more: return .more
            case .finished:
                // All bytes have arrived, so the remaining requests are not needed.
                return isLast ? .finish : .stopAll(others)
            case .ask(let request): return .start(request)
            case .stopAll: return .stopAll(others)
            case .failed:
                // The last failure may be temporary, even if the file has changed before.
                let last =
                    state.failures.max { $0.key < $1.key }?.value
                    ?? (state.rejections.isEmpty
                        ? nil : DownloadFailure(error: DownloadError.piecesMismatch, isFinal: true))
                return .failed(
                    state.plan.isDenied || state.plan.restarts > 0 && last == nil
                        ? DownloadFailure(error: DownloadError.keepsChanging, isFinal: true)
                        : last ?? DownloadFailure(error: URLError(.networkConnectionLost), head: head))
            }
        }
        carryOut(following)
    }

    private func carryOut(_ following: PartDecision) {
        switch following {
        case .nothing: break
        case .stopped: FileWorkers.shared.perform { _ = self.endsIfStopped() }
        case .failed(let failure):
            FileWorkers.shared.perform { [self] in
                if endsIfStopped() { return }
                // The next download must start over, because it is unknown which response was correct.
                if state.withLock({ $0.plan.isDenied }) { discardFile() }
                fail(failure)
            }
        case .succeeded: FileWorkers.shared.perform { self.succeed() }
        case .finish: finish()
        case .start(let request): start(request)
        case .more: startMore()
        case .stopAll(let operations): for operation in operations { operation.cancel() }
        }
    }

    private static func end(_ error: (any Error)?, _ head: ResponseHead?) -> DownloadPlan.End {
        guard error != nil else { return .complete }
        if let head, (error as? URLError) == nil, !(200..<300).contains(head.statusCode) { return .refused }
        return .failed
    }
}

/// A sink that writes the bytes of a part to the file, which the download opens and closes.
final class PartSink: BodySink {
    private let download: Download
    private let id: Int

    init(of download: Download, id: Int) {
        self.download = download
        self.id = id
    }

    var isImmediate: Bool { download.writesAtOnce }
    /// True, because the first bytes open the file.
    var opensFile: Bool { true }

    func accepts(_ response: ResponseHead) -> Bool? { download.accepts(response, for: id) }

    func begin(_ response: ResponseHead, discarding count: Int64) throws(URLError) {
        guard count > 0 else { return }
        throw URLError(.cannotWriteToFile, url: nil, "A part of a download cannot be restarted.")
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(URLError) {
        do throws(FileWritingError) {
            try download.write(bytes, for: id)
        } catch {
            let file = download.finalURL ?? URL(fileURLWithPath: "/")
            throw URLError(writing: file, url: nil, underlying: error.posixError)
        }
    }
}
