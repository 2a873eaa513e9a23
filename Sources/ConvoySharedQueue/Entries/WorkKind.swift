/// The kind of request that an entry of a queue contains.
public enum WorkKind: String, Sendable, Hashable, CaseIterable {
    /// A ``DownloadRequest``.
    case download
    /// An ``OutboxRequest``.
    case outbox
    /// A `URLRequest`, in a ``SharedQueue`` only.
    case plain
    /// An ``UploadRequest``.
    case upload

    /// The number that represents the kind in the database.
    package var code: Int64 {
        switch self {
        case .download: 0
        case .outbox: 1
        case .plain: 2
        case .upload: 3
        }
    }

    /// Returns the kind with the given number; nil if there is none.
    package init?(code: Int64) {
        guard let kind = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = kind
    }
}
