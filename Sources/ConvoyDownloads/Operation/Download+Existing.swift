import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Handling of an existing file at the destination.
extension Download {
    /// The existing file that `ExistingFilePolicy.resume` completes.
    struct ExistingFile {
        let path: String
        /// The length in bytes.
        let length: Int64
        /// Whether the length of the server's file has been requested.
        var isAsked = false
        /// Whether to fetch the complete file, because nothing shows that the existing one is a prefix of it.
        var isReplaced = false
    }

    /// Returns whether an existing file is kept without contacting the server.
    func dealsWithExisting(_ path: String) throws -> Bool {
        var information = stat()
        guard lstat(path, &information) == 0 else { return false }
        let place = finalURL ?? URL(fileURLWithPath: path)
        guard information.st_mode & S_IFMT != S_IFDIR else { throw DownloadError.unusableDestination(place) }
        switch settings.existing {
        case .fail, .skip:
            guard isLeftWhole(path) || settings.existing == .skip else { throw DownloadError.fileExists(place) }
            return true
        case .revalidate, .replace, .resume:
            let target: String
            do throws(FileWritingError) {
                target = try FileRenaming.target(of: path)
            } catch {
                throw error.reason == .exists ? DownloadError.unusableDestination(place) : self.error(error)
            }
            let condition = settings.existing == .revalidate ? StoredValidators(of: target) : nil
            state.withLock { ($0.finalPath, $0.condition) = (target, condition) }
            return settings.existing == .resume ? isWhole(target) : false
        }
    }

    /// Returns whether a checksum confirms that the file is complete. If not, records the file as one to resume.
    private func isWhole(_ path: String) -> Bool {
        var information = stat()
        guard stat(path, &information) == 0, information.st_size > 0 else { return false }
        if !settings.checksums.isEmpty, mismatch(of: path, settings.checksums) == nil { return true }
        if state.withLock({ $0.existing }) == nil {
            state.withLock { $0.existing = ExistingFile(path: path, length: Int64(information.st_size)) }
        }
        return false
    }

    /// Returns whether the file at the destination was committed by an earlier download of the same URL, whose process
    /// was killed before it removed the journal. Removes that journal.
    private func isLeftWhole(_ path: String) -> Bool {
        let file = DownloadFile(PartialPaths(destination: path), calls: settings.calls)
        guard let place = file.removeJournal(ofCommittedFileAt: path) else { return false }
        return request.url.map { ResourcePlace($0) == place } ?? false
    }

    /// Returns the first checksum that does not match the file, and the actual one; nil if all match. Blocks.
    func mismatch(of path: String, _ checksums: [Checksum]) -> (expected: Checksum, actual: Checksum?)? {
        let digests = Set(checksums.map(\.algorithm)).map { MessageDigest($0) }
        let isRead = read(path) { bytes in for digest in digests { digest.update(bytes) } }
        let found = isRead ? digests.compactMap { Checksum(of: $0) } : []
        for expected in checksums {
            let actual = found.first { $0.algorithm == expected.algorithm }
            if actual != expected { return (expected, actual) }
        }
        return nil
    }

    /// Reads a file to its end. Returns false if reading fails or the download must stop.
    private func read(_ path: String, _ body: (UnsafeRawBufferPointer) throws -> Void) -> Bool {
        let descriptor = settings.calls.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0)
        guard descriptor >= 0 else { return false }
        defer { _ = settings.calls.close(descriptor) }
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        var position: Int64 = 0
        while !state.withLock({ $0.isStopping }) {
            let count = buffer.withUnsafeMutableBytes { settings.calls.readAt(descriptor, $0, position) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return count == 0 }
            position += Int64(count)
            do {
                try buffer.withUnsafeBytes { try body(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
            } catch {
                return false
            }
        }
        return false
    }

    // MARK: Resuming the existing file

    /// The request for the length of the server's file.
    var questionAboutExisting: URLRequest {
        var request = self.request
        request.httpMethod = "HEAD"
        return request
    }

    /// Requests the length of the server's file. This method can be called on any thread.
    func askAboutExisting() {
        guard let parent = operation else { return }
        let question = HTTPRequestOperation(request: questionAboutExisting)
        question.adoptSettings(of: parent, decoding: decodes, identity: asksForIdentity)
        question.whenDelivered { [weak self, weak question] in
            guard let self, let question else { return }
            FileWorkers.shared.perform { self.didAskAboutExisting(question) }
        }
        let isStopping = state.withLock { state in
            state.isFetching = true
            state.operations[Self.questionID] = question
            return state.isStopping
        }
        if isStopping { question.cancel() }
        question.start()
    }

    /// The identifier of the request, which differs from the identifiers of all parts.
    private static let questionID = -1

    private func didAskAboutExisting(_ question: HTTPRequestOperation) {
        state.withLock { state in
            state.isFetching = false
            state.operations[Self.questionID] = nil
        }
        if endsIfStopped() { return }
        if let error = question.error as? URLError {
            return fail(DownloadFailure(error: error, head: question.responseHead))
        }
        let answer = question.error == nil ? question.responseHead : nil
        let (existing, isEmpty) = state.withLock { state in
            state.existing?.isAsked = true
            return (state.existing, state.plan.done.isEmpty)
        }
        guard let existing else { return fetch() }
        var isReplaced = true
        if let answer, answer.statusCode == 200, !answer.isEncoded, let total = answer.contentLength {
            let known = settings.checksums.isEmpty ? ServerDigests.checksums(in: answer) : settings.checksums
            if isUnfinished(existing.path) {
                // The file is incomplete, so its length is meaningless and its contents may have holes.
            } else if total == existing.length {
                // The user's checksum has already been compared.
                if settings.checksums.isEmpty, mismatch(of: existing.path, known) == nil {
                    state.withLock { $0.outcome = .skipped }
                    isReplaced = false
                }
            } else if total > existing.length, !known.isEmpty, isEmpty {
                isReplaced = !takeOver(existing, total, answer, known)
            }
        }
        if endsIfStopped() { return }
        state.withLock { $0.existing?.isReplaced = isReplaced }
        fetch()
    }

    /// Returns whether a control file that another program left beside the file marks it as incomplete: aria2 allocates
    /// the full length first, and axel writes at several offsets.
    private func isUnfinished(_ path: String) -> Bool {
        [".aria2", ".st"].contains { FileIdentity(path + $0) != nil }
    }

    /// Copies the file to the partial file, as the prefix of a file that a checksum will confirm.
    private func takeOver(
        _ existing: ExistingFile, _ total: Int64, _ answer: ResponseHead, _ checksums: [Checksum]
    ) -> Bool {
        guard let file = state.withLock({ $0.file }),
            let validators = RepresentationFacts.Validators(of: answer)
        else { return false }
        var representation = Representation(
            url: answer.url, validators: validators, type: Representation.type(answer["Content-Type"]), total: total,
            secrets: operation?.connectionConfiguration.secrets ?? .standard)
        // A later download without the checksum must not rely on these bytes.
        representation.isCombined = true
        file.begin(representation)
        var position: Int64 = 0
        let isCopied = read(existing.path) { bytes in
            let rest = UnsafeRawBufferPointer(rebasing: bytes.prefix(Int(clamping: existing.length - position)))
            try file.write(rest, at: position)
            position += Int64(rest.count)
        }
        guard isCopied, position == existing.length else {
            file.begin(nil)
            return false
        }
        state.withLock { $0.plan.resume(representation, ByteRanges([0..<position])) }
        expect(checksums)
        return true
    }
}
