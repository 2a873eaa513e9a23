import ConvoySupport
import Convoy
import Foundation
import FoundationNetworking

/// `convoy get`: downloads URLs.
enum GetCommand {
    static let help = """
        convoy get: download URLs, several at a time

        Usage: convoy get [OPTION]… URL…

        Each URL is downloaded to NAME.part, which is renamed to NAME when it is complete. NAME is the last part of
        the URL's path, or index.html. A second URL with the same name gets NAME.1, with the number before the
        extension. An existing file is not replaced, and its URL fails. An error response leaves no file. The server
        is asked not to compress the file (no Content-Encoding).

        Options:
          -o, --output DIR       directory for the files, created if missing (default: .)
          -j, --jobs N           downloads at a time, 1 to 256 (default: 6)
          -H, --header 'K: V'    send this header; can be repeated, and values of the same name are joined. On a
                                 redirect to another origin only Accept and User-Agent headers are kept
              --timeout SECONDS  give up after this long without any data; 0 for never (default: 60)
              --user-agent TEXT  send this User-Agent; overrides --header
        \(TraceOptions.help)
        \(CookieOptions.help)
        \(LoginOptions.help)
        \(RouteOptions.help)
        \(TrustOptions.help)
          -f, --force            replace existing files
              --json             print a line of JSON for each URL on standard output, all else on standard error
          -h, --help             print this help

        Objects of --json: url, status, bytes, file, sha256, seconds, error.
        Exit status: 0 all succeeded, 1 something failed, 2 usage error, 130 interrupted by Ctrl-C.
        """

    static func run(_ arguments: [String], _ display: Display) throws -> ExitStatus {
        let options = try Options(
            arguments, command: "get",
            known: [
                .value("output", "o"), .value("jobs", "j"), .value("header", "H", repeats: true), .value("timeout"),
                .value("user-agent"), .flag("force", "f"), .flag("json"),
            ] + TraceOptions.known + CookieOptions.known + LoginOptions.known + RouteOptions.known
                + TrustOptions.known)
        guard !options.has("help") else {
            display.say(help)
            return .success
        }
        guard !options.arguments.isEmpty else { throw options.usage("no URL") }
        let display = options.has("json") ? Display(machineReadsOutput: true) : display
        let headers = try Headers(options)
        let urls = try options.arguments.map { try DownloadURL.parse($0) }
        let requests = try urls.map { try headers.request(for: $0) }
        let jobs = try options.integer("jobs", in: 1...256) ?? 6
        let directory = options.value("output") ?? "."
        guard !directory.isEmpty else { throw options.usage("--output needs a directory") }
        let routes = try RouteOptions(options)
        let cookies = try CookieOptions(options, display)
        // Last, as they may ask for a password and a passphrase.
        let login = try LoginOptions(options, for: urls)
        let trust = try TrustOptions(options)
        try Directories.prepare(directory)

        if let warning = trust.warning { display.complain(warning) }
        var configuration = headers.configuration
        let trace = TraceOptions(options, display, count: urls.count)
        trace.apply(to: &configuration)
        trust.apply(to: &configuration)
        routes.apply(to: &configuration)
        var names = FileNameAllocator()
        var transfers: [Transfer] = []
        var failed: [Outcome] = []
        for (url, request) in zip(urls, requests) {
            let wanted = FileNames.name(for: url)
            let name = names.take(wanted)
            let path = Directories.join(directory, name)
            if name != wanted { display.say("\(url.forPeople) goes to \(path): \(wanted) is another URL's") }
            do throws(ToolError) {
                try Directories.checkIsFree(path, replaces: options.has("force"))
            } catch {
                failed.append(Outcome(url: Redaction.url(url.absoluteString), error: error.text))
                continue
            }
            let transfer = Transfer(
                id: nil, name: name, request: request, url: url, path: path, replaces: options.has("force"),
                hashes: options.has("json"))
            transfer.operation.connectionConfiguration = configuration
            login.apply(to: transfer.operation, try Login.taken(from: url)?.login)
            cookies.apply(to: transfer.operation)
            transfers.append(transfer)
        }
        let run = TransferRun(display: display, jobs: jobs, printsJSON: options.has("json"))
        defer { trace.finish() }
        return cookies.finish(run.run(transfers, failed: failed) { "\($0) downloaded" }, display)
    }
}
