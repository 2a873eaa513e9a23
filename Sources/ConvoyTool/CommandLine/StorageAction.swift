/// The actions of `convoy s3`.
enum StorageAction: String, CaseIterable, Sendable {
    case get, put, list, remove, sync

    /// The options that not all actions support, by action.
    private var options: Set<String> {
        switch self {
        case .get:
            [
                "output", "directory", "continue", "no-clobber", "timestamping", "force", "segments", "if-match",
                "if-none-match",
            ]
        case .put:
            [
                "resume", "no-journal", "content-type", "metadata", "if-match", "if-none-match", "part-size", "parallel",
                "body-checksum",
            ]
        case .list: ["recursive"]
        case .remove: ["recursive", "dry-run"]
        case .sync:
            ["delete", "exclude", "include", "dry-run", "segments", "no-journal", "part-size", "parallel", "body-checksum"]
        }
    }

    /// Reads the action from the first argument of the command.
    ///
    /// - Throws: A usage error if the action is missing or unknown, or does not support an option.
    init(_ options: Options) throws(ToolError) {
        let words = WordChoice.text(Self.allCases.map(\.rawValue))
        guard let word = options.arguments.first else { throw options.usage("no action: \(words)") }
        guard let action = Self(rawValue: word) else {
            throw options.usage("unknown action '\(Printable.line(word))': it must be \(words)")
        }
        let special = Self.allCases.reduce(into: Set<String>()) { $0.formUnion($1.options) }
        for (option, _) in options.given where special.contains(option.name) && !action.options.contains(option.name) {
            throw options.usage("s3 \(action.rawValue) has no --\(option.name)")
        }
        self = action
    }

    /// The arguments and description of each action, for the help.
    static let rows: [(left: String, right: String)] = [
        ("get OBJECT...", "download objects, resuming interrupted downloads"),
        ("put FILE... OBJECT", "upload files, resuming interrupted uploads"),
        ("list OBJECT...", "list the objects whose keys begin with a prefix"),
        ("remove OBJECT...", "remove objects"),
        ("sync SOURCE TARGET", "copy new and changed files from or to a directory"),
    ]
}
