import ConvoySharedQueue

/// What `convoy queue` does.
enum QueueAction: String, CaseIterable, Sendable {
    case add, list, show, stats, retry, cancel, pause, resume, purge, limit, serve

    /// The words for `--state`.
    static let states = WorkState.allCases.map(\.rawValue)
    /// The words for `--priority`.
    static let priorities = ["very-low", "low", "normal", "high", "very-high"]

    private static let filters: Set<String> = ["state", "tag", "group", "host"]

    /// The options that it has, beside those of all actions.
    private var options: Set<String> {
        switch self {
        case .add:
            Set(OptionTable.entries.map(\.name)).union(["header", "user-agent", "tag", "group"])
        case .list: Self.filters.union(["limit", "behind", "newest"])
        case .show: []
        case .stats: Self.filters
        case .retry, .cancel, .pause, .resume: Self.filters.union(["all"])
        case .purge: Self.filters.union(["all", "older-than"])
        case .limit: ["jobs", "rate", "retries"]
        case .serve: ["port"]
        }
    }

    /// The first argument of the command, as an action.
    ///
    /// - Throws: a usage error without one, for another word, and for an option that it does not have.
    init(_ options: Options) throws(ToolError) {
        let words = WordChoice.text(Self.allCases.map(\.rawValue))
        guard let word = options.arguments.first else { throw options.usage("no action: \(words)") }
        guard let action = Self(rawValue: word) else {
            throw options.usage("unknown action '\(Printable.line(word))': it must be \(words)")
        }
        let common: Set<String> = ["store", "schema", "json", "quiet", "help"]
        for (option, _) in options.given where !action.options.union(common).contains(option.name) {
            throw options.usage("queue \(action.rawValue) has no --\(option.name)")
        }
        self = action
    }

    /// What may follow it, and what it does, for the help.
    static let rows: [(left: String, right: String)] = [
        ("add URL...", "add requests, and print the ids of their entries"),
        ("list", "print entries, in the order in which they were added"),
        ("show ID...", "print all that is known of entries, and the result"),
        ("stats", "print how many there are, the workers, and the limits"),
        ("retry, cancel [ID]...", "try entries again, or end them"),
        ("pause, resume [ID]...", "stop entries for now; without any, the whole queue"),
        ("purge [ID]...", "remove entries that are done, failed or cancelled"),
        ("limit HOST|'*'", "limit what all workers together do at a host"),
        ("serve", "show the queue on a page on this machine"),
    ]
}
