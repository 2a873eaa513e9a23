import ConvoyDatabase

/// Why the file of a ``CookieStore`` cannot be used, or a file of cookies not be read or written.
public enum CookieStoreError: Error, Sendable, Hashable {
    /// The system refuses to read it; its path, and why.
    case cannotRead(String, reason: String)
    /// The system refuses to write it; its path, and why.
    case cannotWrite(String, reason: String)
    /// The disk is full; its path.
    case isFull(String)
    /// Another process has locked it for too long; its path.
    case isBusy(String)
    /// It is damaged, and could not be set aside; its path, and why.
    case isDamaged(String, reason: String)
    /// It is a file of another program, or of a newer version of this library; its path, and why. It was left as it is.
    case isForeign(String, reason: String)
    /// Another user may have prepared it, or can change it; its path, and what is wrong. It was left as it is.
    case isUnsafe(String, reason: String)

    init(_ error: DatabaseError) {
        switch error.code {
        case .full: self = .isFull(error.path)
        case .busy: self = .isBusy(error.path)
        case .damaged: self = .isDamaged(error.path, reason: error.text)
        case .foreign, .newer: self = .isForeign(error.path, reason: error.text)
        case .unsafe: self = .isUnsafe(error.path, reason: error.text)
        case .cannotOpen: self = .cannotRead(error.path, reason: error.text)
        case .readOnly, .io, .replaced, .other: self = .cannotWrite(error.path, reason: error.text)
        }
    }
}

extension CookieStoreError: CustomStringConvertible {
    /// The reason in a sentence.
    public var description: String {
        switch self {
        case .cannotRead(let path, let reason): "The cookies cannot be read from \(path): \(reason)"
        case .cannotWrite(let path, let reason): "The cookies cannot be written to \(path): \(reason)"
        case .isFull(let path): "The cookies cannot be written to \(path): the disk is full."
        case .isBusy(let path): "The cookies cannot be written to \(path): another process has locked it."
        case .isDamaged(let path, let reason): "The file \(path) is damaged: \(reason)"
        case .isUnsafe(let path, let reason): "The cookies in \(path) cannot be trusted: \(reason)"
        case .isForeign(let path, let reason): "The file \(path) holds no cookies for this library: \(reason)"
        }
    }
}
