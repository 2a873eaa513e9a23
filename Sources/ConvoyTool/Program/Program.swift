/// What the program calls itself.
enum Program {
    static let version = "0.1.0"
    /// Its `User-Agent`, unless the user wants another.
    static let userAgent = "convoy/\(version)"
}
