import ConvoyDownloads
import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The result of a completed upload.
struct UploadResult: @unchecked Sendable {
    var head: ResponseHead?
    var redirects: [RedirectEvent] = []
    var data: Data?
    var object: Any?

    init() {}

    init(_ answer: UploadAnswer) {
        head = answer.head
        redirects = answer.redirects
    }
}

/// Choice of a protocol, and uploads without a protocol.
extension Upload {
    /// Sends the source with the protocol chosen by the caller or the server.
    func transfer() async throws -> UploadResult {
        state.withLock { state in
            state.meter.begin(at: MonotonicClock.now)
            for index in state.parts.indices { state.parts[index].isKnown = false }
        }
        if let adapter = settings.adapter { return try await adapt(adapter) }
        switch try await chosenProtocol() {
        case .automatic, .plain: return try await sendPlainly()
        case .tus: return try await sendResumably(.tus)
        case .draft(let version):
            guard ResumableDialect.versions.contains(version) else {
                throw UploadError(.unsupported("interop version \(version) of the draft"))
            }
            return try await sendResumably(.draft(version))
        }
    }

    private func chosenProtocol() async throws -> UploadProtocol {
        if let known = state.withLock({ $0.uploadProtocol }) { return known }
        let chosen: UploadProtocol
        switch settings.uploadProtocol {
        case .automatic:
            let abilities = try await askAbilities()
            if abilities.speaksTus {
                chosen = .tus
            } else if abilities.knowsDraft {
                let version = abilities.interopVersion ?? 6
                chosen = .draft(interopVersion: ResumableDialect.versions.contains(version) ? version : 6)
            } else {
                chosen = .plain
            }
        case let given: chosen = given
        }
        state.withLock { $0.uploadProtocol = chosen }
        return chosen
    }

    /// Requests the server's upload capabilities (with an OPTIONS request for the URL that creates uploads).
    @discardableResult
    func askAbilities() async throws -> ServerAbilities {
        if let known = state.withLock({ $0.abilities }) { return known }
        guard let url = request.url else { throw UploadError(.unsuitableRequest) }
        let answer = try await send(uploadRequest("OPTIONS", url))
        // Errors with these statuses may be temporary; any other error status counts as a response without
        // capabilities.
        if answer.status >= 500 && answer.status != 501 || [401, 407, 429].contains(answer.status) {
            throw refusal(answer)
        }
        let abilities = answer.isSuccess ? ServerAbilities(answer.head) : ServerAbilities()
        state.withLock { $0.abilities = abilities }
        return abilities
    }

    /// Sends the complete source in one request. After a failure, the upload starts over.
    private func sendPlainly() async throws -> UploadResult {
        guard let url = settings.plainURL ?? request.url, let source = settings.source else { throw UploadError(.noSource) }
        state.withLock { $0.isResumable = false }
        let method = request.httpMethod.map { $0 == "GET" ? "PUT" : $0 } ?? "PUT"
        var sent = uploadRequest(method, url)
        setContentType(&sent)
        let body: UploadRequestBody
        switch source {
        case .file, .data:
            guard let opened = state.withLock({ $0.source }) else { throw UploadError(.noSource) }
            try await checkWhole()
            setWholeDigest(&sent)
            body = .range(opened, 0..<opened.length)
        case .sequence(let length, let canRepeat, let make):
            guard settings.checksum == nil, settings.computed.isEmpty else {
                throw UploadError(.unsupported("the checksum of a sequence sent in one request"))
            }
            body = .stream(length: length, canRepeat: canRepeat, make: make)
        }
        if let algorithm = settings.chunkChecksum { try await setChecksum(algorithm, of: body, .draft(6), &sent) }
        let isRepeatable = Self.isRepeatable(sent)
        state.withLock { $0.mustNotRepeat = !isRepeatable }
        let answer = try await send(sent, body)
        guard answer.isSuccess else { throw refusal(answer) }
        try checkSent(answer, body)
        if let length = body.length { finishProgress(length) } else { finishProgress(answer.sent) }
        return try await finalResult(answer)
    }

    /// Creates the result from the response of the resource.
    func finalResult(_ answer: UploadAnswer) async throws -> UploadResult {
        var result = UploadResult(answer)
        result.data = answer.data
        guard let operation else { return result }
        struct Made: @unchecked Sendable { let object: Any? }
        let made = try await BlockingWork.run {
            Made(object: try operation.responseObject(for: answer.head.urlResponse, data: answer.data))
        }
        result.object = made.object
        return result
    }

    /// Returns whether a request that may have arrived can be sent again (RFC 9110, section 9.2.2).
    static func isRepeatable(_ request: URLRequest) -> Bool { request.httpMethod == "PUT" }

    /// Throws an error for a success response that arrived before all bytes were sent.
    func checkSent(_ answer: UploadAnswer, _ body: UploadRequestBody) throws(UploadError) {
        guard let length = body.length, answer.sent < length else { return }
        throw UploadError(.invalidAnswer("The server responded after only \(answer.sent) of \(length) bytes were sent."))
    }

    func setContentType(_ sent: inout URLRequest) {
        let own = request.value(forHTTPHeaderField: "Content-Type")
        let type = own ?? settings.source?.file.map { MIMEType.type(forPathExtension: $0.pathExtension) }
        sent.setValue(type ?? MIMEType.unknown, forHTTPHeaderField: "Content-Type")
    }

    func finishProgress(_ length: Int64) {
        state.withLock { state in
            state.adapted = length
            if state.total == nil { state.total = length }
        }
        report()
    }

    // MARK: The checksum of the source

    /// Computes the requested checksums, and compares the expected checksum before the last bytes are sent, so that an
    /// upload with wrong bytes is never completed.
    func checkWhole() async throws {
        guard settings.checksum != nil || !settings.computed.isEmpty else { return }
        let (digest, window, total) = state.withLock { ($0.digest, $0.window, $0.total) }
        guard let digest, let total else { return }
        if let window, let rest = window.bytes(window.kept) {
            rest.withUnsafeBytes { digest.update($0, at: window.kept.lowerBound) }
        }
        let checksums = try await BlockingWork.run {
            try digest.reach(total)
            return digest.checksums(of: total)
        }
        try Task.checkCancellation()
        guard let checksums else { throw UploadError(.sourceChanged) }
        state.withLock { $0.computed = checksums.filter { settings.computed.contains($0.algorithm) } }
        guard let expected = settings.checksum else { return }
        guard let actual = checksums.first(where: { $0.algorithm == expected.algorithm }) else {
            throw UploadError(.unreadableSource("OpenSSL failed to compute the \(expected.algorithm) digest."))
        }
        guard actual == expected else { throw UploadError(.checksumMismatch(expected: expected, actual: actual)) }
    }

    /// Sends the digest of the source (RFC 9530) if the digest is known in advance.
    func setWholeDigest(_ sent: inout URLRequest) {
        guard let checksum = settings.checksum, let name = checksum.algorithm.digestName else { return }
        sent.setValue("\(name)=:\(checksum.digest.base64EncodedString()):", forHTTPHeaderField: "Repr-Digest")
    }

    // MARK: Adapters

    private func adapt(_ adapter: any UploadAdapter) async throws -> UploadResult {
        guard let file = settings.source?.file else {
            throw UploadError(
                .unsupported(
                    "uploads of anything other than a file"))
        }
        state.withLock { $0.isResumable = true }
        let context = UploadAdapterContext(
            stored: state.withLock { $0.record.stored }, discarded: state.withLock { $0.discarded },
            store: { [self] data in
                try requireJournal()
                let (journal, record) = state.withLock { state in
                    state.record.stored = data
                    state.discarded = nil
                    return (state.journal, state.record)
                }
                try await BlockingWork.run { try journal?.write(record, synchronizes: true) }
            },
            report: { [self] confirmed, total in
                let now = MonotonicClock.now
                state.withLock { state in
                    state.meter.note(max(0, confirmed - state.confirmed), at: now)
                    state.adapted = confirmed
                    state.total = total
                }
                report()
            })
        var result = UploadResult()
        do {
            result.object = try await adapter.send(file, context)
        } catch let error as URLError {
            throw UploadFailure(error: error)
        }
        return result
    }
}
