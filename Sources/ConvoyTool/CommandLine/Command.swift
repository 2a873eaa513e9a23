/// The commands of the program.
enum Command: String, CaseIterable, Sendable {
    case demo, get, run, help, completion, manual

    /// Those that send requests.
    static let transferring: Set<Command> = [.get, .run]

    /// What it does, for the help: part of a sentence.
    var summary: String {
        switch self {
        case .demo: "show a chain, a batch and a paused download, with a server inside the program"
        case .get: "download URLs, several at a time; go on where an earlier run ended"
        case .run: "run the requests of a manifest, in the order of their dependencies"
        case .help: "print the help of a command, or of a topic: convoy help get files"
        case .completion: "print what makes bash, zsh or fish complete the command line"
        case .manual: "print the manual page: convoy manual | man -l -"
        }
    }

    /// What may follow it, for the first line of its help.
    var usage: String {
        switch self {
        case .demo, .manual: ""
        case .get: " [OPTION]… URL…"
        case .run: " [OPTION]… MANIFEST.json"
        case .help: " [COMMAND [TOPIC]]"
        case .completion: " bash|zsh|fish"
        }
    }
}

/// What the options of a command are about. Each has a page of help.
enum Topic: String, CaseIterable, Sendable {
    case files, speed, requests, network, trust, output

    /// Its title, for the help.
    var title: String {
        switch self {
        case .files: "files, their names, and what they must be"
        case .speed: "how many at a time, how fast, how long, how often"
        case .requests: "headers, cookies and logins"
        case .network: "proxies and addresses"
        case .trust: "TLS: whom to trust, and who you are"
        case .output: "what is printed"
        }
    }
}
