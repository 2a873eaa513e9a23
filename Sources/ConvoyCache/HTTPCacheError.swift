/// Why an `HTTPCache` cannot use its directory.
public enum HTTPCacheError: Error, Sendable, Hashable {
    /// The directory, or the index in it, cannot be made or opened; its path, and why.
    case cannotOpen(String, reason: String)
    /// There is a database of another program, or of a newer version of this library. It was left as it is; its path.
    case isForeign(String)
    /// Something could not be written; its path, and why. It has not been stored; the cache goes on.
    case cannotWrite(String, reason: String)
}

extension HTTPCacheError: CustomStringConvertible {
    /// The reason in a sentence.
    public var description: String {
        switch self {
        case .cannotOpen(let path, let reason): "The cache cannot be opened at \(path): \(reason)"
        case .isForeign(let path): "The file \(path) belongs to another program, or to a newer version. It was left alone."
        case .cannotWrite(let path, let reason): "The cache cannot be written at \(path): \(reason)"
        }
    }
}
