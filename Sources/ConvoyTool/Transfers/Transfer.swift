import Convoy
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// One request, and the destination of its body.
final class Transfer: Sendable {
    /// The settings of a transfer that does not simply store the complete body of a response.
    struct Purpose: Sendable {
        /// The requested range, or nil for all bytes.
        var range: ByteRange?
        /// Whether the head is printed, alone or before the body.
        var printsHead = false
        /// Whether the body of an error is kept, and whether it may replace a file.
        var keepsErrors = false
        var replaces = false
    }

    /// The destination of the body.
    private enum Destination: Sendable {
        /// A file that can be resumed.
        case download(DownloadOperation)
        /// No destination: the transfer uploads this file.
        case upload(UploadOperation, file: String)
        /// A file, standard output, or nothing.
        case sink(any BodyCounting)
    }

    /// The ID in the manifest, or nil for a download.
    let id: String?
    /// The name for people: the ID or the name of the file.
    let name: String
    let url: URL
    /// The URL as given by the user.
    let text: String
    /// The position in its list; nil if no list contains it.
    let place: DownloadItem.Place?
    let operation: HTTPRequestOperation
    let purpose: Purpose
    let clock = TransferClock()
    let timings = Timings()
    private let wanted = Locked<String?>(nil)
    private let window = Locked<(host: Target?, counts: Bool)>((nil, true))
    private let destination: Destination

    /// Creates a request whose body goes to a sink.
    ///
    /// - Parameter url: The URL with user and password, which are not part of the request.
    init(
        id: String?, name: String, request: URLRequest, url: URL, item: DownloadItem? = nil, body: some BodyCounting,
        purpose: Purpose = Purpose()
    ) {
        self.id = id
        self.name = name
        self.url = url
        text = item?.text ?? url.absoluteString
        place = item?.place
        self.purpose = purpose
        destination = .sink(body)
        operation = HTTPRequestOperation(request: request)
        operation.setBodySink(body)
        operation.setSupervisor(clock)
        guard purpose.range != nil || purpose.printsHead else { return }
        body.onStart { [weak operation] () throws(ToolError) in
            guard let head = operation?.responseHead else { return nil }
            try purpose.range?.check(head)
            return purpose.printsHead ? Data(Self.text(of: head).utf8) : nil
        }
    }

    /// Creates a download to a file.
    init(name: String, item: DownloadItem, download: DownloadOperation, purpose: Purpose = Purpose()) {
        self.purpose = purpose
        id = nil
        self.name = name
        url = item.urls[0]
        text = item.text
        place = item.place
        destination = .download(download)
        operation = download
        operation.setSupervisor(clock)
    }

    /// Creates an upload of a file.
    ///
    /// - Parameters:
    ///   - file: The path as it was given.
    ///   - text: The URL as it was given.
    init(name: String, file: String, url: URL, text: String, upload: UploadOperation) {
        purpose = Purpose()
        id = nil
        self.name = name
        self.url = url
        self.text = text
        place = nil
        destination = .upload(upload, file: file)
        operation = upload
        operation.setSupervisor(clock)
    }

    /// Whether the transfer uploads a file.
    var isUpload: Bool { if case .upload = destination { true } else { false } }

    /// The path of the file, if it is known.
    var path: String? {
        switch destination {
        case .upload(_, let file): file
        case .download(let download): download.fileURL?.relativePath
        case .sink(let body): body.path
        }
    }

    /// The preferred file name, if another file of the run already has that name.
    var wantedName: String? { wanted.withLock { $0 } }

    func setWantedName(_ name: String?) { wanted.withLock { $0 = name } }

    /// The host for which the transfer counts in the transfer window, or nil without a window.
    var host: Target? {
        get { window.withLock { $0.host } }
        set { window.withLock { $0.host = newValue } }
    }

    /// Stops counting the transfer in the transfer window.
    ///
    /// - Returns: Whether the transfer counted until now.
    func stopsCounting() -> Bool {
        window.withLock { window in
            defer { window.counts = false }
            return window.counts && window.host != nil
        }
    }

    /// Returns the number of bytes received over the network. For a resumed download, this is less than the number of stored
    /// bytes.
    func fetchedByteCount(_ progress: TransferProgress) -> Int64 {
        switch destination {
        case .download(let download): download.fetchedByteCount
        case .upload: progress.bytesSent
        case .sink: progress.bytesReceived
        }
    }

    /// Returns the outcome of the transfer. Called once, when the operation has finished.
    func conclude(_ error: (any Error)?) -> Outcome {
        var outcome = Outcome(id: id, url: Shown.url(text), status: operation.statusCode)
        outcome.place = place
        outcome.seconds = clock.seconds
        outcome.timings = timings.all
        switch destination {
        case .sink(let body): conclude(body, error, &outcome)
        case .download(let download): conclude(download, error, &outcome)
        case .upload(let upload, let file): conclude(upload, file, error, &outcome)
        }
        noteHead(&outcome, error)
        if error != nil, purpose.keepsErrors { keepError(&outcome) }
        if let error = error.map(better) {
            outcome.kind = FailureKind(error, statusCode: operation.statusCode)
            outcome.error = outcome.kind == .cancelled ? ToolError.cancelled.text : ErrorText.line(for: error)
        }
        return outcome
    }

    /// Returns the lines of a head, followed by an empty line.
    private static func text(of head: ResponseHead) -> String {
        let phrase = HTTPURLResponse.localizedString(forStatusCode: head.statusCode)
        let fields = head.fields.map { "\($0.name): \(Shown.value($0.name, $0.value))" }
        return (["\(head.httpVersion) \(head.statusCode) \(phrase)"] + fields + [""])
            .map { Printable.line($0) + "\n" }.joined()
    }

    /// Records the head if it must be printed, unless it is printed before a body.
    private func noteHead(_ outcome: inout Outcome, _ error: (any Error)?) {
        guard purpose.printsHead, let head = operation.responseHead else { return }
        if case .sink(let body) = destination, body is DescriptorSink {
            // Print the head even if the body was empty.
            if error == nil { try? body.keep(Data()) }
        } else {
            outcome.head = Self.text(of: head)
        }
    }

    /// Keeps the body of an error response.
    private func keepError(_ outcome: inout Outcome) {
        guard let status = operation.statusCode, status >= 400, let body = operation.responseData else { return }
        do throws(ToolError) {
            switch destination {
            case .sink(let stream): try stream.keep(body)
            case .download(let download):
                guard let path = download.fileURL?.relativePath else { return }
                let stream = BodyFile(path: path, replaces: purpose.replaces, hashes: false)
                try stream.keep(body)
                outcome.file = path
            case .upload: return
            }
            outcome.bytes = Int64(body.count)
        } catch {
            outcome.note = error.text
        }
    }

    /// Returns an error with a better message, if one is known.
    private func better(_ error: any Error) -> any Error {
        if case .sink(let body) = destination, let failure = body.failure { return failure }
        if purpose.range != nil, operation.statusCode == 200 {
            return ToolError(text: ByteRange.refusal, status: .failed(.status))
        }
        return error
    }

    private func conclude(_ body: any BodyCounting, _ error: (any Error)?, _ outcome: inout Outcome) {
        outcome.bytes = body.count
        outcome.fetched = body.count
        guard error != nil else {
            outcome.file = body.path
            outcome.sha256 = body.sha256
            return
        }
        // The engine also discards the body, but asynchronously.
        body.discard()
        outcome.bytes = Int64(operation.responseData?.count ?? 0) + body.count
        // The operation may have been cancelled after the commit.
        if body.isCommitted { outcome.file = body.path }
    }

    private func conclude(
        _ upload: UploadOperation, _ file: String, _ error: (any Error)?, _ outcome: inout Outcome
    ) {
        outcome.bytes = upload.uploadProgress.bytesConfirmed
        outcome.file = file
        outcome.fetched = outcome.bytes
        outcome.upload = upload.uploadURL.map { Shown.url($0.absoluteString) }
        if error == nil { outcome.sha256 = upload.computedChecksums.first { $0.algorithm == .sha256 }?.hexadecimal }
    }

    private func conclude(_ download: DownloadOperation, _ error: (any Error)?, _ outcome: inout Outcome) {
        let progress = download.downloadProgress
        guard error == nil else {
            outcome.bytes = progress.bytesReceived
            return
        }
        outcome.result = download.outcome
        outcome.earlierLength = download.earlierLength
        outcome.hasReplacedUnprovenFile = download.hasReplacedUnprovenFile
        outcome.file = download.fileURL?.relativePath
        outcome.bytes = download.outcome == .downloaded ? progress.bytesReceived : 0
        outcome.fetched = download.fetchedByteCount
        outcome.sha256 = download.computedChecksums.first { $0.algorithm == .sha256 }?.hexadecimal
    }
}

/// The time from the start of an operation's work to its end, including retries. It is measured when these events occur,
/// because handlers may be called later.
final class TransferClock: TransitionInterceptor {
    private struct Span {
        var begun: ContinuousClock.Instant?
        var ended: ContinuousClock.Instant?
    }

    private let span = Locked(Span())

    /// The time in seconds, or 0 if the work has not started.
    var seconds: Double {
        span.withLock { span in span.begun.map { ((span.ended ?? .now) - $0).seconds } ?? 0 }
    }

    func operation(
        _ operation: URLConnectionOperation, changes transition: AtomicLifecycle.Transition,
        proceed: @escaping @Sendable () -> Void
    ) {
        span.withLock { span in
            switch transition.action {
            case .begin where span.begun == nil: span.begun = .now
            case .finish: span.ended = .now
            default: break
            }
        }
        proceed()
    }
}

/// The metrics of the requests of a transfer: one for each redirect, part and attempt.
final class Timings: Sendable {
    private let times = Locked<[TransactionMetrics]>([])

    var all: [TransactionMetrics] { times.withLock { $0 } }

    func add(_ metrics: TransactionMetrics) { times.withLock { $0.append(metrics) } }
}

extension FileOptions {
    /// The purpose of each transfer.
    var purpose: Transfer.Purpose {
        Transfer.Purpose(
            range: range, printsHead: printsHead || includesHead, keepsErrors: keepsErrors,
            replaces: existing == .replace)
    }
}

extension TransferSettings {
    /// Configures a transfer.
    ///
    /// - Parameters:
    ///   - configuration: The operation's own configuration, if any.
    ///   - number: The number of the transfer in the run, from 1.
    func apply(
        to transfer: Transfer, _ configuration: ConnectionConfiguration? = nil, number: Int
    ) throws(ToolError) {
        try apply(
            toTransfer: transfer.operation, transfer.url, configuration, isUpload: transfer.isUpload, number: number,
            heard: transfer.timings.add)
    }
}
