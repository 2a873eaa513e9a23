import ConvoySupport

/// The messages about files.
enum FileProblem {
    static func exists(_ path: String) -> ToolError {
        .failure("file exists: \(Printable.line(path)); see --force")
    }

    static func partialExists(_ path: String) -> ToolError {
        .failure("\(Printable.line(path)) exists, from an interrupted or running download; see --force")
    }

    static func error(_ error: FileWritingError) -> ToolError {
        let path = Printable.line(error.path)
        return switch error.reason {
        case .exists: exists(error.path)
        case .partialExists: partialExists(error.path)
        case .partialIsShared: .failure("\(path) is used by another download, or is not a regular file")
        case .cannotCreate: .failure("cannot create \(path): \(error.cause.text)")
        case .cannotWrite, .cannotRead: .failure("cannot write \(path): \(error.cause.text)")
        }
    }
}
