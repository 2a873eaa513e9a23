/// The commands of the program.
enum Command: String, CaseIterable, Sendable {
    case get, put
    case storage = "s3"
    case run, check, send, importing = "import", events, work, queue, demo, help, completion, manual

    /// The commands that send requests.
    static let transferring: Set<Command> = [.get, .put, .storage, .run, .send, .events, .work]
    /// The commands whose responses are finite and are written to files.
    static let fetching: Set<Command> = [.get, .run]
    /// The commands with several finite transfers.
    static let several: Set<Command> = [.get, .put, .storage, .run]

    /// A description for the help: a phrase without a final period.
    var summary: String {
        switch self {
        case .demo: "show a chain, a batch and a pause against a built-in server"
        case .get: "download URLs, resuming interrupted downloads"
        case .put: "upload files, resuming interrupted uploads"
        case .storage: "copy, list and remove objects in S3-compatible storage"
        case .run: "run a workflow: requests that depend on each other"
        case .check: "validate manifests without sending anything"
        case .send: "send one request and print the response"
        case .importing: "print a manifest from curl, a HAR, Hurl, Postman or Bruno"
        case .events: "print server-sent events as they arrive"
        case .work: "process a shared queue of requests"
        case .queue: "add requests to a shared queue, and inspect or change it"
        case .help: "print the help of a command or a topic: convoy help get files"
        case .completion: "print a shell completion script"
        case .manual: "print the manual page: convoy manual | man -l -"
        }
    }

    /// The arguments of the command, for the first line of its help.
    var usage: String {
        switch self {
        case .demo, .manual: ""
        case .get: " [OPTION]... URL..."
        case .put: " [OPTION]... FILE... URL"
        case .storage: " ACTION [OPTION]... [FILE|OBJECT]..."
        case .run, .check: " [OPTION]... MANIFEST|DIRECTORY..."
        case .send: " [OPTION]... [METHOD] URL [ITEM]..."
        case .importing: " curl COMMAND | har|hurl|postman FILE | bruno DIRECTORY"
        case .events: " [OPTION]... URL"
        case .work: " --store PATH|URL [OPTION]..."
        case .queue: " ACTION --store PATH|URL [OPTION]... [ARGUMENT]..."
        case .help: " [COMMAND [TOPIC]]"
        case .completion: " bash|zsh|fish"
        }
    }
}

/// The subject of a group of options. Each topic has a help page.
enum Topic: String, CaseIterable, Sendable {
    case workflow, queue, entries, times, storage, files, speed, requests, network, trust, output

    /// A short description, for the help.
    var title: String {
        switch self {
        case .workflow: "values, parts, reports"
        case .queue: "the store, filters, workers"
        case .entries: "what is added"
        case .times: "start, limits, schedules"
        case .storage: "service, credentials, objects"
        case .files: "names, lists, checksums"
        case .speed: "jobs, rates, time limits"
        case .requests: "headers, cookies, logins"
        case .network: "proxies and addresses"
        case .trust: "TLS, certificates, pins"
        case .output: "what is printed; dry runs"
        }
    }

    /// Returns the topics for which a command has options.
    static func topics(of command: Command) -> [Topic] {
        guard Command.transferring.contains(command) || command == .queue else { return [] }
        let options = OptionTable.options(of: command)
        return allCases.filter { topic in options.contains { $0.topic == topic } }
    }
}
