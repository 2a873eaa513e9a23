import Foundation

/// An entry as it is stored.
struct QueueRow: Sendable {
    let id: UUID
    /// The place in the order.
    let sequence: Int64
    var request: StoredRequest
    var dependencies: Set<UUID>
    let policy: FailedDependencyPolicy
    let tag: String?
    /// In microseconds since 1970.
    let enqueued: Int64
    var status: QueueStatus
}

/// What changes in a row.
struct QueueStatus: Sendable, Equatable {
    enum Phase: Int64, Sendable {
        /// To be done, and not under way.
        case waiting = 0
        /// The operation has begun, and not ended.
        case running = 1
        /// The file of a download is whole, and about to get its name.
        case finishing = 2
        case finished = 3
        case failed = 4
        /// Nobody knows whether the request has arrived, and it must not be sent again without being asked.
        case unknown = 5

        /// Whether nothing more happens by itself.
        var isOver: Bool { self == .finished || self == .failed || self == .unknown }
    }

    var phase = Phase.waiting
    var isPaused = false
    /// Whether a try has begun whose outcome was not stored: the request may have been sent.
    var mayHaveBeenSent = false
    var priority: Int64 = 0
    var attempts: Int64 = 0
    /// How many retries in a row have brought nothing; the policy counts on from them.
    var retries: Int64 = 0
    /// When the next attempt is due, in microseconds since 1970; nil if nothing has failed since it was last begun.
    var next: Int64?
    var bytesReceived: Int64 = 0
    var bytesExpected: Int64?
    var error: String?
    var statusCode: Int64?
    var file: FinishedFile?
    /// When the phase has changed, in microseconds since 1970.
    var changed: Int64
}

/// The file of a download, by which it is recognized after its name has changed.
struct FinishedFile: Sendable, Equatable {
    var url: URL
    /// The number of its inode, and its length in bytes.
    var number: Int64
    var length: Int64

    /// Whether the file is at its place.
    var isThere: Bool {
        var information = stat()
        guard stat(url.path, &information) == 0 else { return false }
        return Int64(bitPattern: UInt64(information.st_ino)) == number && Int64(information.st_size) == length
    }

    /// - Parameter path: where the file is now.
    init?(_ path: String, as url: URL) {
        var information = stat()
        guard stat(path, &information) == 0 else { return nil }
        self.init(
            url: url, number: Int64(bitPattern: UInt64(information.st_ino)), length: Int64(information.st_size))
    }

    init(url: URL, number: Int64, length: Int64) { (self.url, self.number, self.length) = (url, number, length) }
}

/// A change of what is stored.
enum QueueChange: Sendable {
    case insert(QueueRow)
    case update(UUID, QueueStatus)
    case remove(UUID)
    /// What has finished is removed: it holds nobody back.
    case removeFinished(UUID)
    /// The entry does not wait for these any more.
    case removeDependencies(of: UUID, [UUID])
    case setPaused(Bool)
}
