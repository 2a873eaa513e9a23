import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Completing a download: verifying the bytes, and moving the file to its destination.
extension Download {
    // MARK: Verifying

    /// Verifies the file against the digests that the server announces.
    func expectServerDigests(of head: ResponseHead) {
        expect(settings.checksums.isEmpty ? ServerDigests.checksums(in: head) : [])
    }

    /// Verifies and commits the file once all bytes have arrived. This method can be called on any thread.
    func finish() {
        state.withLock { $0.isFetching = false }
        guard let digest = digest.withLock({ $0 }), let total = state.withLock({ $0.plan.total }) else {
            return FileWorkers.shared.perform { self.fail(DownloadError.noDestination) }
        }
        guard !settings.computed.isEmpty || state.withLock({ !$0.expected.isEmpty }) else {
            return FileWorkers.shared.perform { self.verify([], total) }
        }
        digest.finish(total) { [self] result in
            if endsIfStopped() { return }
            switch result {
            case .success(let checksums): verify(checksums, total)
            case .failure(let error): fail(self.error(error))
            }
        }
    }

    private func verify(_ checksums: [Checksum], _ total: Int64) {
        if endsIfStopped() { return }
        guard verifyAllPieces(total) else { return }
        state.withLock { $0.computed = checksums.filter { settings.computed.contains($0.algorithm) } }
        for expected in state.withLock({ $0.expected }) {
            guard let actual = checksums.first(where: { $0.algorithm == expected.algorithm }) else {
                return fail(URLError(.cannotDecodeRawData, url: request.url, "The checksum could not be computed."))
            }
            if actual != expected { return takeBack(expected, actual) }
        }
        validateAndCommit(total)
    }

    /// Discards the bytes, which are wrong, and tries other sources one by one.
    private func takeBack(_ expected: Checksum, _ actual: Checksum) {
        do {
            try state.withLock({ $0.file })?.giveUpContents()
        } catch {
            return fail(error)
        }
        let next = state.withLock { state in
            _ = state.plan.takeBack(nil)
            return state.plan.goOn()
        }
        guard case .ask(let request) = next else {
            discardFile()
            return fail(DownloadError.checksumMismatch(expected: expected, actual: actual))
        }
        expect([])
        start(request)
    }

    /// Discards the file. If the operation is retried, the next attempt creates a new one.
    func discardFile() {
        let file = state.withLock { state in
            state.plan.forgetFile()
            return state.file.take()
        }
        file?.discard()
    }

    // MARK: Pieces

    /// Verifies the pieces that are now complete, on a worker.
    func checkPieces(touching range: Range<Int64>) {
        guard let pieces = settings.pieces else { return }
        let whole = state.withLock { $0.plan.piecesToCheck(pieces, touching: range) }
        guard !whole.isEmpty else { return }
        BlockingWorkers.shared.perform { [self] in for index in whole { _ = check(pieces, index) } }
    }

    /// Returns whether a piece is correct. If not, fetches the piece again, and stops using a source that has sent all
    /// of it.
    private func check(_ pieces: PieceChecksums, _ index: Int) -> Bool {
        let (file, total, rejections) = state.withLock { ($0.file, $0.plan.total, $0.rejections[index]) }
        guard let file, let total, let range = pieces.range(of: index, total: total) else { return true }
        let expected = pieces.checksums[index]
        guard let actual = try? FileDigest.checksum(expected.algorithm, of: range, in: file) else { return false }
        if actual == expected { return true }
        let stopped = state.withLock { state -> [HTTPRequestOperation] in
            // If another check has rejected the piece in the meantime, some of the bytes read may be newer.
            guard state.rejections[index] == rejections else { return [] }
            state.rejections[index, default: 0] += 1
            file.forget(range)
            return state.plan.takeBack(range).compactMap { state.operations[$0] }
        }
        for operation in stopped { operation.cancel() }
        return false
    }

    /// Returns whether all pieces are correct; wrong ones are fetched again. Pieces that have already passed are
    /// checked as well, because bytes requested by two parts may have been overwritten.
    private func verifyAllPieces(_ total: Int64) -> Bool {
        guard let pieces = settings.pieces else { return true }
        guard pieces.lengths.contains(total) else {
            discardFile()
            fail(DownloadError.piecesMismatch)
            return false
        }
        var areAllRight = true
        for index in pieces.checksums.indices {
            if state.withLock({ $0.isStopping }) { break }
            if !check(pieces, index) { areAllRight = false }
        }
        if endsIfStopped() { return false }
        guard !areAllRight else { return true }
        let next = state.withLock { $0.plan.goOn() }
        if case .ask(let request) = next {
            expect([])
            start(request)
        } else {
            let failure = lastFailure
            discardFile()
            fail(failure ?? DownloadFailure(error: DownloadError.piecesMismatch, isFinal: true))
        }
        return false
    }

    // MARK: The destination

    private func validateAndCommit(_ total: Int64) {
        let (head, file) = state.withLock { ($0.head, $0.file) }
        guard let operation, let file else { return }
        do {
            // A plain serializer has already validated the status and the type.
            let isPlain =
                type(of: operation) == DownloadOperation.self && operation.responseSerializer is HTTPResponseSerializer
            if let head, !isPlain, serializer.acceptableStatusCodes?.contains(head.statusCode) ?? true {
                _ = try operation.responseObject(for: head.urlResponse, data: nil)
            }
        } catch {
            return fail(error)
        }
        if settings.keepsModificationDate, let modified = head?["Last-Modified"].flatMap({ HTTPDate.parse($0) }) {
            file.setModificationTime(modified)
        }
        secure(file, total, after: nil)
    }

    /// Writes the bytes to the disk, which may take a long time, and then commits the file.
    ///
    /// - Parameter wait: The wait for a descriptor that an earlier call lacked.
    private func secure(_ file: DownloadFile, _ total: Int64, after wait: DescriptorWait?) {
        if endsIfStopped() { return }
        do throws(FileWritingError) {
            try file.secure(synchronizes: settings.synchronizes, total: total)
        } catch {
            if error.reason == .exists, settings.existing == .skip {
                state.withLock { $0.outcome = .skipped }
                return succeed()
            }
            guard error.cause.lacksDescriptor, wait?.isLast != true, let work = state.withLock({ $0.work }) else {
                return fail(self.error(error))
            }
            return work.awaitDescriptors(after: wait) { wait in
                FileWorkers.shared.perform { self.secure(file, total, after: wait) }
            }
        }
        if endsIfStopped() { return }
        commit(file, total)
    }

    private func commit(_ file: DownloadFile, _ total: Int64) {
        let (head, url, known) = state.withLock { ($0.head, $0.finalURL, $0.finalPath) }
        guard let operation else { return }
        do {
            guard let url, let path = known else { throw DownloadError.noDestination }
            if settings.existing == .revalidate, let head { StoredValidators(head).store(in: file) }
            // If the operation was cancelled at the last moment, it has already finished and its files are closed.
            guard let work = state.withLock({ $0.work }), work.beginCommit() else { return forgetWork() }
            let outcome = try commit(file, as: (url, path), total, operation)
            state.withLock { $0.outcome = outcome }
            if outcome == .skipped { return succeed() }
            guard let relocation = settings.relocation else { return succeed() }
            relocation(url, head?.urlResponse) { [self] result in
                FileWorkers.shared.perform { [self] in
                    switch result {
                    case .success(let place):
                        state.withLock { $0.finalURL = place }
                        succeed()
                    case .failure(let error): fail(error)
                    }
                }
            }
        } catch {
            fail(error)
        }
    }

    /// Moves the file to its destination. If the operation finishes in the meantime, this method closes the files.
    private func commit(
        _ file: DownloadFile, as place: (url: URL, path: String), _ total: Int64, _ operation: DownloadOperation
    ) throws -> DownloadOutcome {
        state.withLock { $0.file = nil }
        defer {
            state.withLock { $0.file = file }
            if operation.isFinished { close() }
        }
        try operation.commitCheck?(file.path, place.url)
        let replaces = settings.existing != .fail && settings.existing != .skip
        do throws(FileWritingError) {
            try file.commit(
                as: replaces ? try FileRenaming.target(of: place.path) : place.path, replaces: replaces,
                synchronizes: settings.synchronizes, total: total)
            return .downloaded
        } catch {
            guard error.reason == .exists, settings.existing == .skip else { throw self.error(error) }
            file.discard()
            return .skipped
        }
    }

    private func forgetWork() {
        let work = state.withLock { state in
            state.isFetching = false
            return state.work.take()
        }
        withExtendedLifetime(work) {}
    }

    /// Returns the destination for a file named by its response or URL; nil if the name is already known.
    func place(for head: ResponseHead) -> URL? {
        guard case .directory(let directory) = settings.place else { return nil }
        return directory.appendingPathComponent(SuggestedName.name(for: head), isDirectory: false)
    }

    /// Completes the attempt successfully. Call this method on a thread that may block.
    func succeed() {
        // An existing file that is kept is also verified. With `.resume`, it has already been verified.
        let (kept, path) = state.withLock { ($0.outcome != .downloaded && settings.existing != .resume, $0.finalPath) }
        if kept, !settings.checksums.isEmpty, let path, let (expected, actual) = mismatch(of: path, settings.checksums) {
            if endsIfStopped() { return }
            state.withLock { $0.outcome = nil }
            guard let actual else {
                return fail(
                    FileWritingError(.cannotRead, path, EIO).urlError(request.url, finalURL ?? URL(fileURLWithPath: path)))
            }
            return fail(DownloadError.checksumMismatch(expected: expected, actual: actual))
        }
        let (work, file, url, outcome) = state.withLock { state in
            state.isFetching = false
            return (state.work.take(), state.file, state.finalURL, state.outcome)
        }
        // Discard the remains of an earlier download, which are older than the file.
        if outcome != .downloaded { file?.discard() }
        work?.finish(with: url)
    }
}
