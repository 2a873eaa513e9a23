import ConvoySupport
import Foundation

/// Why a ``SharedQueue`` has refused something, or could not do it.
public enum SharedQueueError: Error, Hashable, Sendable {
    /// The database cannot be reached. What was asked for may be tried again.
    case unavailable(String)
    /// Another transaction was in the way. What was asked for may be tried again.
    case conflict(String)
    /// The database refuses the login, or the role lacks a right.
    case denied(String)
    /// The database is of another program, or was damaged. It was left as it is.
    case foreign(String)
    /// The tables were made by a newer version of this library, which this one cannot work with.
    case newerVersion(String)
    /// The disk of the database is full.
    case diskFull(String)
    /// The database reports another error.
    case failed(String)
    /// The queue was closed.
    case closed
    /// No entry has this identifier: it was never enqueued, or its result was removed.
    case unknownEntry(UUID)
    /// There is another entry of this identifier.
    case duplicate(UUID)
    /// Another entry that has not failed has the same unique key.
    case duplicateKey(String)
    /// A request depends on an entry that is neither in the queue nor enqueued together with it.
    case unknownDependency(UUID, of: UUID)
    /// Requests depend on each other in a circle, of which this is one.
    case dependencyCycle(UUID)
    /// The request cannot be stored, and why.
    case unsuitableRequest(String)
    /// The URL, shown without its secret, holds a secret, which would be stored.
    case secretInURL(String)
    /// A body is longer than an entry may hold, in bytes. Put it into object storage or a folder that all workers see.
    case bodyTooLong(Int64, limit: Int64)
    /// The file that is to be sent cannot be read, and why.
    case unreadableBody(URL, String)
    /// What a worker was asked to do is not in its power: it has no folder or no object storage of that name.
    case missingPlace(String)
    /// The request was to have header fields with secrets, which are not stored, and the worker has not supplied them. Their
    /// names. Nothing was sent.
    case missingSecrets([String])
}

extension SharedQueueError: LocalizedError, CustomStringConvertible {
    /// What has happened, in a sentence.
    public var errorDescription: String? { description }

    /// What has happened, in a sentence.
    public var description: String {
        switch self {
        case .unavailable(let text): "The database of the queue cannot be reached: \(text)"
        case .conflict(let text): "Another transaction was in the way: \(text)"
        case .denied(let text): "The database of the queue refuses access: \(text)"
        case .foreign(let text): "The database is none of a shared queue: \(text)"
        case .newerVersion(let text): "A newer version has made the tables of the queue: \(text)"
        case .diskFull(let text): "The disk of the database is full: \(text)"
        case .failed(let text): "The database of the queue reports: \(text)"
        case .closed: "The queue is closed."
        case .unknownEntry(let id): "No entry is called \(id.uuidString.lowercased())."
        case .duplicate(let id): "There is an entry called \(id.uuidString.lowercased()) already."
        case .duplicateKey(let key): "Another entry has the unique key \(key.debugDescription)."
        case .unknownDependency(let needed, let id):
            "\(id.uuidString.lowercased()) depends on \(needed.uuidString.lowercased()), which is not in the queue."
        case .dependencyCycle(let id): "Requests depend on each other in a circle, such as \(id.uuidString.lowercased())."
        case .unsuitableRequest(let reason): "The request cannot be stored. \(reason)"
        case .secretInURL(let url): "The URL \(url) holds a secret, which would be stored."
        case .bodyTooLong(let length, let limit): "The body has \(length) bytes, and an entry holds at most \(limit)."
        case .unreadableBody(let file, let reason): "The body \(file.path) cannot be read: \(reason)"
        case .missingPlace(let reason): reason
        case .missingSecrets(let names):
            "The request needs \(names.joined(separator: ", ")), which \(names.count == 1 ? "is a secret" : "are secrets")"
                + " and not stored. Nothing was sent."
        }
    }
}
