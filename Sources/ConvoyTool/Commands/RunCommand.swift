import Convoy
import ConvoySupport
import ConvoyWorkflow
import Foundation

/// `convoy run`: runs the requests of a manifest.
enum RunCommand {
    static func run(_ options: Options) throws(ToolError) -> ExitStatus {
        let files = try ManifestFile.all(options)
        guard let list = files.first(where: { !Workflow.isManifest($0.contents) }) else {
            return try WorkflowCommand.run(files, options)
        }
        guard files.count == 1 else {
            throw options.usage(
                "\(Printable.line(list.name)) is a list of requests, which cannot be combined with other manifests")
        }
        let (contents, name) = (list.contents, list.name)
        if let option = WorkflowCommand.options.first(where: options.has) {
            throw options.usage("--\(option) requires a manifest with named requests, see convoy help run manifest")
        }
        let display = try Display(options, printsBodies: false)
        let speed = try SpeedOptions(options)
        let timeout = try options.seconds("timeout")
        let manifest = try Manifest(contents, name: name, timeout: timeout)
        let directory = options.value("directory") ?? "."
        guard !directory.isEmpty else { throw options.usage("--directory needs a directory") }
        let routes = try RouteOptions(options)
        let cookies = try CookieOptions(options, display)
        // This step comes last, because it may prompt for a password and a passphrase.
        var login = LoginOptions(options)
        for url in manifest.baseURL.map({ [$0] }) ?? manifest.requests.map(\.url) { try login.adopt(url, options) }
        try login.ask(options)
        let trust = try TrustOptions(options)
        let settings = TransferSettings(
            speed: speed, routes: routes, cookies: cookies, login: login, trust: trust,
            trace: try TraceOptions(options, display, count: manifest.requests.count))

        let isPreview = options.has("dry-run")
        let transfers = try self.transfers(
            of: manifest, in: directory, replaces: options.has("force"), hashes: options.has("json"),
            makesDirectories: !isPreview, settings)
        if let warning = trust.warning { display.complain(warning) }
        if isPreview { return Preview(display: display).print(TransferList(transfers)) }
        let run = TransferRun(settings, display: display, options: options)
        // Take the dependencies from the manifest, because a finished operation no longer has any.
        let byID = Dictionary(transfers.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        let waitsFor = Dictionary(
            manifest.requests.map { ($0.id, $0.dependsOn.compactMap { byID[$0] }) }, uniquingKeysWith: { first, _ in first })
        defer { settings.trace.finish() }
        let status = run.run(TransferList(transfers), summary: { "\($0) succeeded" }) { transfer, outcome in
            explain(outcome, of: transfer, waitingFor: waitsFor[transfer.name] ?? [])
        }
        return settings.finish(status, display)
    }

    private static func transfers(
        of manifest: Manifest, in directory: String, replaces: Bool, hashes: Bool, makesDirectories: Bool,
        _ settings: TransferSettings
    ) throws(ToolError) -> [Transfer] {
        let outputs = manifest.requests.compactMap(\.output)
        // All checks come before the first request: running half of a manifest is worse than running nothing.
        for output in outputs {
            try Directories.checkIsInside(directory, output)
            let path = PathText.join(directory, output)
            try Directories.checkIsFree(path, partial: FileNames.partial(of: path), replaces: replaces)
        }
        for parent in Set(outputs.map { Directories.parents(of: $0).last }) where makesDirectories {
            try Directories.prepare(parent.map { PathText.join(directory, $0) } ?? directory)
        }

        var byID: [String: Transfer] = [:]
        let transfers = try manifest.requests.enumerated().map { index, request throws(ToolError) in
            let transfer = Transfer(
                id: request.id, name: request.id, request: request.request, url: request.url,
                body: BodyFile(
                    path: request.output.map { PathText.join(directory, $0) }, replaces: replaces, hashes: hashes))
            transfer.operation.dependencyFailurePolicy = .cancel
            try settings.apply(to: transfer, number: index + 1)
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
        outcome.kind = .dependency
        outcome.seconds = 0
        return outcome
    }
}
