/// The options of `convoy run`, `check` and `send` that concern manifests and single requests.
extension OptionTable {
    static let workflow: [ToolOption] = [
        .value(
            "var", nil, "NAME=VALUE", in: .workflow, of: [.run, .check], repeats: true, once: true,
            "set a variable of the manifest", "Overrides the column of --data with the same name."),
        .value(
            "env-file", nil, "FILE", completes: .file, in: .workflow, of: [.run, .check], repeats: true, once: true,
            "read environment variables from FILE",
            """
            Each line is NAME=VALUE, optionally with export, quotes, or a comment after a space \
            and a #, as in dotenv files. These values override the environment.
            """),
        .value(
            "file-root", nil, "DIR", completes: .directory, in: .workflow, of: [.run, .check], once: true,
            "find the files that requests send in DIR",
            "Files outside DIR are rejected. Without it, relative paths start at the current directory."),
        .value(
            "only", nil, "ID", in: .workflow, of: [.run], repeats: true, once: true,
            "run only this request and its dependencies",
            "ID may also be a tag. Separate several with commas."),
        .value(
            "skip", nil, "ID", in: .workflow, of: [.run], repeats: true, once: true,
            "run neither this request nor those that need it",
            "ID may also be a tag. Separate several with commas. Requests with a when condition run if they use no value of the skipped requests."
        ),
        .flag(
            "keep-going", nil, in: .workflow, of: [.run], once: true, "run other requests after a failure (default)"),
        .flag(
            "fail-fast", nil, in: .workflow, of: [.run], once: true, "start no more requests after a failure",
            "Requests with a true when condition, such as always(), still run. onFailure in the manifest takes precedence."),
        .flag(
            "resume", nil, in: .workflow, of: [.run], once: true, "skip requests that succeeded in an earlier run",
            """
            A request is skipped only if it would be sent with the same values and its file is \
            unchanged. It is sent again if another request needs a secret that it captures, \
            because the journal does not store secrets.
            """),
        .flag(
            "no-expect", nil, in: .workflow, of: [.run], once: true, "accept every response",
            "Ignores expect. A file is still written only after a success, and captures must still be found."),
        .value(
            "data", nil, "FILE.csv", completes: .file, in: .workflow, of: [.run], once: true,
            "run once per row; the first row names variables",
            "Rows run one after the other, and share one report."),
        .value(
            "repeat", nil, "N", in: .workflow, of: [.run], once: true, "run everything N times",
            "Rounds run one after the other, and share one report. Requests that write files need --force."),
        .value(
            "shard", nil, "K/N", in: .workflow, of: [.run], once: true, "run part K of N, for several machines",
            "It consists of every Nth manifest or row, beginning with the Kth."),
        .value(
            "graph", nil, "FORMAT", completes: .oneOf(["dot", "mermaid"]), in: .workflow, of: [.run], once: true,
            "print the dependency graph and send nothing"),
        .value(
            "report", nil, "FORMAT=FILE|tap", in: .workflow, of: [.run], repeats: true, once: true,
            "write a report (junit, tap, json, html), or print TAP",
            "One report describes all manifests and rows. FILE may be a pipe, a device, or - for standard output."),
        .value(
            "timeline", nil, "FILE.html", completes: .file, in: .workflow, of: [.run], once: true,
            "write a page with the graph and a waterfall",
            "The same as --report html=FILE. FILE may be a pipe, a device, or - for standard output."),
    ]

    static let send: [ToolOption] = [
        .flag(
            "form", nil, in: .workflow, of: [.send], once: true, "send the items as a form instead of JSON",
            "With NAME@FILE, the form is sent in parts."),
        .flag(
            "multipart", nil, in: .workflow, of: [.send], once: true, "send the items as a multipart form",
            "NAME@FILE adds a file as a part."),
        .value(
            "body", nil, "FILE", completes: .file, in: .workflow, of: [.send], once: true,
            "send FILE as the body, - for standard input",
            "The bytes of FILE are sent unchanged, with the media type for its name. FILE may be a pipe."),
        .value(
            "output", "o", "FILE", completes: .file, in: .workflow, of: [.send], once: true,
            "write the body to FILE, replacing it"),
        .value(
            "auth", "a", "USER[:PASSWORD]", in: .workflow, of: [.send], once: true,
            "send this login at once (Basic)",
            "Without the password, Convoy prompts for it at the terminal. --user waits until the server requests a login."),
        .value(
            "bearer", nil, "TOKEN", in: .workflow, of: [.send], once: true, "send this token as Authorization: Bearer"),
        .value(
            "session", nil, "NAME", in: .workflow, of: [.send], once: true,
            "keep cookies, headers and login under NAME",
            """
            Each server has its own sessions, in ~/.local/state/convoy/sessions. A session contains the cookies of the \
            server, and the login and the headers of the command line, except Content-*, If-*, Cookie, Range and Host. \
            Remove the file to end the session.
            """),
        .value(
            "session-read-only", nil, "NAME", in: .workflow, of: [.send], once: true,
            "use the session NAME without changing it"),
        .value(
            "print", "p", "PARTS", in: .workflow, of: [.send], once: true,
            "print these parts: H, B (request), h, b (response)",
            """
            H and h are the heads, B and b the bodies. The default is b, and hb on a terminal. H lacks the fields that a \
            login adds later.
            """),
        .flag("offline", nil, in: .workflow, of: [.send], once: true, "print the request instead of sending it"),
        .flag("head", nil, in: .workflow, of: [.send], once: true, "print the response head instead of the body"),
        .value(
            "expect", nil, "KEY=VALUE", in: .workflow, of: [.send], repeats: true, once: true,
            "fail unless the response matches: status=200",
            "Supports the keys of expect that take one value: status, type, bytes, minBytes, maxBytes, sha256, maxTime."
        ),
        .value(
            "capture", nil, "NAME=SOURCE", in: .workflow, of: [.send], repeats: true, once: true,
            "print only this value: token=json:/token",
            "Supports the capture sources of a manifest. Several values are printed as NAME=VALUE lines for a shell."),
        .value(
            "save", nil, "FILE.yaml", completes: .file, in: .workflow, of: [.send], once: true,
            "add the request to FILE.yaml, created if needed"),
        .flag("curl", nil, in: .workflow, of: [.send], once: true, "print a curl command instead of sending"),
    ]
}
