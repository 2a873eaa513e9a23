/// Why an `HTTPCache` cannot use its directory.
public enum HTTPCacheError: Error, Sendable, Hashable {
    /// The directory, or the index in it, cannot be made or opened; its path, and why.
    case cannotOpen(String, reason: String)
    /// There is a database of another program, or of a newer version of this library. It was left as it is; its path.
    case isForeign(String)
    /// Something could not be written; its path, and why. It has not been stored; the cache goes on.
    case cannotWrite(String, reason: String)
    /// Another user may have prepared the directory, or can change what is in it; its path, and what is wrong. It is not
    /// used.
    case isUnsafe(String, reason: String)
}

extension HTTPCacheError: CustomStringConvertible {
    /// The reason in a sentence.
    public var description: String {
        switch self {
        case .cannotOpen(let path, let reason): "The cache cannot be opened at \(path): \(reason)"
        case .isForeign(let path): "The file \(path) belongs to another program, or to a newer version. It was left alone."
        case .isUnsafe(let path, let reason): "The cache at \(path) cannot be trusted, and is not used: \(reason)"
        case .cannotWrite(let path, let reason): "The cache cannot be written at \(path): \(reason)"
        }
    }
}
