/// All options of all commands. The parser, the help, the completions, the manual page and the configuration are made
/// from this table.
enum OptionTable {
    static let all = workflow + queue + entries + files + uploads + speed + requests + network + trust + output

    /// The options of a command, in the order of the help.
    static func options(of command: Command) -> [ToolOption] { all.filter { $0.commands.contains(command) } }

    /// Options of which a later one takes the place of an earlier one in the configuration, and of which the command line
    /// has one at most.
    static let alternatives: [Set<String>] = [
        ["continue", "no-clobber", "timestamping", "force", "number"], ["insecure", "cacert"], ["ipv4", "ipv6"],
        ["insecure", "crl-file"], ["quiet", "verbose"], ["keep-going", "fail-fast"],
        ["output", "remote-header-name"], ["tus", "draft", "plain"],
    ]

    /// What an option takes the place of.
    static func alternatives(to name: String) -> Set<String> {
        Set(alternatives.filter { $0.contains(name) }.joined()).subtracting([name])
    }

    /// The commands with limits of jobs and rates.
    private static let limited = Command.several.union([.work])
    private static let withHeaders: Set<Command> = [.get, .put, .send, .events, .work, .queue]

    private static let workflow: [ToolOption] = [
        .value(
            "var", nil, "NAME=VALUE", in: .workflow, of: [.run, .check], repeats: true, once: true,
            "the value of a variable of the manifest", "It wins over a column of --data."),
        .value(
            "env-file", nil, "FILE", completes: .file, in: .workflow, of: [.run, .check], repeats: true, once: true,
            "take variables of the environment from FILE",
            """
            A line has NAME=VALUE, with or without export, quotes, and a comment behind a space and a #, as in files of \
            dotenv. They win over those that are there.
            """),
        .value(
            "only", nil, "ID", in: .workflow, of: [.run], repeats: true, once: true,
            "run this request, and those that it needs", "Several may have commas between them."),
        .flag(
            "keep-going", nil, in: .workflow, of: [.run], once: true, "after a failure, run all that can be run (default)"),
        .flag(
            "fail-fast", nil, in: .workflow, of: [.run], once: true, "after a failure, begin nothing more",
            "But requests with a when, such as always(), are run. What onFailure says in the manifest wins."),
        .flag(
            "resume", nil, in: .workflow, of: [.run], once: true, "do not send again what has succeeded before",
            """
            If it would be sent with the same values, and its file is as it was left. A request is sent again if another \
            one needs a secret that it captures, as secrets are not in the journal.
            """),
        .value(
            "data", nil, "FILE.csv", completes: .file, in: .workflow, of: [.run], once: true,
            "run once for each row; the first row names variables",
            "One after the other. Reports and the journal of a row have its number in their names: report-2.xml."),
        .value(
            "graph", nil, "FORMAT", completes: .oneOf(["dot", "mermaid"]), in: .workflow, of: [.run], once: true,
            "print what depends on what, and send nothing"),
        .value(
            "report", nil, "junit=FILE|tap", in: .workflow, of: [.run], repeats: true, once: true,
            "write a report as JUnit's XML, or print one as TAP",
            "FILE may be a pipe, a device, or - for standard output."),
        .value(
            "timeline", nil, "FILE.html", completes: .file, in: .workflow, of: [.run], once: true,
            "write a page with the graph and a waterfall",
            "FILE may be a pipe, a device, or - for standard output."),
        .flag("form", nil, in: .workflow, of: [.send], once: true, "send the items as a form, not as JSON"),
        .flag(
            "multipart", nil, in: .workflow, of: [.send], once: true, "send the items as a form with parts",
            "NAME@FILE is a part with a file."),
        .value(
            "body", nil, "FILE", completes: .file, in: .workflow, of: [.send], once: true,
            "send FILE as the body, or - for standard input",
            "Its bytes as they are, with the media type of its name. FILE may be a pipe."),
        .flag("head", nil, in: .workflow, of: [.send], once: true, "print the head of the response, and not its body"),
        .value(
            "expect", nil, "KEY=VALUE", in: .workflow, of: [.send], repeats: true, once: true,
            "fail unless the response is so: status=200",
            "The keys of expect in a manifest that take one value: status, type, bytes, minBytes, maxBytes, sha256, maxTime."
        ),
        .value(
            "capture", nil, "NAME=SOURCE", in: .workflow, of: [.send], repeats: true, once: true,
            "print this value only: token=json:/token",
            "The sources are those of a manifest. Of several, each is a line NAME=VALUE that a shell can read."),
        .value(
            "save", nil, "FILE.yaml", completes: .file, in: .workflow, of: [.send], once: true,
            "add the request to a manifest, and make it if need be"),
        .flag("curl", nil, in: .workflow, of: [.send], once: true, "print a curl command in place of sending"),
    ]

    private static let files: [ToolOption] = [
        .value(
            "output", "o", "FILE", completes: .file, in: .files, of: [.get], once: true,
            "write to FILE, - for standard output (one URL)",
            "Without it, a file has the last part of the URL's path for its name, or index.html."),
        .value(
            "directory", "d", "DIR", completes: .directory, in: .files, of: Command.fetching,
            "put files into DIR, and make it if need be",
            "The directory of the outputs of a manifest, and of files without a directory of their own in a list."),
        .value(
            "input-file", "i", "FILE", completes: .file, in: .files, of: [.get], repeats: true, once: true,
            "get the URLs in a list, or - for standard input",
            """
            A line of a list has a URL, or several of the same file with tabs between them. Lines below it that begin \
            with a space or a tab are about it: out=NAME, dir=DIR, checksum=ALGORITHM=HEX, header=NAME: VALUE and \
            split=SEGMENTS, as aria2 has them. Empty lines, and those that begin with #, count for nothing. A Metalink may \
            be in the place of a list.
            """),
        .flag(
            "remote-header-name", "J", in: .files, of: [.get], "take names from Content-Disposition",
            "What a server says is made safe: the name stays in the directory, is visible, and has no control characters."),
        .flag(
            "continue", "c", in: .files, of: [.get], "go on with files that are there and not whole",
            """
            Also with those of another program. A file that is shorter than the server's is continued where a checksum, \
            given or told by the server, can prove it, and otherwise fetched anew and then replaced. One that is as long as \
            the server's is skipped, unless it has another checksum than it was given.
            """),
        .flag(
            "no-clobber", nil, in: .files, of: [.get], "skip files that are there, and succeed",
            "Nothing is sent for them. One that has another checksum than it was given is an error."),
        .flag(
            "timestamping", "N", in: .files, of: [.get], "get a file that is there only if it has changed",
            "The server is asked with the entity tag and the date that were stored with the file, or its time."),
        .flag(
            "number", nil, in: .files, of: [.get], "if NAME is there, write NAME.1",
            "Or the first number that no file has, as wget has it. An interrupted download goes on under its number."),
        .flag(
            "force", "f", in: .files, of: Command.fetching, "replace files that are there",
            """
            When the new ones are whole. Directories, devices and pipes are never replaced. Without it, a file that is there is an error, and nothing \
            is sent for it.
            """),
        .value(
            "checksum", nil, "ALGORITHM=HEX", in: .files, of: [.get], once: true,
            "what the file must be: sha-256=... (one URL)",
            "The algorithms are md5, sha-1, sha-256 and sha-512. A file with another checksum is removed."),
        .value(
            "checksum-file", nil, "FILE", completes: .file, in: .files, of: [.get], once: true,
            "the checksums of the files, as of sha256sum",
            "Files are found in it by their names; a file that is not in it is an error."),
        .value(
            "range", "r", "FIRST-LAST", in: .files, of: [.get], once: true, "get only these bytes: 0-499, 500-, -500",
            "Into a file of its own, which is not continued. A server that sends something else is an error."),
        .flag(
            "content-on-error", nil, in: .files, of: [.get], once: true, alias: "fail-with-body",
            "keep the body of an error, too",
            "As the file, or printed with --output -. The status is still that of an error. The first 64 KiB of it at least."
        ),
        .value(
            "mirror", nil, "URL", in: .files, of: [.get], repeats: true, once: true,
            "another place of the same file (one URL)",
            "It is asked when the URL fails. With a checksum, segments come from all of them at a time."),
        .value(
            "segments", "s", "N", in: .files, of: [.get], "get a file in N parts at a time, 1 to 64",
            "Where the server allows ranges, and a part has at least 1 MiB. 1 by default."),
    ]

    private static let uploads: [ToolOption] = [
        .flag(
            "tus", nil, in: .files, of: [.put], "upload by tus 1.0, whatever the server says that it knows",
            "Without it, and without --draft and --plain, the server is asked. The URL is the one that creates uploads."),
        .flag(
            "draft", nil, in: .files, of: [.put], "upload by the IETF's draft of resumable uploads",
            "In its interop version 6, or the one that the server names."),
        .flag(
            "plain", nil, in: .files, of: [.put], "send each file by one PUT, which starts over after a failure",
            "So it is with a server that knows neither tus nor the draft. Behind a URL that ends in / comes the file's name."
        ),
        .value(
            "parallel", nil, "N", in: .files, of: [.put], "send a file in N parts at a time, 1 to 64 (tus)",
            "Where the server can combine them, and a part has at least 1 MiB. 1 by default."),
        .value(
            "chunk", nil, "BYTES", in: .files, of: [.put], "send at most so many bytes in a request: 500k, 8Mi",
            "By default, as many as the server takes in about a second. With less, a lost connection costs less."),
        .value(
            "checksum", nil, "ALGORITHM[=HEX]", in: .files, of: [.put], once: true,
            "what FILE must be: sha-256=..., or how chunks are checked",
            """
            The algorithms are md5, sha-1, sha-256 and sha-512. Without =HEX, the server checks each chunk by it. With =HEX, it \
            is what the file must be (one FILE), which is found out before its last bytes are sent.
            """),
        .value(
            "resume", nil, "WHEN", completes: .oneOf(["auto", "always", "never"]), in: .files, of: [.put], once: true,
            "WHEN is auto (default), always or never",
            """
            With auto, an upload that an earlier run has left goes on, and is an error where the server does not have it any \
            more. With always, that begins anew. With never, each begins anew.
            """),
        .value(
            "metadata", nil, "NAME=VALUE", in: .files, of: [.put], repeats: true, once: true,
            "tell the server this of the upload (tus)", "A filename and a filetype are told without it."),
    ]

    private static let speed: [ToolOption] = [
        .value("jobs", "j", "N", in: .speed, of: limited, "transfers at a time, 1 to 256 (default: 6)"),
        .value(
            "jobs-per-host", nil, "N", in: .speed, of: Command.several, "at a time from one host (default: no limit)",
            "1 to 256."),
        .value(
            "limit-rate", nil, "RATE", in: .speed, of: limited, "bytes a second for all together: 500k, 2M",
            "The letters k, M and G stand for powers of 1000, as in the rates that are printed; Ki, Mi and Gi for powers of 1024."
        ),
        .value("limit-rate-each", nil, "RATE", in: .speed, of: limited, "bytes a second for each of them"),
        .value(
            "min-rate", nil, "RATE", in: .speed, of: limited, "give up one that is slower for half a minute",
            "Bytes a second, on the average of 30 s. Time in which --limit-rate holds a transfer back does not count."),
        .value(
            "wait", nil, "SECONDS", in: .speed, of: Command.several, "between two starts at one host: 2, or 2-5 at random",
            "Skipped files do not count."),
        .value(
            "retry", nil, "N", in: .speed, of: [.get, .put, .run, .send], "try again N times (default: 3), 0 to 1000",
            """
            After an error that may pass: a timeout, a lost connection, or the status 408, 429, 500, 502, 503 or 504; with \
            a number also if the host cannot be found or connected to. The waits grow from half a second to a minute, and \
            Retry-After is respected. Requests that may have been carried out are repeated only if that does no harm.
            """),
        .value(
            "retry-on", nil, "STATUS", in: .speed, of: [.get, .put, .run, .send], repeats: true,
            "try again after this status, too: 404,409"),
        .value("retry-max-time", nil, "SECONDS", in: .speed, of: Command.several, "begin no other try after this time"),
        .value("max-time", "m", "SECONDS", in: .speed, "longest time of each, with all its tries"),
        .value("connect-timeout", nil, "SECONDS", in: .speed, "longest time until there is a connection"),
        .value(
            "timeout", nil, "SECONDS", in: .speed, of: [.get, .put, .run, .send],
            "longest time without a byte (default: 60)",
            "0 stands for no end."),
        .value(
            "read-timeout", nil, "SECONDS", in: .speed, of: [.events], "connect again after this time without a byte",
            "For servers that send a comment now and then, so that silence is a lost connection. No limit by default."),
    ]

    private static let requests: [ToolOption] = [
        .value(
            "header", "H", "'NAME: VALUE'", in: .requests, of: withHeaders, repeats: true, "send this header",
            "Values of the same name are joined. On a redirect to another origin only Accept and User-Agent are kept."),
        .value(
            "user-agent", "A", "TEXT", in: .requests, of: withHeaders,
            "send this User-Agent; overrides --header"),
        .value(
            "cookie-jar", nil, "FILE", completes: .file, in: .requests,
            "read cookies from FILE, and write them back",
            "In Netscape's format, which curl and wget have, too. Without it, cookies are kept as long as the run lasts."),
        .value(
            "user", "u", "USER[:PASSWORD]", in: .requests, once: true, "answer with this login when the server asks",
            """
            By Basic, Digest or NTLM. Without the password it is asked for at the terminal, and a lone : stands for the \
            tickets of Kerberos. All URLs must be of one server; a redirect to another leaves it behind.
            """),
        .value(
            "last-id", nil, "ID", in: .requests, of: [.events], once: true, "go on after the event that had this id",
            "Where the server keeps its events. With --json each event has its id; sent as Last-Event-ID."),
        .flag("netrc", "n", in: .requests, "take logins from ~/.netrc", "Or from the file that the variable NETRC names."),
        .value("netrc-file", nil, "FILE", completes: .file, in: .requests, "take logins from FILE"),
    ]

    private static let network: [ToolOption] = [
        .value(
            "proxy", "x", "URL", in: .network, "use this proxy, or none: \"\"",
            """
            In place of the environment's (https_proxy, no_proxy ...): http://, https://, socks5h:// (it looks names up) or \
            socks5://, with USER:PASSWORD@ if it asks.
            """),
        .value(
            "noproxy", nil, "LIST", in: .network, "hosts that no proxy is for; * for all",
            "Names, addresses and networks, with commas between them. In place of the variable no_proxy."),
        .value(
            "resolve", nil, "HOST:PORT:ADDRESS", in: .network, repeats: true, "connect to ADDRESS for this host and port"),
        .value("unix-socket", nil, "PATH", completes: .file, in: .network, "connect to this Unix socket for every host"),
        .value(
            "connect-to", nil, "HOST:PORT:HOST2:PORT2", in: .network, repeats: true,
            "connect to HOST2 for HOST; all but HOST2 may be empty",
            "Host and TLS still say HOST. Without HOST it is for all, and without PORT2 the port stays."),
        .flag("ipv4", "4", in: .network, "connect to IPv4 addresses only"),
        .flag("ipv6", "6", in: .network, "connect to IPv6 addresses only"),
        .flag("http1.1", nil, in: .network, "do not use HTTP/2"),
        .value(
            "interface", nil, "NAME|ADDRESS", in: .network, "connect from this interface, or address",
            "The name of an interface needs the right to bind to one, as root has it."),
        .value(
            "max-redirs", nil, "N", in: .network, "follow at most N redirects (default: 20)",
            "With 0, a redirect is the response."),
    ]

    private static let trust: [ToolOption] = [
        .value(
            "cacert", nil, "PATH", completes: .file, in: .trust,
            "trust these certificates, not the system's", "A file in PEM, or a directory of such files."),
        .value(
            "crl-file", nil, "FILE", completes: .file, in: .trust, repeats: true,
            "refuse certificates that the lists in FILE revoke",
            """
            Certificate revocation lists, in PEM or DER: one of each authority between the server and its root, and of the \
            root. A server is refused, too, for whose authorities there is none that is valid.
            """),
        .value("pin", nil, "sha256/HASH", in: .trust, repeats: true, "trust only servers whose chain has this public key"),
        .value(
            "cert", nil, "FILE", completes: .file, in: .trust, "present this certificate, PEM or PKCS#12 (.p12, .pfx)",
            "If its key is encrypted, the passphrase is asked for at the terminal."),
        .value("key", nil, "FILE", completes: .file, in: .trust, "the private key of --cert, if it is in another file"),
        .value(
            "tls-min", nil, "VERSION", completes: .oneOf(["1.2", "1.3"]), in: .trust,
            "refuse older versions of TLS (default: 1.2)"),
        .value(
            "hsts", nil, "FILE", completes: .file, in: .trust, "keep in FILE which servers want TLS only",
            """
            A URL of http is fetched over https if its host has said so (RFC 6797), and the file has what hosts say. It is \
            made if it is missing. Without it, nothing is kept.
            """),
        .flag(
            "insecure", "k", in: .trust, "trust any certificate: anybody can read and change all",
            "With --pin only the key counts."),
    ]

    private static let output: [ToolOption] = [
        .value(
            "type", "t", "TYPE", in: .output, of: [.events], repeats: true, once: true, "print only events of this type",
            "Those without a type of their own are of the type message."),
        .value(
            "count", "c", "N", in: .output, of: [.events], once: true, "end with success after N events",
            "Those that --type leaves out do not count."),
        .flag(
            "head", "I", in: .output, of: [.get], once: true, alias: "spider", "print the heads of responses, get no files",
            "Of HEAD requests, after redirects."),
        .flag(
            "include", nil, in: .output, of: [.get], once: true, "print the head before the body, with --output -"),
        .flag("quiet", "q", in: .output, of: Command.transferring.union([.queue]), "print only errors"),
        .flag(
            "verbose", "v", in: .output, "tell what is sent and received, on standard error",
            "Without passwords, cookies and tokens, and of bodies only the sizes; and what it waits for."),
        .flag(
            "show-secrets", nil, in: .output, once: true, "print passwords, cookies and tokens, too",
            "In URLs, heads and errors, with --json, --verbose, --dry-run and --har. On a terminal it is warned of."),
        .flag(
            "timing", nil, in: .output, of: Command.several, "tell how long names, connections, TLS and answers took",
            "In seconds from its start: the name found, connected, TLS agreed on, the first byte, all."),
        .value(
            "har", nil, "FILE", completes: .file, in: .output, of: Command.transferring.subtracting([.work]), once: true,
            "write all requests to FILE as an HTTP Archive",
            "HAR 1.2, as browsers show and save it, without passwords, cookies and tokens, and without the bodies."),
        .flag(
            "json", nil, in: .output, of: Command.transferring.union([.queue]),
            "print a line of JSON for each on standard output",
            """
            With all other text on standard error. The keys are url, as it was given but for secrets, status, bytes, file, \
            sha256, seconds, error and errorCode; id with run, upload with put, outcome with get, list and line for a URL of a list, and timing \
            with --timing. With events each event has a line, with the \
            keys type, data and id.
            """),
        .value(
            "progress", nil, "STYLE", completes: .oneOf(["auto", "bar", "plain", "none"]), in: .output, of: Command.several,
            "STYLE is auto (default), bar, plain (lines) or none",
            "With auto there are bars on a terminal, and nothing elsewhere; plain prints a line every few seconds."),
        .value(
            "color", nil, "WHEN", completes: .oneOf(["auto", "always", "never"]), in: .output,
            "WHEN is auto (default), always or never",
            "With auto there is color on a terminal, unless the variable NO_COLOR is set."),
        .flag(
            "dry-run", nil, in: .output, of: Command.fetching, once: true, "print the requests, but send none",
            "As they would be sent first: what a server answers is not known."),
        .flag("no-config", nil, in: .output, once: true, "leave the configuration alone"),
        .flag(
            "help", "h", in: .output, of: Set(Command.allCases), once: true, "print the help",
            "That of a topic, if its name follows."),
    ]
}
