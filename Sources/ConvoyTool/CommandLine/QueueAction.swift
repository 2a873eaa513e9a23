import ConvoySharedQueue

/// The actions of `convoy queue`.
enum QueueAction: String, CaseIterable, Sendable {
    case add, list, show, wait, stats, retry, cancel, pause, resume, reschedule, purge, limit, schedule, serve

    /// The values of `--state`.
    static let states = WorkState.allCases.map(\.rawValue)
    /// The values of `--priority`.
    static let priorities = ["very-low", "low", "normal", "high", "very-high"]

    /// The values of `--failed-dependency`.
    static let policies = ["hold", "run", "fail"]

    private static let requests = Set((OptionTable.entries + OptionTable.times).map(\.name))
    private static let filters: Set<String> = ["state", "tag", "group", "host"]

    /// The options of this action, in addition to those that all actions support.
    private var options: Set<String> {
        switch self {
        case .add:
            Self.requests.union(["header", "user-agent", "tag", "group"])
        case .list: Self.filters.union(["limit", "behind", "newest"])
        case .show: []
        case .wait: ["group", "within"]
        case .stats: Self.filters
        case .retry, .cancel, .pause, .resume: Self.filters.union(["all"])
        case .reschedule: Self.filters.union(["all", "not-before"])
        case .purge: Self.filters.union(["all", "older-than"])
        case .limit: ["jobs", "rate", "retries", "tag"]
        case .schedule:
            Self.requests.subtracting(["input-file", "after", "failed-dependency", "not-before"])
                .union(OptionTable.schedules.map(\.name)).union(["header", "user-agent", "tag", "group"])
        case .serve: ["port", "base-url"]
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
        let common: Set<String> = ["store", "schema", "json", "quiet", "help"]
        for (option, _) in options.given where !action.options.union(common).contains(option.name) {
            throw options.usage("queue \(action.rawValue) has no --\(option.name)")
        }
        self = action
    }

    /// The arguments and description of each action, for the help.
    static let rows: [(left: String, right: String)] = [
        ("add [URL]...", "add requests, also of lists (-i); print their ids"),
        ("list, stats", "print entries, or counts, workers and limits"),
        ("show ID...", "print the details and results of entries"),
        ("wait [ID]...", "wait until entries, or those of --group, have ended"),
        ("retry, cancel [ID]...", "retry or cancel entries"),
        ("pause, resume [ID]...", "pause or resume entries, or the whole queue"),
        ("reschedule [ID]...", "change the start time of entries to --not-before"),
        ("purge [ID]...", "remove done, failed or cancelled entries"),
        ("limit [HOST|'*']", "set limits of a host or --tag for all workers"),
        ("schedule add NAME URL", "add a request periodically; also list, remove NAME"),
        ("serve", "serve a web page of the queue on this machine"),
    ]
}
