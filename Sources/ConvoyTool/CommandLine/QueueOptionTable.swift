import ConvoySharedQueue

/// The options of `convoy work` and `convoy queue`.
extension OptionTable {
    private static let both: Set<Command> = [.work, .queue]

    static let queue: [ToolOption] = [
        .value(
            "store", nil, "PATH|URL", completes: .file, in: .queue, of: both,
            "the database: a file, or postgresql://USER@HOST/NAME",
            """
            A file is an SQLite database, which the processes of one machine share; queue add and work create it if it is \
            missing. A URL connects to PostgreSQL, with all settings of libpq, which reads missing values from PGHOST, \
            PGPASSWORD and so on, and from ~/.pgpass. Put the password there: other users can see the command line.
            """),
        .value(
            "schema", nil, "NAME", in: .queue, of: both, "the schema in PostgreSQL (default: convoy)"),
        .value(
            "tag", nil, "TAG", in: .queue, of: [.work], repeats: true, "process only entries with this tag",
            "An empty TAG selects entries without a tag."),
        .value(
            "tag", nil, "TAG", in: .queue, of: [.queue], once: true, "entries with this tag; with add: set the tag",
            "With limit, the limits are those of the tag, in addition to those of hosts."),
        .flag(
            "fair", nil, in: .queue, of: [.work], "distribute the jobs equally among tags",
            "By default, priority and age decide across all tags, so that many entries of one tag delay those of others."),
        .value(
            "weight", nil, "TAG=N", in: .queue, of: [.work], repeats: true, "weight of a tag, with --fair (default: 1)",
            "An empty TAG stands for entries without a tag. N may be a fraction."),
        .value(
            "state", nil, "STATE", completes: .oneOf(QueueAction.states), in: .queue, of: [.queue], repeats: true,
            once: true,
            "entries in this state: ready, leased, failed ...",
            """
            The states are waiting (for its start time), held (by a dependency), ready, leased (by a worker), retrying \
            (waiting for its next attempt), done, failed, cancelled and paused.
            """),
        .value(
            "group", nil, "GROUP", in: .queue, of: [.queue], once: true, "entries of this group; with add: set the group"),
        .value(
            "host", nil, "HOST", in: .queue, of: [.queue], once: true, "entries for this host, with its port if it has one"),
        .flag("all", nil, in: .queue, of: [.queue], once: true, "all entries, if an action requires a filter"),
        .value(
            "limit", nil, "N", in: .queue, of: [.queue], once: true, "list at most N entries (default: 100)",
            "1 to 10000."),
        .value(
            "behind", nil, "N", in: .queue, of: [.queue], once: true, "list entries after the sequence number N",
            "To list the next page, pass the number from the last line of --json."),
        .flag("newest", nil, in: .queue, of: [.queue], once: true, "list the newest first"),
        .value(
            "older-than", nil, "TIME", in: .times, of: [.queue], once: true,
            "purge entries that ended before TIME: 90, 10m, 7d",
            "TIME is an age in seconds, or with the unit m, h or d."),
        .value(
            "within", nil, "TIME", in: .queue, of: [.queue], once: true, "wait: fail after TIME: 90, 10m, 2h",
            "The exit status is then 6."),
        .value("jobs", nil, "N", in: .queue, of: [.queue], once: true, "limit: concurrent requests, or none"),
        .value(
            "rate", nil, "R", in: .queue, of: [.queue], once: true, "limit: requests per second, or none",
            "R may be a fraction: 0.5 is one request every two seconds."),
        .value(
            "retries", nil, "SHARE", in: .queue, of: [.queue], once: true, "limit: retries per first attempt, or none",
            "0.1 allows one retry per ten first attempts, plus a reserve of ten. Further retries are delayed by a minute."),
        .value(
            "port", nil, "N", in: .queue, of: [.queue], once: true, "serve: the port (default: a free one)"),
        .value(
            "base-url", nil, "URL", in: .queue, of: [.queue], once: true, "serve: the URL of the page behind a proxy",
            """
            The proxy must run on this machine. It may forward the path of URL, or remove it. /metrics then requires the \
            token, too; convoy work --metrics serves the same values.
            """),
        .value(
            "lease", nil, "SECONDS", in: .queue, of: [.work], "duration of its leases (default: 60)",
            "If a worker is killed, its entries become ready again after this time. The minimum is 1."),
        .value(
            "per-host", nil, "N", in: .queue, of: [.work], "requests per host, over all workers",
            "The same as queue limit '*' --jobs N: the limit is stored. A host's own limit takes precedence."),
        .value(
            "per-second", nil, "R", in: .queue, of: [.work], "requests per second and host, over all workers",
            "The same as queue limit '*' --rate R: the limit is stored."),
        .value(
            "folder", nil, "NAME=DIR", completes: .directory, in: .queue, of: [.work], repeats: true,
            "write bodies of entries for folder NAME to DIR",
            "queue add --folder NAME=PATH refers to this folder."),
        .value(
            "secrets-for", nil, "URL", in: .queue, of: [.work], repeats: true,
            "send --user and secret headers to this server",
            """
            URL is a scheme, host and port; the default scheme is https. A queue has URLs of many servers, and secrets are \
            sent only to these servers. --user applies to one server.
            """),
        .flag(
            "until-empty", nil, in: .queue, of: [.work], once: true, "exit when nothing is ready, waiting or running",
            "The status is 1 if an entry has failed permanently. Held and paused entries do not count."),
        .value(
            "metrics", nil, "PORT", in: .queue, of: [.work], "serve metrics for Prometheus on 127.0.0.1",
            "The path is /metrics. PORT may also be 127.0.0.1:PORT. Other machines cannot connect."),
    ]

    static let entries: [ToolOption] = [
        .value(
            "input-file", "i", "FILE", completes: .file, in: .entries, of: [.queue], repeats: true, once: true,
            "read URLs from FILE, - for standard input",
            """
            Each line is a URL. Lines below it that begin with a space or a tab apply to that URL: out=NAME and dir=DIR, as \
            in the lists of get, and method, data, header, folder, tag, group, after, failed-dependency, priority, \
            not-before, deadline, timeout, attempts, unique and unique-for, in the form NAME=VALUE. The requests of a list \
            are added in steps of a thousand, once all of its lines have been checked; those of a pipe as they arrive.
            """),
        .value(
            "method", "X", "METHOD", in: .entries, of: [.queue], once: true, "the method (default: GET, or POST with data)"),
        .value("data", nil, "TEXT", in: .entries, of: [.queue], once: true, "send TEXT as the body"),
        .value(
            "body", nil, "FILE", completes: .file, in: .entries, of: [.queue], once: true,
            "send FILE as the body, - for standard input", "The body is stored in the queue and limited to 16 MiB."),
        .value(
            "output", "o", "FILE", completes: .file, in: .entries, of: [.queue], once: true,
            "download to FILE, on the worker's machine",
            "A relative path is resolved against the current directory. The directory of the file must exist."),
        .value(
            "directory", "d", "DIR", completes: .directory, in: .entries, of: [.queue], once: true,
            "download into DIR, on the worker's machine"),
        .value(
            "folder", nil, "NAME=PATH", in: .entries, of: [.queue], once: true,
            "write the body to PATH in folder NAME"),
        .flag(
            "keep-body", nil, in: .entries, of: [.queue], once: true, "store the response body in the entry",
            "The body may have up to 64 KiB. queue show prints it."),
        .value(
            "after", nil, "ID", in: .entries, of: [.queue], repeats: true, once: true, "start after this entry has succeeded"
        ),
        .value(
            "failed-dependency", nil, "POLICY", completes: .oneOf(QueueAction.policies), in: .entries, of: [.queue],
            once: true, "if an --after entry fails: hold, run or fail",
            "The default is hold. A held entry starts after a retry of the failed one has succeeded, or if it is retried itself."
        ),
        .value(
            "priority", nil, "LEVEL", completes: .oneOf(QueueAction.priorities), in: .entries, of: [.queue], once: true,
            "very-low, low, normal, high or very-high", "Each level counts as 15 minutes of waiting time."),
        .value(
            "unique", nil, "KEY", in: .entries, of: [.queue], once: true, "add once; print the existing entry with KEY"),
        .value(
            "unique-for", nil, "TIME", in: .entries, of: [.queue], once: true,
            "add again after TIME despite --unique: 1d",
            "TIME counts from the time at which the existing entry was added. Without it, --unique applies while it exists."),
    ]
    static let times: [ToolOption] = [
        .value(
            "not-before", nil, "TIME", in: .times, of: [.queue], once: true,
            "start after TIME: 10m, 2026-12-01T09:00:00Z",
            "TIME is a delay in seconds, a delay with the unit m, h or d, or an ISO 8601 time."),
        .value(
            "deadline", nil, "TIME", in: .times, of: [.queue], once: true, "fail unless the last attempt starts by TIME"
        ),
        .value(
            "timeout", nil, "SECONDS", in: .times, of: [.queue], once: true, "timeout without data (default: 60)"),
        .value("attempts", nil, "N", in: .times, of: [.queue], once: true, "fail after N attempts (default: 25)"),
    ]

    static let schedules: [ToolOption] = [
        .value(
            "cron", nil, "TIMES", in: .times, of: [.queue], once: true, "schedule: add at these times: '30 9 * * 1-5'",
            """
            The fields are minute, hour, day of the month, month and day of the week, as in crontab. @hourly, @daily, \
            @weekly, @monthly and @yearly are abbreviations.
            """),
        .value(
            "every", nil, "TIME", in: .times, of: [.queue], once: true, "schedule: add at this interval: 90, 10m, 1d",
            "The first entry is added after one interval. The minimum is one second."),
        .value(
            "time-zone", nil, "ZONE", in: .times, of: [.queue], once: true, "schedule: time zone of --cron: Europe/Berlin",
            "The default is the time zone of this machine."),
        .value(
            "missed", nil, "POLICY", completes: .oneOf(SharedQueue.MissedOccurrences.allCases.map(\.rawValue)),
            in: .times, of: [.queue], once: true, "schedule: skip, once (default) or all",
            """
            Determines what is added when workers run again after times at which none was running: nothing, one entry, or \
            one for each time.
            """),
    ]
}
