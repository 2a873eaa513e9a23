import ConvoySupport

/// The messages about files.
enum FileProblem {
    /// - Parameter hint: the options that help.
    static func exists(_ path: String, see hint: String = "--force") -> ToolError {
        .disk("file exists: \(Printable.line(path)); see \(hint)")
    }

    static func partialExists(_ path: String) -> ToolError {
        .disk("\(Printable.line(path)) exists, from an interrupted or running download; see --force")
    }

    static func error(_ error: FileWritingError) -> ToolError {
        let path = Printable.line(error.path)
        return switch error.reason {
        case .exists: exists(error.path)
        case .partialExists: partialExists(error.path)
        case .partialIsShared: .disk("\(path) is used by another download, or is not a regular file")
        case .cannotCreate: .disk("cannot create \(path): \(error.cause.text)")
        case .cannotWrite, .cannotRead: .disk("cannot write \(path): \(error.cause.text)")
        }
    }
}
