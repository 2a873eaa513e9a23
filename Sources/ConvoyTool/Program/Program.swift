/// The program's version and name.
enum Program {
    static let version = "0.1.0"
    /// The default `User-Agent`.
    static let userAgent = "convoy/\(version)"
}
