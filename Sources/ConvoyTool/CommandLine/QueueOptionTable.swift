/// The options of `convoy work` and `convoy queue`.
extension OptionTable {
    private static let both: Set<Command> = [.work, .queue]

    static let queue: [ToolOption] = [
        .value(
            "store", nil, "PATH|URL", completes: .file, in: .queue, of: both,
            "the database: a file, or postgresql://USER@HOST/NAME",
            """
            A file is one of SQLite, which the processes of a machine share; queue add and work make it if it is missing. A URL is \
            for PostgreSQL, with all settings of libpq, which takes what is missing from PGHOST, PGPASSWORD and so on, and \
            from ~/.pgpass. Other users see what is on a command line, so that a password belongs there.
            """),
        .value(
            "schema", nil, "NAME", in: .queue, of: both, "the schema in PostgreSQL (default: convoy)"),
        .value(
            "tag", nil, "TAG", in: .queue, of: [.work], repeats: true, "carry out only entries with this tag",
            "An empty TAG stands for entries without one."),
        .value("tag", nil, "TAG", in: .queue, of: [.queue], once: true, "with this tag; of add: give it this tag"),
        .value(
            "state", nil, "STATE", completes: .oneOf(QueueAction.states), in: .queue, of: [.queue], repeats: true,
            once: true,
            "in this state: ready, leased, failed ...",
            """
            The states are waiting (its time has not come), held (by a dependency), ready, leased (by a worker), retrying \
            (it waits for its next attempt), done, failed, cancelled and paused.
            """),
        .value(
            "group", nil, "GROUP", in: .queue, of: [.queue], once: true, "of this group; of add: put it into this group"),
        .value("host", nil, "HOST", in: .queue, of: [.queue], once: true, "for this host, as list --json prints it"),
        .flag("all", nil, in: .queue, of: [.queue], once: true, "all entries, where a change needs a filter"),
        .value("limit", nil, "N", in: .queue, of: [.queue], once: true, "list at most N (default: 100)", "1 to 10000."),
        .value(
            "behind", nil, "N", in: .queue, of: [.queue], once: true, "list those behind the sequence number N",
            "That of the last line of --json, for the next page."),
        .flag("newest", nil, in: .queue, of: [.queue], once: true, "list the newest first"),
        .value(
            "older-than", nil, "TIME", in: .queue, of: [.queue], once: true,
            "purge only what ended so long ago: 90, 10m, 7d",
            "In seconds, or with m, h or d."),
        .value("jobs", nil, "N", in: .queue, of: [.queue], once: true, "limit: requests at a time, or none"),
        .value(
            "rate", nil, "R", in: .queue, of: [.queue], once: true, "limit: requests a second, or none",
            "It may be a fraction: 0.5 is one in two seconds."),
        .value(
            "retries", nil, "SHARE", in: .queue, of: [.queue], once: true, "limit: retries for each first attempt, or none",
            "Such as 0.1, beside a reserve of ten. A retry that this does not cover comes a minute later."),
        .value(
            "port", nil, "N", in: .queue, of: [.queue], once: true, "serve: the port (default: a free one)"),
        .value(
            "lease", nil, "SECONDS", in: .queue, of: [.work], "how long its leases last (default: 60)",
            "How long the entries of a worker that was killed wait for another one. At least 1."),
        .value(
            "per-host", nil, "N", in: .queue, of: [.work], "at a time from one host, over all workers",
            "The same as queue limit '*' --jobs N: it is stored, and hosts with limits of their own keep these."),
        .value(
            "per-second", nil, "R", in: .queue, of: [.work], "requests a second to one host, over all workers",
            "The same as queue limit '*' --rate R."),
        .value(
            "folder", nil, "NAME=DIR", completes: .directory, in: .queue, of: [.work], repeats: true,
            "where bodies become files that name this folder", "As queue add --folder NAME=PATH says."),
        .value(
            "secrets-for", nil, "URL", in: .queue, of: [.work], repeats: true,
            "the servers that --user and secret headers are for",
            """
            Scheme, host and port; https without a scheme. A queue has URLs of many servers, and a secret is sent to none but \
            these. --user is for one.
            """),
        .flag(
            "until-empty", nil, in: .queue, of: [.work], once: true, "end when nothing is ready, waiting or running",
            "With status 1 if an entry has failed for good. What is held or paused does not count."),
        .value(
            "metrics", nil, "PORT", in: .queue, of: [.work], "serve metrics for Prometheus on 127.0.0.1",
            "At /metrics. PORT may be written 127.0.0.1:PORT. Other machines cannot reach it."),
    ]

    static let entries: [ToolOption] = [
        .value(
            "method", "X", "METHOD", in: .entries, of: [.queue], once: true, "the method (default: GET, or POST with data)"),
        .value("data", nil, "TEXT", in: .entries, of: [.queue], once: true, "send TEXT as the body"),
        .value(
            "body", nil, "FILE", completes: .file, in: .entries, of: [.queue], once: true,
            "send FILE as the body, or - for standard input", "At most 16 MiB, which are stored in the queue."),
        .value(
            "output", "o", "FILE", completes: .file, in: .entries, of: [.queue], once: true,
            "download to FILE, on the worker's machine",
            "A path that is not absolute is below this directory. The directory must be there."),
        .value(
            "directory", "d", "DIR", completes: .directory, in: .entries, of: [.queue], once: true,
            "download into DIR, on the worker's machine"),
        .value(
            "folder", nil, "NAME=PATH", in: .entries, of: [.queue], once: true,
            "the body becomes PATH in the folder of work --folder NAME"),
        .flag(
            "keep-body", nil, in: .entries, of: [.queue], once: true, "keep the body in the entry, up to 64 KiB",
            "show prints it."),
        .value(
            "after", nil, "ID", in: .entries, of: [.queue], repeats: true, once: true, "when this entry has succeeded"),
        .value(
            "priority", nil, "LEVEL", completes: .oneOf(QueueAction.priorities), in: .entries, of: [.queue], once: true,
            "very-low, low, normal, high or very-high", "Each step counts like 15 minutes of waiting."),
        .value(
            "not-before", nil, "TIME", in: .entries, of: [.queue], once: true,
            "not before TIME: 10m, or 2026-12-01T09:00:00Z",
            "From now on, in seconds, or with m, h or d; or a time of ISO 8601."),
        .value(
            "deadline", nil, "TIME", in: .entries, of: [.queue], once: true, "it fails unless its last attempt began by TIME"
        ),
        .value("attempts", nil, "N", in: .entries, of: [.queue], once: true, "it fails after N attempts (default: 25)"),
        .value(
            "unique", nil, "KEY", in: .entries, of: [.queue], once: true, "once: print the entry that has KEY already"),
    ]
}
