import Convoy
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// One request, and the destination of its body.
final class Transfer: Sendable {
    /// Where the body goes.
    private enum Destination: Sendable {
        /// A file that is continued.
        case download(DownloadOperation)
        /// A file or standard output, or nowhere.
        case sink(any BodyCounting)
    }

    /// Its id in the manifest; nil for a download.
    let id: String?
    /// Its name for people: its id, or its file's name.
    let name: String
    let url: URL
    let operation: HTTPRequestOperation
    let clock = TransferClock()
    let timings = Timings()
    private let wanted = Mutex<String?>(nil)
    private let destination: Destination

    /// A request whose body goes into a sink.
    ///
    /// - Parameter url: with the user and the password, which are not in the request.
    init(id: String?, name: String, request: URLRequest, url: URL, body: some BodyCounting) {
        self.id = id
        self.name = name
        self.url = url
        destination = .sink(body)
        operation = HTTPRequestOperation(request: request)
        operation.setBodySink(body)
        operation.setSupervisor(clock)
    }

    /// A download into a file.
    init(name: String, url: URL, download: DownloadOperation) {
        (id, self.name, self.url) = (nil, name, url)
        destination = .download(download)
        operation = download
        operation.setSupervisor(clock)
    }

    /// The path of its file, if that is known.
    var path: String? {
        switch destination {
        case .download(let download): download.fileURL?.relativePath
        case .sink(let body): body.path
        }
    }

    /// The name that its file should have had, if another file of the run has that.
    var wantedName: String? { wanted.withLock { $0 } }

    func setWantedName(_ name: String?) { wanted.withLock { $0 = name } }

    /// How many bytes have come over the network: of a continued download, fewer than there are.
    func fetchedByteCount(_ progress: TransferProgress) -> Int64 {
        switch destination {
        case .download(let download): download.fetchedByteCount
        case .sink: progress.bytesReceived
        }
    }

    /// Sets the queue and group for the operation's handlers.
    func attach(to queue: DispatchQueue?, group: DispatchGroup?) {
        operation.completionQueue = queue
        operation.completionGroup = group
    }

    /// The outcome. Called once, when the operation has finished.
    func conclude(_ error: (any Error)?) -> Outcome {
        var outcome = Outcome(id: id, url: Redaction.url(url.absoluteString), status: operation.statusCode)
        outcome.seconds = clock.seconds
        outcome.timings = timings.all
        switch destination {
        case .sink(let body): conclude(body, error, &outcome)
        case .download(let download): conclude(download, error, &outcome)
        }
        if let error = error.map(better) {
            outcome.kind = FailureKind(error, statusCode: operation.statusCode)
            outcome.error = outcome.kind == .cancelled ? Outcome.cancelled : ErrorText.line(for: error)
        }
        return outcome
    }

    /// An error in the words of the sink, where it has better ones.
    private func better(_ error: any Error) -> any Error {
        if case .sink(let body) = destination, let failure = body.failure { return failure }
        return error
    }

    private func conclude(_ body: any BodyCounting, _ error: (any Error)?, _ outcome: inout Outcome) {
        (outcome.bytes, outcome.fetched) = (body.count, body.count)
        guard error != nil else {
            outcome.file = body.path
            outcome.sha256 = body.sha256
            return
        }
        // The engine does it too, but does not wait for that.
        body.discard()
        outcome.bytes = Int64(operation.responseData?.count ?? 0) + body.count
        // Cancelled at the last moment, after the commit.
        if body.isCommitted { outcome.file = body.path }
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

/// A sink for a body, which knows what has become of it. All of it may be used on any thread.
protocol BodyCounting: BodySink {
    /// How many bytes have come.
    var count: Int64 { get }
    /// The path of the file; nil if there is none.
    var path: String? { get }
    /// The SHA-256 of all bytes, in hexadecimal digits; nil if nobody wants to know.
    var sha256: String? { get }
    /// Whether the file has its final name.
    var isCommitted: Bool { get }
    /// Why writing failed, with a better message than the engine's.
    var failure: ToolError? { get }
}
