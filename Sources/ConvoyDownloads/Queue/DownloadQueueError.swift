import ConvoySupport
import Foundation

/// Why a ``DownloadQueue`` could not be opened, or has refused something.
public enum DownloadQueueError: Error, Hashable, Sendable {
    /// Another queue, in this process or another one, has the directory open. The id of that process, if it is known.
    case inUse(URL, process: Int32?)
    /// The database is damaged. It was left as it is: move `queue.sqlite` away to begin with an empty queue.
    case damaged(String)
    /// The database is one of another program. It was left as it is.
    case foreign(String)
    /// The database was written by a newer version of this library. It was left as it is.
    case newerVersion(String)
    /// The directory or a file in it cannot be made or opened.
    case cannotOpen(String)
    /// The directory or a file in it may have been prepared by another user, or can be changed by one. It was left as it is;
    /// what is wrong, and what to do.
    case unsafe(String)
    /// The disk, or the quota, is full.
    case diskFull(String)
    /// The disk has failed in another way.
    case cannotWrite(String)
    /// The queue was closed.
    case closed
    /// No entry has this identifier: it was never enqueued, was cancelled, or has finished and was removed.
    case unknownEntry(UUID)
    /// There is an entry of this identifier already.
    case duplicate(UUID)
    /// A request depends on an entry that is neither in the queue nor enqueued together with it.
    case unknownDependency(UUID, of: UUID)
    /// Requests depend on each other in a circle, of which this is one.
    case dependencyCycle(UUID)
    /// The URL holds a secret, which would be stored: a user name or password, or a query item such as `access_token`. The
    /// URL is shown without it. See ``DownloadRequest/storesSecretsInURL``.
    case secretInURL(String)
    /// The request cannot be stored, and why.
    case unsuitableRequest(String)
    /// The file that is to be sent cannot be read, and why.
    case unreadableBody(URL, String)
    /// The stored body of an entry is gone, or has another length.
    case bodyMissing(UUID)
    /// A dependency of the entry has failed, or was cancelled. Why the entry has failed, under
    /// ``FailedDependencyPolicy/fail``.
    case dependencyFailed(UUID)
    /// The request was to have header fields with secrets, which are not stored, and the program has not set them again: by
    /// `prepare`, in the `configure` block, or by credentials. Their names. Nothing was sent.
    case missingSecrets([String])
    /// The entry is in a state in which it cannot be tried again.
    case cannotRetry(UUID)
}

extension DownloadQueueError: LocalizedError, CustomStringConvertible {
    /// What has happened, in a sentence.
    public var errorDescription: String? { description }

    /// What has happened, in a sentence.
    public var description: String {
        switch self {
        case .inUse(let url, let process):
            "The queue in \(url.path) is in use by \(process.map { "process \($0)" } ?? "another process")."
        case .damaged(let text): "The queue's database is damaged: \(text)"
        case .foreign(let text): "The queue's database is not a queue's: \(text)"
        case .newerVersion(let text): "The queue's database cannot be read: \(text)"
        case .cannotOpen(let text): "The queue cannot be opened: \(text)"
        case .unsafe(let text): "The queue cannot be trusted: \(text)"
        case .diskFull(let text): "The queue cannot be written, as the disk is full: \(text)"
        case .cannotWrite(let text): "The queue cannot be written: \(text)"
        case .closed: "The queue was closed."
        case .unknownEntry(let id): "The queue has no entry \(id)."
        case .duplicate(let id): "The queue has an entry \(id) already."
        case .unknownDependency(let id, let dependent):
            "The request \(dependent) depends on \(id), which is not in the queue."
        case .dependencyCycle(let id): "The request \(id) depends on itself, by way of others."
        case .secretInURL(let url): "The URL \(url) holds a secret, which would be stored."
        case .unsuitableRequest(let reason): "The request cannot be stored: \(reason)"
        case .unreadableBody(let file, let reason): "The file \(file.path) cannot be read: \(reason)"
        case .bodyMissing(let id): "The stored body of the entry \(id) is gone, or has another length."
        case .dependencyFailed: "A dependency has failed, or was cancelled."
        case .missingSecrets(let names):
            "The request lacks what was not stored of it: \(names.joined(separator: ", "))."
        case .cannotRetry(let id): "The entry \(id) has not failed."
        }
    }
}
