/// Why the file of an `HSTSStore` cannot be used.
public enum HSTSStoreError: Error, Sendable, Hashable {
    /// The system refuses to read it; its path, and why.
    case cannotRead(String, reason: String)
    /// The system refuses to write it; its path, and why.
    case cannotWrite(String, reason: String)
    /// It is not a file of this kind, or has been damaged; its path, and the number of the line.
    case isDamaged(String, line: Int)
    /// Another user may have prepared it, or can change it; its path, and what is wrong. It was left as it is.
    case isUnsafe(String, reason: String)
}

extension HSTSStoreError: CustomStringConvertible {
    /// The reason in a sentence.
    public var description: String {
        switch self {
        case .cannotRead(let path, let reason): "The hosts for TLS cannot be read from \(path): \(reason)"
        case .cannotWrite(let path, let reason): "The hosts for TLS cannot be written to \(path): \(reason)"
        case .isUnsafe(let path, let reason): "The hosts for TLS in \(path) cannot be trusted: \(reason)"
        case .isDamaged(let path, let line): "The file \(path) is damaged in line \(line). Remove it to begin anew."
        }
    }
}
