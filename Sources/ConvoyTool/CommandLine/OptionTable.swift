/// All options of all commands. The parser, help, completion scripts, manual page and configuration
/// are all derived from this table.
enum OptionTable {
    static let all =
        workflow + send + queue + entries + times + schedules + storage + files + uploads + storageFiles + speed + requests
        + network + trust + output

    /// Returns the options of a command, in help order.
    static func options(of command: Command) -> [ToolOption] { all.filter { $0.commands.contains(command) } }

    /// Groups of mutually exclusive options. At most one option of a group may be given on the command line. In the
    /// configuration, a later option replaces an earlier one.
    static let alternatives: [Set<String>] = [
        ["continue", "no-clobber", "timestamping", "force", "number"], ["insecure", "cacert"], ["ipv4", "ipv6"],
        ["http1.0", "http1.1"], ["insecure", "crl-file"], ["quiet", "verbose"], ["keep-going", "fail-fast"],
        ["resume", "repeat"],
        ["output", "remote-header-name"], ["tus", "draft", "plain"], ["head", "print"],
        ["auth", "bearer", "user"],
    ]

    /// Returns the options that an option replaces.
    static func alternatives(to name: String) -> Set<String> {
        Set(alternatives.filter { $0.contains(name) }.joined()).subtracting([name])
    }

    /// The commands with job and rate limits.
    private static let limited = Command.several.union([.work])
    private static let withHeaders: Set<Command> = [.get, .put, .send, .events, .work, .queue]
    /// The commands with logins and cookies. Requests to a storage are signed instead.
    private static let withLogins = Command.transferring.subtracting([.storage])
    private static let downloading: Set<Command> = [.get, .storage]
    private static let uploading: Set<Command> = [.put, .storage]
    private static let retrying: Set<Command> = [.get, .put, .storage, .run, .send]

    private static let files: [ToolOption] = [
        .value(
            "output", "o", "FILE", completes: .file, in: .files, of: downloading, once: true,
            "write to FILE, - for standard output (one URL)",
            "Without --output, the file name is the last part of the URL's path, or index.html."),
        .value(
            "directory", "d", "DIR", completes: .directory, in: .files, of: Command.fetching.union([.storage]),
            "write files to DIR, creating it if needed",
            "Applies to the outputs of a manifest, and to files in a list that do not set dir=."),
        .value(
            "input-file", "i", "FILE", completes: .file, in: .files, of: [.get], repeats: true, once: true,
            "read URLs from FILE, - for standard input",
            """
            Each line of a list is a URL, or several URLs of the same file separated by tabs. \
            Lines below it that begin with a space or a tab apply to that file, as in aria2: \
            out=NAME, dir=DIR, checksum=ALGORITHM=HEX, header=NAME: VALUE and split=SEGMENTS. \
            Empty lines and lines that begin with # are ignored. A Metalink file is accepted \
            instead of a list.
            """),
        .flag(
            "remote-header-name", "J", in: .files, of: [.get], "take names from Content-Disposition",
            "Names are sanitized: a file stays in its directory, is not hidden, and has no control characters."),
        .flag(
            "continue", "c", in: .files, of: downloading, "resume incomplete files",
            """
            This includes files left by other programs. A file that is shorter than the server's \
            is resumed if a checksum, given or sent by the server, can verify it; otherwise it is \
            downloaded again and then replaced. A file as long as the server's is skipped, unless \
            its checksum differs from the given one.
            """),
        .flag(
            "no-clobber", nil, in: .files, of: downloading, "skip existing files and succeed",
            "No request is sent for an existing file. It is an error if its checksum differs from the given one."),
        .flag(
            "timestamping", "N", in: .files, of: downloading, "download only files changed on the server",
            "The request contains the entity tag and date stored with the file, or the file's modification time."),
        .flag(
            "number", nil, in: .files, of: [.get], "if NAME exists, write NAME.1",
            "Like wget, uses the first free number. An interrupted download resumes under its number."),
        .flag(
            "force", "f", in: .files, of: Command.fetching.union([.storage]), "overwrite existing files",
            """
            Files are replaced only when the new files are complete. Directories, devices and pipes \
            are never overwritten. Without this option, an existing file is an error, and nothing \
            is sent for it. An interrupted download is also replaced if the server now sends another \
            type of file, such as a login page, or a shorter one; without this option, that is an error.
            """),
        .value(
            "checksum", nil, "ALGORITHM=HEX", in: .files, of: [.get], once: true,
            "verify the file: sha-256=... (one URL)",
            """
            The algorithms are md5, sha-1, sha-224, sha-256, sha-384 and sha-512. A file whose \
            checksum does not match is removed.
            """),
        .value(
            "checksum-file", nil, "FILE", completes: .file, in: .files, of: [.get], once: true,
            "verify files against a list, as from sha256sum",
            "Files are looked up by name. A file that is not listed is an error."),
        .value(
            "range", "r", "FIRST-LAST", in: .files, of: [.get], once: true, "download only these bytes: 0-499, 500-, -500",
            "The bytes are written to a separate file, which is never resumed. It is an error if the server sends others."
        ),
        .flag(
            "content-on-error", nil, in: .files, of: [.get], once: true, alias: "fail-with-body",
            "keep the body of an error response",
            """
            The body is written to the file, or printed with --output -. At least 64 KiB of it are kept. The exit \
            status still reports the error.
            """
        ),
        .value(
            "mirror", nil, "URL", in: .files, of: [.get], repeats: true, once: true,
            "another URL of the same file (one URL)",
            "The mirror is used if the URL fails. With a checksum, segments are downloaded from all mirrors concurrently."),
        .value(
            "segments", "s", "N", in: .files, of: downloading, "download a file in N concurrent parts, 1 to 64",
            "Each part is at least 1 MiB. The server must support ranges. The default is 1."),
    ]

    private static let uploads: [ToolOption] = [
        .flag(
            "tus", nil, in: .files, of: [.put], "upload by tus 1.0, without querying the server",
            "Without --tus, --draft and --plain, the protocol is detected. URL must be the one that creates uploads."),
        .flag(
            "draft", nil, in: .files, of: [.put], "upload by the IETF resumable-upload draft",
            "Uses interop version 6, or the version that the server announces."),
        .flag(
            "plain", nil, in: .files, of: [.put], "send each file in one PUT, not resumable",
            "The default for servers that support neither tus nor the draft. The file name is appended to a URL that ends in /."
        ),
        .value(
            "parallel", nil, "N", in: .files, of: [.put], "send a file in N concurrent parts (tus)",
            "1 to 64 (default: 1). Each part is at least 1 MiB. The server must be able to combine the parts."),
        .value(
            "chunk", nil, "BYTES", in: .files, of: [.put], "send at most BYTES per request: 500k, 8Mi",
            "By default, as many as the server accepts in about a second. Smaller chunks lose less if a connection breaks."),
        .value(
            "checksum", nil, "ALGORITHM[=HEX]", in: .files, of: [.put], once: true,
            "verify FILE (sha-256=...) or chunks (sha-256)",
            """
            The algorithms are md5, sha-1, sha-224, sha-256, sha-384 and sha-512. Without =HEX, the \
            server verifies each chunk with the algorithm. With =HEX, FILE (only one) is verified \
            before its last bytes are sent.
            """),
        .value(
            "resume", nil, "WHEN", completes: .oneOf(["auto", "always", "never", "strict"]), in: .files, of: uploading,
            once: true, "when to resume: auto (default), always, never, strict",
            """
            With auto, an interrupted upload is resumed, and starts over if the file has changed. It fails if the server \
            no longer has it, because it may have been completed; with always, it starts over in that case as well. With \
            never, every upload starts over. With strict, a changed file is an error, too.
            """),
        .flag(
            "no-journal", nil, in: .files, of: uploading, "keep no journal; later runs start over",
            """
            By default, the journal NAME.ID.convoyupload is stored beside the file or, if that is not possible, in \
            ~/.local/state/convoy/uploads.
            """),
        .value(
            "metadata", nil, "NAME=VALUE", in: .files, of: [.put], repeats: true, once: true,
            "send this metadata of the upload (tus)", "filename and filetype are always sent."),
    ]

    private static let speed: [ToolOption] = [
        .value("jobs", "j", "N", in: .speed, of: limited, "concurrent transfers, 1 to 256 (default: 6)"),
        .value(
            "jobs-per-host", nil, "N", in: .speed, of: Command.several, "transfers per host (default: no limit)",
            "1 to 256."),
        .value(
            "limit-rate", nil, "RATE", in: .speed, of: limited, "total bytes per second: 500k, 2M",
            "The suffixes k, M and G are powers of 1000, as in printed rates; Ki, Mi and Gi are powers of 1024."
        ),
        .value("limit-rate-each", nil, "RATE", in: .speed, of: limited, "bytes per second for each transfer"),
        .value(
            "min-rate", nil, "RATE", in: .speed, of: limited, "fail a transfer slower than this for 30 s",
            "RATE is in bytes per second, averaged over 30 s. Time spent waiting for --limit-rate does not count."),
        .value(
            "wait", nil, "SECONDS", in: .speed, of: Command.several, "seconds between starts per host: 2, or 2-5",
            "With a range, the delay is random. Skipped files do not count."),
        .value(
            "retry", nil, "N", in: .speed, of: retrying, "retry N times, 0 to 1000 (default: 3)",
            """
            After a temporary error: a timeout, a lost connection, or the status 408, 429, 500, \
            502, 503 or 504; if N is given, also if the host cannot be found or connected to. The \
            delays grow from half a second to a minute, and Retry-After is respected. A request \
            that the server may have processed is retried only if repeating it is safe.
            """),
        .value("retry-on", nil, "STATUS", in: .speed, of: retrying, repeats: true, "also retry after this status: 404,409"),
        .value("retry-max-time", nil, "SECONDS", in: .speed, of: Command.several, "start no retry after this time"),
        .value("max-time", "m", "SECONDS", in: .speed, "total timeout of each, including retries"),
        .value("connect-timeout", nil, "SECONDS", in: .speed, "timeout for connecting"),
        .value(
            "timeout", nil, "SECONDS", in: .speed, of: retrying, "timeout without data (default: 60)", "0 disables it."),
        .value(
            "read-timeout", nil, "SECONDS", in: .speed, of: [.events], "reconnect after this time without data",
            "For servers that send comments regularly, so that silence means a lost connection. No limit by default."),
    ]

    private static let requests: [ToolOption] = [
        .value(
            "header", "H", "'NAME: VALUE'", in: .requests, of: withHeaders, repeats: true, "send this header",
            "Values of one name are combined. After a redirect to another origin, only Accept and User-Agent are sent."),
        .value(
            "user-agent", "A", "TEXT", in: .requests, of: withHeaders,
            "send this User-Agent; overrides --header"),
        .value(
            "cookie-jar", nil, "FILE", completes: .file, in: .requests, of: withLogins,
            "read cookies from FILE and write them back",
            "FILE has the Netscape format of curl and wget. Without this option, cookies last for one run."),
        .value(
            "user", "u", "USER[:PASSWORD]", in: .requests, of: withLogins, once: true, "log in when the server requests it",
            """
            By Basic, Digest or NTLM. Without the password, Convoy prompts for it at the terminal; \
            a lone : uses Kerberos tickets. All URLs must be on one server; after a redirect to \
            another server, the login is not sent.
            """),
        .value(
            "last-id", nil, "ID", in: .requests, of: [.events], once: true, "resume after the event with this id",
            "Works if the server stores its events. The ID is sent as Last-Event-ID. --json prints the ID of each event."),
        .flag(
            "netrc", "n", in: .requests, of: withLogins, "read logins from ~/.netrc",
            "The environment variable NETRC overrides the path."),
        .value("netrc-file", nil, "FILE", completes: .file, in: .requests, of: withLogins, "read logins from FILE"),
    ]

    private static let network: [ToolOption] = [
        .value(
            "proxy", "x", "URL", in: .network, "use this proxy, or \"\" for none",
            """
            Overrides the environment (https_proxy, no_proxy ...): http://, https://, socks5h:// \
            (the proxy resolves names) or socks5://, with USER:PASSWORD@ if required.
            """),
        .value(
            "noproxy", nil, "LIST", in: .network, "hosts to contact directly; * for all",
            "Names, addresses and networks, separated by commas. Overrides the variable no_proxy."),
        .value(
            "resolve", nil, "HOST:PORT:ADDRESS", in: .network, repeats: true, "connect to ADDRESS for this host and port"),
        .value("unix-socket", nil, "PATH", completes: .file, in: .network, "connect to this Unix socket for every host"),
        .value(
            "connect-to", nil, "HOST:PORT:HOST2:PORT2", in: .network, repeats: true,
            "connect to HOST2 instead of HOST; all but HOST2 may be empty",
            "The Host header and TLS still use HOST. An empty HOST matches all hosts, and an empty PORT2 keeps the port."),
        .flag("ipv4", "4", in: .network, "connect to IPv4 addresses only"),
        .flag("ipv6", "6", in: .network, "connect to IPv6 addresses only"),
        .flag("http1.1", nil, in: .network, "do not use HTTP/2"),
        .flag(
            "http1.0", "0", in: .network, "use HTTP/1.0",
            "Each request has a connection of its own. A body of unknown length cannot be sent."),
        .flag(
            "path-as-is", nil, in: .network, of: [.get, .send], "do not resolve /./ and /../ in paths",
            "By default, they are resolved. Those of a redirect are always resolved."),
        .value(
            "interface", nil, "NAME|ADDRESS", in: .network, "use this source interface or address",
            "Binding to an interface by name requires root or CAP_NET_RAW."),
        .value(
            "max-redirs", nil, "N", in: .network, "follow at most N redirects (default: 20)",
            "With 0, the redirect itself is the response."),
    ]

    private static let trust: [ToolOption] = [
        .value(
            "cacert", nil, "PATH", completes: .file, in: .trust,
            "trust these certificates, not the system's", "A PEM file, or a directory of PEM files."),
        .value(
            "crl-file", nil, "FILE", completes: .file, in: .trust, repeats: true,
            "reject certificates revoked by the lists in FILE",
            """
            Certificate revocation lists in PEM or DER: one for each authority between the server \
            and its root, and one for the root. A server is also rejected if one of its \
            authorities has no valid list.
            """),
        .value("pin", nil, "sha256/HASH", in: .trust, repeats: true, "trust only servers whose chain has this public key"),
        .value(
            "cert", nil, "FILE", completes: .file, in: .trust, "present this certificate, PEM or PKCS#12 (.p12, .pfx)",
            "If its key is encrypted, Convoy prompts for the passphrase at the terminal."),
        .value("key", nil, "FILE", completes: .file, in: .trust, "the private key of --cert, if in another file"),
        .value(
            "tls-min", nil, "VERSION", completes: .oneOf(["1.2", "1.3"]), in: .trust,
            "reject older versions of TLS (default: 1.2)"),
        .value(
            "hsts", nil, "FILE", completes: .file, in: .trust, "remember in FILE which hosts require HTTPS",
            """
            An http URL is fetched over https if its host has required that before (RFC 6797). \
            Convoy adds such hosts to the file, and creates it if needed. Without this option, \
            nothing is remembered.
            """),
        .flag(
            "insecure", "k", in: .trust, "accept any certificate: traffic can be intercepted",
            "With --pin, only the public key is checked."),
    ]

    private static let output: [ToolOption] = [
        .value(
            "type", "t", "TYPE", in: .output, of: [.events], repeats: true, once: true, "print only events of this type",
            "Events without a type count as \"message\"."),
        .value(
            "count", "c", "N", in: .output, of: [.events], once: true, "exit with success after N events",
            "Events that --type excludes do not count."),
        .flag(
            "head", "I", in: .output, of: [.get], once: true, alias: "spider", "print response heads, download nothing",
            "Sends HEAD requests and follows redirects."),
        .flag(
            "include", nil, in: .output, of: [.get], once: true, "print the head before the body, with --output -"),
        .flag("quiet", "q", in: .output, of: Command.transferring.union([.queue]), "print only errors"),
        .flag(
            "verbose", "v", in: .output, "print what is sent and received to standard error",
            "Omits passwords, cookies and tokens, and prints only the sizes of bodies. Waits are printed as well."),
        .flag(
            "show-secrets", nil, in: .output, of: Command.transferring.union([.importing]), once: true,
            "also print passwords, cookies and tokens",
            "Applies to URLs, heads and errors, with --json, --verbose, --dry-run, --har and import. Warns on a terminal."),
        .flag(
            "timing", nil, in: .output, of: Command.several.subtracting([.storage]),
            "print DNS, connection, TLS and response times",
            "Times are in seconds from the start: name resolved, connected, TLS established, first byte, total."),
        .value(
            "har", nil, "FILE", completes: .file, in: .output, of: Command.transferring.subtracting([.work]), once: true,
            "write all requests to FILE as an HTTP Archive",
            "HAR 1.2, as saved by browsers, without passwords, cookies, tokens and bodies."),
        .flag(
            "json", nil, in: .output, of: Command.transferring.union([.queue]),
            "print one line of JSON each to standard output",
            """
            All other text goes to standard error. The keys are url (as given, without secrets), \
            status, bytes, file, sha256, seconds, error and errorCode; also id with run, upload \
            with put, outcome with get, list and line for a URL of a list, and timing with \
            --timing. With s3 list, the keys are url, bytes, entityTag and modified. With events, each event is a line \
            with the keys type, data and id.
            """),
        .value(
            "progress", nil, "STYLE", completes: .oneOf(["auto", "bar", "plain", "none"]), in: .output, of: Command.several,
            "STYLE is auto (default), bar, plain (lines) or none",
            "With auto, bars appear only on a terminal. With plain, a line is printed every few seconds."),
        .value(
            "color", nil, "WHEN", completes: .oneOf(["auto", "always", "never"]), in: .output,
            "WHEN is auto (default), always or never",
            "With auto, output on a terminal is in color, unless the variable NO_COLOR is set."),
        .flag(
            "dry-run", nil, in: .output, of: Command.fetching, once: true, "print the requests without sending them",
            "Only the first request of each transfer is printed, as later ones depend on responses."),
        .flag(
            "dry-run", nil, in: .output, of: [.storage], once: true, "sync, remove: print what would be done",
            "Nothing is changed. Objects are listed."),
        .flag("no-config", nil, in: .output, once: true, "ignore the configuration"),
        .flag(
            "help", "h", in: .output, of: Set(Command.allCases), once: true, "print the help",
            "With a topic, prints only the help for that topic."),
    ]
}
