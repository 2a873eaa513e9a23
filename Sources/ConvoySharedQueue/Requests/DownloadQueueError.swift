import ConvoySupport
import Foundation

/// The reason why a ``DownloadQueue`` could not be opened or has rejected a call.
public enum DownloadQueueError: Error, Hashable, Sendable {
    /// Another queue has the directory open, in this process or a different one. The value `process` is the identifier
    /// of that process, if known.
    case inUse(URL, process: Int32?)
    /// The database is damaged, and was left unchanged. Move `queue.sqlite` away to start with an empty queue.
    case damaged(String)
    /// The database belongs to another program, and was left unchanged.
    case foreign(String)
    /// The database was written by a newer version of this library, and was left unchanged.
    case newerVersion(String)
    /// The directory or a file in it cannot be created or opened.
    case cannotOpen(String)
    /// Another user may have prepared the directory or a file in it, or can change it. Nothing was changed. The value
    /// describes the problem and the solution.
    case unsafe(String)
    /// The disk is full, or the quota is exhausted.
    case diskFull(String)
    /// Another disk error occurred.
    case cannotWrite(String)
    /// The queue was closed.
    case closed
    /// No entry has this identifier: it was never enqueued, was cancelled, or was removed after it finished.
    case unknownEntry(UUID)
    /// The queue already has an entry with this identifier.
    case duplicate(UUID)
    /// A request depends on an entry that is neither in the queue nor enqueued with it.
    case unknownDependency(UUID, of: UUID)
    /// Requests depend on each other in a cycle that includes this one.
    case dependencyCycle(UUID)
    /// The URL contains a secret, which would be stored: a user name or password, or a query item such as
    /// `access_token`. The value is the URL without the secret. See ``DownloadRequest/storesSecretsInURL``.
    case secretInURL(String)
    /// The request cannot be stored. The value is the reason.
    case unsuitableRequest(String)
    /// The file to send cannot be read. The values are its URL and the reason.
    case unreadableBody(URL, String)
    /// The stored body of an entry is missing, or its length has changed.
    case bodyMissing(UUID)
    /// A dependency of the entry failed or was cancelled. This is the error of an entry with
    /// ``FailedDependencyPolicy/fail``.
    case dependencyFailed(UUID)
    /// The request lacks header fields with secrets, which are not stored, and the program has not set them again: with
    /// `prepare`, in the `configure` block, or with credentials. The values are the names of the fields. Nothing was
    /// sent.
    case missingSecrets([String])
    /// The entry is not in a state that can be retried.
    case cannotRetry(UUID)
}

extension DownloadQueueError: SelfDescribingError {
    /// A sentence that describes the error.
    public var description: String {
        switch self {
        case .inUse(let url, let process):
            "The queue in \(url.path) is in use by \(process.map { "process \($0)" } ?? "another process")."
        case .damaged(let text): "The queue's database is damaged: \(text)"
        case .foreign(let text): "The queue cannot use its database: \(text)"
        case .newerVersion(let text): "The queue's database cannot be read: \(text)"
        case .cannotOpen(let text): "The queue cannot be opened: \(text)"
        case .unsafe(let text): "The queue cannot be trusted: \(text)"
        case .diskFull(let text): "The queue cannot be written because the disk is full: \(text)"
        case .cannotWrite(let text): "The queue cannot be written: \(text)"
        case .closed: "The queue has been closed."
        case .unknownEntry(let id): "The queue has no entry \(id)."
        case .duplicate(let id): "The queue already has an entry \(id)."
        case .unknownDependency(let id, let dependent):
            "The request \(dependent) depends on \(id), which is not in the queue."
        case .dependencyCycle(let id): "The request \(id) depends on itself through other requests."
        case .secretInURL(let url): "The URL \(url) contains a secret, which would be stored. Send it in a header field."
        case .unsuitableRequest(let reason): "The request cannot be stored: \(reason)"
        case .unreadableBody(let file, let reason): "The file \(file.path) cannot be read: \(reason)"
        case .bodyMissing(let id): "The stored body of the entry \(id) is missing, or its length has changed."
        case .dependencyFailed: "A dependency failed or was cancelled."
        case .missingSecrets(let names):
            "The request lacks header fields with secrets, which are not stored: \(names.joined(separator: ", ")). Set "
                + "them again."
        case .cannotRetry(let id): "The entry \(id) cannot be retried because it has not failed."
        }
    }
}
