/// Where the bytes of a stored body are.
enum StoredBody: Sendable {
    case memory([UInt8])
    /// In a row of the index, not read yet.
    case row
    /// In a file of its own, not opened yet.
    case file
    /// In an open file.
    case open(BodyFile)

    var bytes: [UInt8]? {
        guard case .memory(let bytes) = self else { return nil }
        return bytes
    }

    /// Whether it can be served as it is.
    var isReady: Bool {
        switch self {
        case .memory, .open: true
        case .row, .file: false
        }
    }
}
