import ConvoySupport
import Convoy
import Foundation
import FoundationNetworking

/// One request, and the destination of its body.
final class Transfer: Sendable {
    /// The error of a transfer that was cancelled by an interruption.
    static let cancelled = "cancelled"

    /// Its id in the manifest; nil for a download.
    let id: String?
    /// Its name for people: its id, or its file's name.
    let name: String
    let url: URL
    /// The path of the file for its body; nil to discard the body.
    let path: String?
    let operation: HTTPRequestOperation
    private let box: Box

    /// Streams are not Sendable; everything that is used of this one is behind its lock.
    private struct Box: @unchecked Sendable { let body: BodyStream }
    private var body: BodyStream { box.body }

    init(
        id: String?, name: String, request: URLRequest, url: URL, path: String?, replaces: Bool, hashes: Bool
    ) {
        self.id = id
        self.name = name
        self.url = url
        self.path = path
        box = Box(body: BodyStream(path: path, replaces: replaces, hashes: hashes))
        operation = HTTPRequestOperation(request: request)
        operation.outputStream = box.body
    }

    /// Sets the queue and group for the operation's handlers.
    func attach(to queue: DispatchQueue?, group: DispatchGroup?) {
        operation.completionQueue = queue
        operation.completionGroup = group
    }

    /// The outcome. Called once, when the operation has finished.
    func conclude(_ error: (any Error)?) -> Outcome {
        var outcome = Outcome(id: id, url: Redaction.url(url.absoluteString), status: operation.statusCode)
        outcome.seconds = body.seconds
        outcome.bytes = body.count
        if let error {
            // The engine closes the stream too, but does not wait for that.
            body.close()
            outcome.bytes = Int64(operation.responseData?.count ?? 0) + body.count
            outcome.error = reason(error)
            // Cancelled at the last moment, after the commit.
            if body.isCommitted { outcome.file = path }
        } else {
            outcome.file = path
            outcome.sha256 = body.sha256
        }
        return outcome
    }

    private func reason(_ error: any Error) -> String {
        if let failure = body.failure { return failure.text }
        if (error as? URLError)?.code == .cancelled { return Self.cancelled }
        return ErrorText.line(for: error)
    }
}
