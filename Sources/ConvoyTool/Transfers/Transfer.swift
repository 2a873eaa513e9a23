import ConvoySupport
import Convoy
import Foundation
import FoundationNetworking

/// One request, and what becomes of its body.
final class Transfer: Sendable {
    /// The error of a transfer that was stopped with the program.
    static let cancelled = "cancelled"

    /// What it is called in a manifest; nil for a download.
    let id: String?
    /// What people know it by: its id, or its file's name.
    let name: String
    let url: URL
    /// Where its body goes; nil for nowhere.
    let path: String?
    let operation: HTTPRequestOperation
    private let box: Box

    /// Streams are not Sendable; all that is asked of this one is behind its lock.
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

    /// Sets where the operation reports its progress and its end.
    func attach(to queue: DispatchQueue?, group: DispatchGroup?) {
        operation.completionQueue = queue
        operation.completionGroup = group
    }

    /// What came of it. Called once, when the operation has finished.
    func conclude(_ error: (any Error)?) -> Outcome {
        var outcome = Outcome(id: id, url: Redaction.url(url.absoluteString), status: operation.statusCode)
        outcome.seconds = body.seconds
        outcome.bytes = body.count
        if let error {
            // The engine closes it too, but does not wait for that.
            body.close()
            outcome.bytes = Int64(operation.responseData?.count ?? 0) + body.count
            outcome.error = reason(error)
            // Cancelled at the very last moment.
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
