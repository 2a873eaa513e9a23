/// What has a page of help, but is no topic of options: the formats of files.
enum Guide: String, CaseIterable, Sendable {
    case lists, manifest, service, config

    /// The commands whose help has it.
    var commands: Set<Command> {
        switch self {
        case .lists: [.get]
        case .manifest: [.run]
        case .service: [.work]
        case .config: Command.transferring
        }
    }

    /// What it is about, in a few words.
    var title: String {
        switch self {
        case .lists: "the format of --input-file"
        case .manifest: "the format of manifests"
        case .service: "a unit of systemd"
        case .config: "~/.config/convoy/config.json"
        }
    }

    /// The line with which its page begins.
    private var usage: String {
        switch self {
        case .lists: "Usage: convoy get -i LIST"
        case .manifest: Help.usage(of: .run)
        case .service: Help.usage(of: .work)
        case .config: "Usage: convoy get|put|run [--no-config] ..."
        }
    }

    /// Its page of help.
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

    /// A paragraph.
    enum Part: Sendable {
        case text(String)
        /// Lines that stay as they are.
        case example([String])
    }

    /// What it says, here and in the manual page.
    var parts: [Part] {
        switch self {
        case .lists: Self.listParts
        case .manifest: Self.manifestParts
        case .service: Self.serviceParts
        case .config: Self.configurationParts
        }
    }
}

extension Guide {
    private static let listParts: [Part] = [
        .text(
            """
            A line has a URL, or several of the same file with tabs between them: the first, and mirrors. Lines below it \
            that begin with a space or a tab are about this file, as with aria2. Lines that begin with # are comments.
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
            out=PATH is the name, below the directory; dir=DIR the directory; checksum=ALGORITHM=HEX what the file must \
            be; header=NAME: VALUE a further header, which may be there several times; split=N the number of parts that \
            are fetched at a time.
            """),
        .text("A Metalink (RFC 5854) may be in the place of a list: it has names, mirrors and checksums of its own."),
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
            In YAML or JSON. A value of another request, such as ${login.token}, makes a request wait for it; after: [ID] \
            does so without a value. Without when, a request is sent if all that it waits for succeeded.
            """),
        .text(
            """
            The keys are described in the article Workflows. A manifest in JSON whose requests are a list, with id, url, \
            method, headers, parameters, dependsOn and output, is run, too; its requests pass no values.
            """),
    ]

    private static let serviceParts: [Part] = [
        .text("As /etc/systemd/system/convoy.service, or with a @ in its name for several. SIGTERM drains a worker:"),
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
            After TimeoutStopSec systemd kills it; others get what it had when its leases have ended. With a file as the store, \
            StateDirectory=convoy and --store /var/lib/convoy/queue.sqlite.
            """),
    ]

    private static var configurationParts: [Part] {
        let left = OptionTable.all.filter {
            !$0.isConfigurable && $0.topic != .workflow && !$0.commands.isDisjoint(with: Command.transferring)
        }
        let names = left.map { "--\($0.name)" }.joined(separator: ", ")
        return [
            .text(
                """
                ~/.config/convoy/config.json has the options that are always there, for get and run. If XDG_CONFIG_HOME is \
                an absolute path, $XDG_CONFIG_HOME/convoy/config.json takes its place. The keys are the long names:
                """),
            .example([
                #"{"directory": "~/Downloads", "no-clobber": true, "jobs": 4,"#,
                #" "resolve": ["example.com:443:192.0.2.1"]}"#,
            ]),
            .text(
                """
                true switches an option on; false and null leave it out. Options that may be given several times take a \
                string or an array of strings. A file or directory may begin with ~/. What is on the command line wins; \
                --no-config leaves the file alone.
                """),
            .text("These are about one run, and cannot be there: \(names), and those of the topic workflow."),
            .text(
                "The file must belong to you or to root, and nobody else may be able to write to it: it may switch off trust."
            ),
        ]
    }
}
