/// What the exit statuses mean, for the help and the manual page.
enum ExitStatusText {
    /// All of them in a few words.
    static var short: String {
        let kinds = FailureKind.allCases.compactMap { kind in kind.term.map { "\(kind.exitStatus) \($0)" } }
        return "0 all succeeded; 1 several kinds of failure, or another; 2 usage; "
            + "\(kinds.joined(separator: "; ")). A signal ends it by that signal."
    }

    /// Each of them, in sentences without a full stop.
    static var rows: [(status: String, meaning: String)] {
        [
            ("0", "Everything succeeded"),
            ("1", "There were failures of several kinds, or one that is not in this list"),
            ("2", "The command line, a list, the manifest or the configuration has a mistake; nothing was sent"),
        ]
            + FailureKind.allCases.compactMap { kind in
                kind.meaning.map { ("\(kind.exitStatus)", $0) }
            }
    }
}

extension FailureKind {
    /// The kind in a word or two; nil for one without an exit status of its own.
    var term: String? {
        switch self {
        case .name: "name not found"
        case .connection: "connection"
        case .tls: "TLS or trust"
        case .timeout: "timeout"
        case .status: "HTTP status"
        case .disk: "disk"
        case .checksum: "checksum"
        case .other, .cancelled, .dependency: nil
        }
    }

    /// What happened; nil for a kind without an exit status of its own.
    var meaning: String? {
        switch self {
        case .name: "The name of a server or of a proxy was not found"
        case .connection: "There was no connection, it was lost, or the answer was not HTTP"
        case .tls: "TLS failed, or the server is not trusted"
        case .timeout: "It took longer than an option allows"
        case .status: "A server answered with an error"
        case .disk: "A file could not be read or written, or was there already"
        case .checksum: "A file is not what it must be"
        case .other, .cancelled, .dependency: nil
        }
    }
}
