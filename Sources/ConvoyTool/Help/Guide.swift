/// Help pages that do not describe options: mostly file formats.
enum Guide: String, CaseIterable, Sendable {
    case lists, manifest, keys, syntax, filters, service, config

    /// The commands whose help includes the page.
    var commands: Set<Command> {
        switch self {
        case .lists: [.get]
        case .manifest, .keys, .syntax, .filters: [.run]
        case .service: [.work]
        case .config: Command.transferring
        }
    }

    /// A short description, for the help.
    var title: String {
        switch self {
        case .lists: "the format of --input-file"
        case .manifest: "the format of manifests"
        case .keys: "the keys of manifests"
        case .syntax: "expressions in manifests"
        case .filters: "filters of expressions"
        case .service: "a systemd unit"
        case .config: "~/.config/convoy/config.json"
        }
    }

    /// The first line of the page.
    private var usage: String {
        switch self {
        case .lists: "Usage: convoy get -i LIST"
        case .manifest, .keys, .syntax, .filters: Help.usage(of: .run)
        case .service: Help.usage(of: .work)
        case .config: "Usage: convoy get|put|run [--no-config] ..."
        }
    }

    /// The help page.
    var page: [String] {
        var lines = [usage]
        for part in parts {
            lines.append("")
            switch part {
            case .text(let text): lines += HelpLayout.wrapped(text)
            case .example(let example): lines += example.map { $0.isEmpty ? "" : "  \($0)" }
            }
        }
        return lines
    }

    /// A part of a page.
    enum Part: Sendable {
        case text(String)
        /// Lines that are printed unchanged.
        case example([String])
    }

    /// The contents, for the help and the manual page.
    var parts: [Part] {
        switch self {
        case .lists: Self.listParts
        case .manifest: Self.manifestParts
        case .keys: Self.keyParts
        case .syntax: Self.syntaxParts
        case .filters: Self.filterParts
        case .service: Self.serviceParts
        case .config: Self.configurationParts
        }
    }
}

extension Guide {
    private static let listParts: [Part] = [
        .text(
            """
            Each line is a URL, or several URLs of the same file separated by tabs: the first, then its mirrors. Lines \
            below it that begin with a space or a tab apply to this file, as in aria2. Lines that begin with # are \
            comments.
            """),
        .example([
            "# Two pictures",
            "https://example.com/cat.png",
            "  out=animals/cat.png",
            "  checksum=sha-1=2aae6c35c94fcfb415dbe95f408b9ce91ee846ed",
            "https://example.com/dog.png",
            "  header=Accept: image/png",
        ]),
        .text(
            """
            out=PATH sets the file name, relative to the directory; dir=DIR the directory; checksum=ALGORITHM=HEX verifies \
            the file; header=NAME: VALUE adds a header, and may be repeated; split=N downloads N parts concurrently.
            """),
        .text("A Metalink file (RFC 5854), which contains names, mirrors and checksums, is accepted instead of a list."),
    ]

    private static let manifestParts: [Part] = [
        .example([
            "baseURL: https://api.example.com/v1/",
            "requests:",
            "  login:",
            "    post: login",
            "    json: {user: ada, password: \"${env.PASSWORD}\"}",
            "    capture: {token: \"json:/token\"}",
            "  report:",
            "    get: report.pdf",
            "    bearer: ${login.token}",
            "    output: report.pdf",
        ]),
        .text(
            """
            The format is YAML or JSON. A value of another request, such as ${login.token}, makes a request wait for it; \
            after: [ID] does so without a value. Without when, a request is sent only if all requests it depends on \
            succeeded.
            """),
        .text(
            """
            convoy help run keys lists the keys. A JSON manifest whose requests are a list, with id, url, \
            method, headers, parameters, dependsOn and output, is also accepted; its requests cannot pass values.
            """),
    ]

    private static let keyParts: [Part] = [
        .text("Keys marked with ... take a mapping. The article Workflows describes all keys."),
        .example([
            "manifest  version, include, baseURL, variables..., secrets, secrets-for,",
            "          requests..., defaults...",
            "defaults  jobs, cookies..., cookie-jar, hsts, and keys of requests:",
            "          headers..., bearer, basic..., timeout, delay, retry, onFailure,",
            "          perHost, perSecond, connection",
            "request   get, head, post, put, patch, delete: the URL; or method and url",
            "          query..., headers..., and as the body json, form..., multipart...,",
            "          text or file; bearer, basic... {user, password}; expect..., tags,",
            "          capture..., output, timeout, delay, retry {count, on, maxTime}",
            "order     after, when, onFailure, forEach, parallel, perHost, perSecond,",
            "          poll {until, every, for, backoff}, follow, pages,",
            "          events {type, matches, json, for}",
            "expect    status, type, header..., json..., bytes, minBytes, maxBytes,",
            "          checksum, sha256, md5, maxTime; or a list of expressions",
            "connection  proxy, noproxy, resolve..., connect-to..., aws-sigv4, netrc-file,",
            "          interface, ipv4, ipv6, http1.0, http1.1, max-redirs, path-as-is,",
            "          location-trusted, user, cacert, crl-file, pin, cert, key, tls-min,",
            "          insecure, unix-socket, connect-timeout, max-time, limit-rate,",
            "          limit-rate-each, min-rate",
        ]),
    ]

    private static let syntaxParts: [Part] = [
        .text("expect takes a list of expressions, when and until take one, and ${...} inserts the value of one."),
        .example([
            "response   status, headers.NAME, headers(\"NAME\") as a list, body, bytes, url,",
            "           cookies.NAME, cookies.NAME.ATTRIBUTE, json.PATH, json[0][\"a b\"],",
            "           jsonpath(\"$..id\"), xpath(\"//a\"), redirects (a list of status, url",
            "           and location), version, ip, duration (seconds), sha256, md5",
            "manifest   NAME, ID.CAPTURE, env.NAME, item, index; or in ${...}, if a value",
            "           of the response has the same name",
            "constant   1.5, \"text\", 'it''s', true, false, null, [1, 2], {a: 1}",
            "compare    == != < <= > >= in contains startsWith endsWith matches",
            "test       exists isEmpty isNumber isInteger isFloat isString isBoolean",
            "           isNull isList isObject isBytes isDate isUUID isIPv4 isIPv6 isURL",
            "combine    and, or, not, ( ), x not contains y, x not exists",
            "function   any(LIST), all(LIST), always(), uuid(), now(), random(MIN, MAX),",
            "           env(NAME, DEFAULT), file(PATH), hex(\"00ff\")",
        ]),
        .text(
            """
            No test holds for a missing value, except not exists. Strings are compared by code points. See convoy help run \
            filters.
            """),
    ]

    private static let filterParts: [Part] = [
        .text("VALUE | FILTER changes a value and binds more tightly than comparisons: json.tags | count > 2."),
        .example([
            "list     count, first, last, nth(N), sort, unique, map(EXPRESSION with it)",
            "string   count, split(X), replace(A, B), regex(R), regex(R, GROUP), lower,",
            "         upper, trim",
            "type     toInt, toFloat, toString, parseJSON",
            "code     base64, base64Decode, toHex, urlEncode, urlDecode, htmlUnescape,",
            "         decode(CHARSET)",
            "date     date, date(FORMAT), format(FORMAT), daysFromNow",
            "query    jsonpath(PATH), xpath(PATH)",
            "",
            "json.items | map(it.price | toFloat) | sort | last < 100",
            "headers.Expires | date | daysFromNow >= 30",
        ]),
        .text(
            """
            nth(-1) is the last element. regex returns its first group, or the match if it has none. FORMAT is that of \
            strftime, in UTC. Without it, date reads RFC 3339, HTTP dates and seconds since 1970. A missing value stays \
            missing.
            """),
    ]

    private static let serviceParts: [Part] = [
        .text(
            "Save as /etc/systemd/system/convoy.service, or convoy@.service for several workers. SIGTERM drains a worker:"
        ),
        .example([
            "[Service]",
            "ExecStart=/usr/local/bin/convoy work --store postgresql://queue@db/jobs",
            "Environment=PGPASSFILE=%d/pgpass",
            "LoadCredential=pgpass:/etc/convoy/pgpass",
            "DynamicUser=yes",
            "Restart=always",
            "TimeoutStopSec=90",
            "",
            "[Install]",
            "WantedBy=multi-user.target",
        ]),
        .text(
            """
            After TimeoutStopSec, systemd kills the worker; other workers take over its entries when its leases expire. For \
            a file as the store, use StateDirectory=convoy and --store /var/lib/convoy/queue.sqlite.
            """),
    ]

    private static var configurationParts: [Part] {
        let left = OptionTable.all.filter {
            !$0.isConfigurable && $0.topic != .workflow && !$0.commands.isDisjoint(with: Command.transferring)
        }
        var seen: Set<String> = []
        let names = left.filter { seen.insert($0.name).inserted }.map { "--\($0.name)" }.joined(separator: ", ")
        return [
            .text(
                """
                ~/.config/convoy/config.json sets default options of the commands that send requests. If XDG_CONFIG_HOME is \
                an absolute path, $XDG_CONFIG_HOME/convoy/config.json is read instead. The keys are the long option names:
                """),
            .example([
                #"{"directory": "~/Downloads", "no-clobber": true, "jobs": 4,"#,
                #" "resolve": ["example.com:443:192.0.2.1"]}"#,
            ]),
            .text(
                """
                true sets a flag; false and null leave it unset. Options that may be given several times take a string or \
                an array of strings. Paths may begin with ~/. The command line overrides the configuration; --no-config \
                ignores it.
                """),
            .text(
                "These options apply to a single run and cannot be configured: \(names), and those of the topic workflow."
            ),
            .text(
                "The file must belong to you or to root and must not be writable by others, as it can disable certificate checks."
            ),
        ]
    }
}
