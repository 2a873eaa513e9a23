import ConvoySupport
import Convoy
import Foundation
import FoundationNetworking

/// `convoy get`: downloads URLs.
enum GetCommand {
    static let help = """
        convoy get: download URLs, several at a time

        Usage: convoy get [OPTION]… URL…

        Each URL is written to NAME.part, and gets its name when it is whole. NAME is the last part of the URL's
        path, or index.html. A second URL of the same name gets NAME.1, with the number before the extension. A file
        that exists is left alone, and its URL is an error. An error response leaves no file. Each is asked for as it
        is, without a Content-Encoding.

        Options:
          -o, --output DIR       where the files go; made if it is missing (default: here)
          -j, --jobs N           how many at a time, 1 to 256 (default: 6)
          -H, --header 'K: V'    send this header; may be repeated: values of one name are joined. Only Accept headers
                                 follow a redirect elsewhere
              --timeout SECONDS  give up when no byte has come for so long; 0 is never (default: 60)
              --user-agent TEXT  send this User-Agent, in the place of one that --header gives
          -f, --force            replace files that exist
              --json             print an object a line for each URL on standard output, all else on standard error
          -h, --help             print this help

        Objects of --json: url, status, bytes, file, sha256, seconds, error.
        Exit status: 0 all succeeded, 1 something failed, 2 wrong usage, 130 ended by Ctrl-C.
        """

    static func run(_ arguments: [String], _ display: Display) throws -> ExitStatus {
        let options = try Options(
            arguments, command: "get",
            known: [
                .value("output", "o"), .value("jobs", "j"), .value("header", "H", repeats: true), .value("timeout"),
                .value("user-agent"), .flag("force", "f"), .flag("json"),
            ])
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
        try Directories.prepare(directory)

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
            transfer.operation.connectionConfiguration = headers.configuration
            transfers.append(transfer)
        }
        let run = TransferRun(display: display, jobs: jobs, printsJSON: options.has("json"))
        return run.run(transfers, failed: failed) { "\($0) downloaded" }
    }
}
