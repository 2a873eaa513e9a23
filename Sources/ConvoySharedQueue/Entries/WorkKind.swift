/// The kind of request that an entry of a queue contains.
public enum WorkKind: Int64, Sendable, Hashable {
    /// A ``DownloadRequest``.
    case download = 0
    /// An ``OutboxRequest``.
    case outbox = 1
    /// A `URLRequest`.
    case plain = 2
    /// An ``UploadRequest``.
    case upload = 3
}
