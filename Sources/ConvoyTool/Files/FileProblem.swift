import ConvoySupport

/// What is wrong with a file, in words.
enum FileProblem {
    static func exists(_ path: String) -> ToolError {
        .failure("file exists: \(Printable.line(path)); see --force")
    }

    static func partialExists(_ path: String) -> ToolError {
        .failure("\(Printable.line(path)) exists, of an interrupted or a running download; see --force")
    }

    static func error(_ error: FileWritingError) -> ToolError {
        let path = Printable.line(error.path)
        return switch error.reason {
        case .exists: exists(error.path)
        case .partialExists: partialExists(error.path)
        case .partialIsShared: .failure("\(path) is not a file that only this download writes")
        case .cannotCreate: .failure("cannot create \(path): \(error.cause.text)")
        case .cannotWrite: .failure("cannot write \(path): \(error.cause.text)")
        }
    }
}
