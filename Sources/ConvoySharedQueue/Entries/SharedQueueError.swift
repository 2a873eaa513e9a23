import ConvoySupport
import Foundation

/// An error thrown by a ``SharedQueue``, its worker or its database.
public enum SharedQueueError: Error, Hashable, Sendable {
    /// The database cannot be reached. The action may be retried.
    case unavailable(String)
    /// Another transaction has interfered. The action may be retried.
    case conflict(String)
    /// The database denies the login, or the role lacks a privilege.
    case denied(String)
    /// The database belongs to another program or is damaged. It was left unchanged.
    case foreign(String)
    /// The tables were created by a newer version of this library, and cannot be used by this one.
    case newerVersion(String)
    /// The disk of the database is full.
    case diskFull(String)
    /// The database reports another error.
    case failed(String)
    /// The queue was closed.
    case closed
    /// No entry has this identifier: it was never enqueued, or its result was removed.
    case unknownEntry(UUID)
    /// Another entry has this identifier.
    case duplicate(UUID)
    /// Another entry, which has not failed, has the same unique key.
    case duplicateKey(String)
    /// A request depends on an entry that is neither in the queue nor enqueued with it.
    case unknownDependency(UUID, of: UUID)
    /// The request with this identifier is part of a cycle of dependencies.
    case dependencyCycle(UUID)
    /// The request cannot be stored. The value is the reason.
    case unsuitableRequest(String)
    /// The URL contains a secret, which would be stored. The value is the URL without the secret.
    case secretInURL(String)
    /// A body is too long for an entry; the limit is in bytes. Put such a body in object storage or in a folder that
    /// all workers can access.
    case bodyTooLong(Int64, limit: Int64)
    /// The file to send cannot be read. The value is the reason.
    case unreadableBody(URL, String)
    /// The recurrence of a periodic request is invalid. The value is the reason.
    case invalidSchedule(String)
    /// A worker lacks the folder or object storage that the entry requires.
    case missingPlace(String)
    /// The request lacks header fields with secrets, which are not stored, and the worker has not provided them. The
    /// associated value contains the names of the fields. Nothing was sent.
    case missingSecrets([String])
}

extension SharedQueueError: SelfDescribingError {
    /// A sentence that describes the error.
    public var description: String {
        switch self {
        case .unavailable(let text): "The database of the queue cannot be reached: \(text)"
        case .conflict(let text): "The transaction conflicts with another one; try again: \(text)"
        case .denied(let text): "The database of the queue denies access: \(text)"
        case .foreign(let text): "The database does not belong to a shared queue: \(text)"
        case .newerVersion(let text): "The tables of the queue were created by a newer version: \(text)"
        case .diskFull(let text): "The disk of the database is full: \(text)"
        case .failed(let text): "The database of the queue reported an error: \(text)"
        case .closed: "The queue has been closed."
        case .unknownEntry(let id): "The queue has no entry \(id.uuidString.lowercased())."
        case .duplicate(let id): "The queue already has an entry \(id.uuidString.lowercased())."
        case .duplicateKey(let key): "Another entry has the unique key \(key.debugDescription)."
        case .unknownDependency(let needed, let id):
            "\(id.uuidString.lowercased()) depends on \(needed.uuidString.lowercased()), which is not in the queue."
        case .dependencyCycle(let id): "The request \(id.uuidString.lowercased()) depends on itself through other requests."
        case .unsuitableRequest(let reason): "The request cannot be stored. \(reason)"
        case .secretInURL(let url): "The URL \(url) contains a secret, which would be stored. Send it in a header field."
        case .bodyTooLong(let length, let limit): "The body has \(length) bytes, but an entry can store at most \(limit)."
        case .unreadableBody(let file, let reason): "The body \(file.path) cannot be read: \(reason)"
        case .missingPlace(let reason), .invalidSchedule(let reason): reason
        case .missingSecrets(let names):
            "The request needs \(names.joined(separator: ", ")), which \(names.count == 1 ? "is a secret" : "are secrets")"
                + " and not stored. Nothing was sent."
        }
    }
}
