/// The commands of the program.
enum Command: String, CaseIterable, Sendable {
    case get, put, run, check, send, importing = "import", events, work, queue, demo, help, completion, manual

    /// Those that send requests.
    static let transferring: Set<Command> = [.get, .put, .run, .send, .events, .work]
    /// Those whose responses have an end, and go to files.
    static let fetching: Set<Command> = [.get, .run]
    /// Those with several transfers, which have an end.
    static let several: Set<Command> = [.get, .put, .run]

    /// What it does, for the help: part of a sentence.
    var summary: String {
        switch self {
        case .demo: "show a chain, a batch and a pause, with a server of its own"
        case .get: "download URLs, and go on where an earlier run ended"
        case .put: "upload files, and go on where an earlier run ended"
        case .run: "run requests that depend on each other, from a manifest"
        case .check: "find the mistakes of a manifest, and send nothing"
        case .send: "send one request by hand, and print the response"
        case .importing: "print a manifest from a curl command or a HAR file"
        case .events: "print the events of a stream as they come"
        case .work: "carry out the requests of a queue that processes share"
        case .queue: "add to such a queue, look into it, and change it"
        case .help: "print the help of a command or a topic: convoy help get files"
        case .completion: "print what makes a shell complete the command line"
        case .manual: "print the manual page: convoy manual | man -l -"
        }
    }

    /// What may follow it, for the first line of its help.
    var usage: String {
        switch self {
        case .demo, .manual: ""
        case .get: " [OPTION]... URL..."
        case .put: " [OPTION]... FILE... URL"
        case .run: " [OPTION]... MANIFEST"
        case .check: " [OPTION]... MANIFEST..."
        case .send: " [OPTION]... [METHOD] URL [ITEM]..."
        case .importing: " curl COMMAND | har FILE"
        case .events: " [OPTION]... URL"
        case .work: " --store PATH|URL [OPTION]..."
        case .queue: " ACTION --store PATH|URL [OPTION]... [ARGUMENT]..."
        case .help: " [COMMAND [TOPIC]]"
        case .completion: " bash|zsh|fish"
        }
    }
}

/// What the options of a command are about. Each has a page of help.
enum Topic: String, CaseIterable, Sendable {
    case workflow, queue, entries, files, speed, requests, network, trust, output

    /// What its options are about, in a few words for the help.
    var title: String {
        switch self {
        case .workflow: "values, parts, reports"
        case .queue: "the store, filters, workers"
        case .entries: "what is added"
        case .files: "names, lists, checksums"
        case .speed: "jobs, rates, time limits"
        case .requests: "headers, cookies, logins"
        case .network: "proxies and addresses"
        case .trust: "TLS, certificates, pins"
        case .output: "what is printed; dry runs"
        }
    }

    /// The topics in which a command has options of its own.
    static func topics(of command: Command) -> [Topic] {
        guard Command.transferring.contains(command) || command == .queue else { return [] }
        let options = OptionTable.options(of: command)
        return allCases.filter { topic in options.contains { $0.topic == topic } }
    }
}
