import Convoy
import Foundation

/// `convoy run`: runs the requests of a manifest.
enum RunCommand {
    static let help = """
        convoy run: run the requests of a manifest, in the order of their dependencies

        Usage: convoy run [OPTION]… MANIFEST.json

        MANIFEST.json may be - for standard input:

          {"baseURL": "https://api.example.com/v1/",
           "requests": [
             {"id": "login", "method": "POST", "url": "login", "parameters": {"user": "ada"}},
             {"id": "report", "url": "report.pdf", "dependsOn": ["login"], "output": "report.pdf"}]}

        A request must have an id and a url. Its method is GET by default. Parameters are the query of a GET, HEAD or
        DELETE, and otherwise a form, or JSON if the header Content-Type is application/json. The response body goes
        to output, a path below the output directory, or is discarded. With an output, the server is asked not to
        compress it (no Content-Encoding). Requests that do not depend on each other run at the same time. A request
        whose dependency failed, or could not write its file, is not sent. What servers set as cookies goes with the
        requests that follow. Nothing is sent if there is an error in the manifest, or if an output cannot be written
        or exists (see --force).

        Options:
          -o, --output DIR       directory for the outputs, created if missing (default: .)
          -j, --jobs N           requests at a time, 1 to 256 (default: 6)
              --timeout SECONDS  give up after this long without any data; 0 for never (default: 60)
        \(TraceOptions.help)
        \(CookieOptions.help)
        \(LoginOptions.help)
        \(RouteOptions.help)
        \(TrustOptions.help)
          -f, --force            replace existing files
              --json             print a line of JSON for each request on standard output, all else on standard error
          -h, --help             print this help

        Objects of --json: id, url, status, bytes, file, sha256, seconds, error.
        Exit status: 0 all succeeded, 1 something failed, 2 usage error, 130 interrupted by Ctrl-C.
        """

    static func run(_ arguments: [String], _ display: Display) throws -> ExitStatus {
        let options = try Options(
            arguments, command: "run",
            known: [
                .value("output", "o"), .value("jobs", "j"), .value("timeout"), .flag("force", "f"), .flag("json"),
            ] + TraceOptions.known + CookieOptions.known + LoginOptions.known + RouteOptions.known
                + TrustOptions.known)
        guard !options.has("help") else {
            display.say(help)
            return .success
        }
        guard let file = options.arguments.first, options.arguments.count == 1 else {
            throw options.usage(options.arguments.isEmpty ? "no manifest" : "more than one manifest")
        }
        let display = options.has("json") ? Display(machineReadsOutput: true) : display
        let jobs = try options.integer("jobs", in: 1...256) ?? 6
        let timeout = try options.seconds("timeout")
        let manifest = try Manifest(
            try contents(of: file), name: file == "-" ? "standard input" : file, timeout: timeout)
        let directory = options.value("output") ?? "."
        guard !directory.isEmpty else { throw options.usage("--output needs a directory") }
        let routes = try RouteOptions(options)
        let cookies = try CookieOptions(options, display)
        // Last, as they may ask for a password and a passphrase.
        let login = try LoginOptions(options, for: manifest.baseURL.map { [$0] } ?? manifest.requests.map(\.url))
        let trust = try TrustOptions(options)
        let trace = TraceOptions(options, display, count: manifest.requests.count)

        let transfers = try self.transfers(
            of: manifest, in: directory, replaces: options.has("force"), hashes: options.has("json")
        ) { transfer, configuration throws(ToolError) in
            trust.apply(to: &configuration)
            routes.apply(to: &configuration)
            trace.apply(to: &configuration)
            login.apply(to: transfer.operation, try Login.taken(from: transfer.url)?.login)
            cookies.apply(to: transfer.operation)
        }
        if let warning = trust.warning { display.complain(warning) }
        let run = TransferRun(display: display, jobs: jobs, printsJSON: options.has("json"))
        // Taken from the manifest, as an operation has no dependencies any more when it has finished.
        let byID = Dictionary(transfers.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        let waitsFor = Dictionary(
            manifest.requests.map { ($0.id, $0.dependsOn.compactMap { byID[$0] }) }, uniquingKeysWith: { first, _ in first })
        defer { trace.finish() }
        let status = run.run(transfers, summary: { "\($0) succeeded" }) { transfer, outcome in
            explain(outcome, of: transfer, waitingFor: waitsFor[transfer.name] ?? [])
        }
        return cookies.finish(status, display)
    }

    private static func contents(of file: String) throws(ToolError) -> Data {
        do {
            // Foundation's `Data(contentsOf:)` does not read pipes, which a shell makes for `<(…)`.
            let handle = file == "-" ? .standardInput : try FileHandle(forReadingFrom: URL(fileURLWithPath: file))
            return try handle.readToEnd() ?? Data()
        } catch {
            throw .usage("cannot read the manifest \(Printable.line(file)): \(ErrorText.line(for: error))")
        }
    }

    private static func transfers(
        of manifest: Manifest, in directory: String, replaces: Bool, hashes: Bool,
        setUp: (Transfer, inout ConnectionConfiguration) throws(ToolError) -> Void
    ) throws(ToolError) -> [Transfer] {
        let outputs = manifest.requests.compactMap(\.output)
        // All checks come before the first request: running half of a manifest is worse than running none.
        for output in outputs {
            try Directories.checkIsInside(directory, output)
            try Directories.checkIsFree(Directories.join(directory, output), replaces: replaces)
        }
        for parent in Set(outputs.map { Directories.parents(of: $0).last }) {
            try Directories.prepare(parent.map { Directories.join(directory, $0) } ?? directory)
        }

        var byID: [String: Transfer] = [:]
        let transfers = try manifest.requests.map { request throws(ToolError) in
            let transfer = Transfer(
                id: request.id, name: request.id, request: request.request, url: request.url,
                path: request.output.map { Directories.join(directory, $0) }, replaces: replaces, hashes: hashes)
            transfer.operation.dependencyFailurePolicy = .cancel
            var configuration = ConnectionConfiguration(sensitiveHeaders: request.secretHeaders)
            try setUp(transfer, &configuration)
            transfer.operation.connectionConfiguration = configuration
            byID[request.id] = transfer
            return transfer
        }
        for (request, transfer) in zip(manifest.requests, transfers) {
            for id in request.dependsOn {
                if let other = byID[id] { transfer.operation.addDependency(other.operation) }
            }
        }
        return transfers
    }

    /// Adds the failed dependency to the outcome of a request that was not sent because of it.
    private static func explain(
        _ outcome: Outcome, of transfer: Transfer, waitingFor dependencies: [Transfer]
    ) -> Outcome {
        guard transfer.operation.isCancelled, Interruption.shared.status == nil,
            let failed = dependencies.first(where: { $0.operation.error != nil })
        else { return outcome }
        var outcome = outcome
        outcome.error = "not sent, because \"\(Printable.line(failed.name))\" failed"
        outcome.seconds = 0
        return outcome
    }
}
