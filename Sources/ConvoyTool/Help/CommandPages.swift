/// The help pages of the commands.
enum CommandPages {
    static func page(of command: Command) -> [String] {
        switch command {
        case .get: get
        case .put: put
        case .storage: storage
        case .run: run
        case .check: check
        case .send: send
        case .importing: importing
        case .events: events
        case .work: work
        case .queue: queue
        case .demo: demo
        case .help: help
        case .completion: completion
        case .manual: manual
        }
    }

    private static var get: [String] {
        transferring(
            .get,
            """
            Downloads URLs concurrently. A file appears under its name only when complete; run the same command again to \
            resume. An existing file is an error, unless -c, -N or -f is given.
            """,
            options: ["output", "directory", "input-file", "continue", "timestamping", "force", "jobs"])
    }

    private static var put: [String] {
        transferring(
            .put,
            """
            Uploads files by tus or the IETF draft if the server supports one, and otherwise in one PUT each. Run the same \
            command again to resume. If a file has changed since the interruption, its upload starts over.
            """,
            options: ["tus", "parallel", "checksum", "resume"])
    }

    private static var storage: [String] {
        let options = OptionTable.options(of: .storage).filter { ["endpoint", "region", "profile"].contains($0.name) }
        return [Help.usage(of: .storage), ""] + HelpLayout.rows(StorageAction.rows)
            + ["", "An OBJECT is s3://BUCKET/KEY, or a prefix of keys: s3://BUCKET/PREFIX/."]
            + TopicPages.rows(options)
            + ["", "All options, by topic: convoy s3 --help TOPIC"]
            + HelpLayout.grid(Help.subjects(of: .storage))
            + exitStatus(ExitStatusText.short)
    }

    private static var run: [String] {
        transferring(
            .run,
            """
            Runs the requests of a manifest (- for standard input). Nothing is sent if it has a mistake, or an output file \
            exists and -f is not given.
            """,
            options: ["var", "resume", "directory", "force", "jobs", "dry-run"])
    }

    private static var check: [String] {
        [Help.usage(of: .check), ""]
            + HelpLayout.wrapped(
                """
                Validates manifests (- for standard input). It reports unknown names, values of the wrong type, circular \
                dependencies and unset variables, each with file, line and column.
                """)
            + [""] + help(.check)
            + [""]
            + exitStatus(
                "0 no mistakes; 1 output error; 2 mistake, unreadable file or usage error.")
    }

    private static var send: [String] {
        transferring(
            .send,
            """
            Sends a request. An ITEM is NAME=VALUE, NAME:=JSON, NAME@FILE, NAME==VALUE for the query, or Header:Value; =@ and \
            :=@ read the value from a file. Items are sent as JSON by default, in which user[tags][]=x nests. On a terminal, \
            the response head is printed as well, and JSON and XML are indented.
            """,
            options: ["form", "output", "session", "print", "expect", "capture"])
    }

    private static var importing: [String] {
        [Help.usage(of: .importing), ""]
            + HelpLayout.wrapped(
                """
                Prints a manifest with the request of a curl command, as browsers copy it (in quotes, or - for standard \
                input), or with all requests of an HTTP Archive, a file of Hurl, or a collection of Postman or Bruno.
                """)
            + [""] + help(.importing)
            + [""]
            + exitStatus("0 success; 1 output error; 2 unreadable file, no requests, or usage error.")
    }

    private static var events: [String] {
        transferring(
            .events,
            """
            Prints server-sent events (text/event-stream) as they arrive: the data of messages, and the type and data of \
            other events. Reconnects when the connection is lost and resumes after the last event. Ctrl-C stops it.
            """,
            options: ["type", "count", "last-id", "json", "user"])
    }

    private static var work: [String] {
        transferring(
            .work,
            """
            Processes the entries of a queue shared by processes and machines until stopped by a signal. Running entries \
            are then finished; a second signal returns them to the queue.
            """,
            options: ["store", "tag", "jobs", "folder", "secrets-for", "until-empty"])
    }

    private static var queue: [String] {
        [Help.usage(of: .queue), ""] + HelpLayout.rows(QueueAction.rows) + [""]
            + TopicPages.rows(OptionTable.options(of: .queue).filter { ["store"].contains($0.name) })
            + ["", "All options, by topic: convoy queue --help TOPIC"]
            + HelpLayout.grid(Help.subjects(of: .queue))
            + [""]
            + exitStatus("0 success; 1 failure; 2 usage error; 4 no connection to the database; 8 file error.")
    }

    private static func transferring(_ command: Command, _ text: String, options names: [String]) -> [String] {
        let options = names.compactMap { name in OptionTable.options(of: command).first { $0.name == name } }
        var lines = [Help.usage(of: command), ""]
        lines += HelpLayout.wrapped(text)
        lines.append("")
        lines += TopicPages.rows(options)
        lines += ["", "All options, by topic: convoy \(command.rawValue) --help TOPIC"]
        lines += HelpLayout.grid(Help.subjects(of: command))
        lines.append("")
        return lines + exitStatus(ExitStatusText.short)
    }

    private static var demo: [String] {
        [Help.usage(of: .demo), ""]
            + HelpLayout.wrapped(
                """
                Starts a built-in server and demonstrates a chain of requests, a batch, and a download that is paused and \
                resumed. It checks the results, connects only to this machine, and leaves no files behind.
                """)
            + [""] + help(.demo)
            + [""] + exitStatus("0 all checks passed; 1 a check failed; 2 usage error.")
    }

    private static var help: [String] {
        var lines = [
            Help.usage(of: .help), "", "Prints the help of the program, of a command, or of one of its topics:", "",
        ]
        lines += HelpLayout.rows([
            ("convoy help", "the commands"), ("convoy help get", "the same as convoy get --help"),
            ("convoy help get files", "the same as convoy get --help files"),
        ])
        lines.append("")
        for command in Command.transferring.sorted(by: { $0.rawValue < $1.rawValue }) {
            let topics = Help.subjects(of: command).map(\.left).joined(separator: ", ")
            lines += HelpLayout.wrapped("Topics of \(command.rawValue): \(topics).")
        }
        lines.append("")
        lines += help(.help)
        lines.append("")
        return lines + exitStatus("0 success; 1 output error; 2 unknown command or topic.")
    }

    private static var completion: [String] {
        [Help.usage(of: .completion), "", "Prints a shell completion script. To enable it permanently:", ""]
            + HelpLayout.rows([
                ("bash", "in ~/.bashrc: source <(convoy completion bash)"),
                ("zsh", "in ~/.zshrc, below compinit: source <(convoy completion zsh)"),
                ("fish", "convoy completion fish >~/.config/fish/completions/convoy.fish"),
            ])
            + [""] + help(.completion)
            + [""] + exitStatus("0 success; 1 output error; 2 usage error.")
    }

    private static var manual: [String] {
        [Help.usage(of: .manual), "", "Prints the manual page in man format. To read or install it:", ""]
            + [
                "  convoy manual | man -l -",
                "  convoy manual >~/.local/share/man/man1/convoy.1",
            ]
            + [""] + help(.manual)
            + [""] + exitStatus("0 success; 1 output error; 2 usage error.")
    }

    private static func help(_ command: Command) -> [String] {
        TopicPages.rows(OptionTable.options(of: command))
    }

    private static func exitStatus(_ text: String) -> [String] { HelpLayout.wrapped("Exit status: \(text)") }
}
