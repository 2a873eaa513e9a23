import Convoy
import ConvoySupport
import ConvoyWorkflow
import Foundation
import FoundationNetworking

/// `convoy send`: sends a single request, as a manifest would.
enum SendCommand {
    static func run(_ options: Options) throws(ToolError) -> ExitStatus {
        guard let target = SendItems.target(options) else {
            throw options.usage(options.arguments.isEmpty ? "no method" : "no URL")
        }
        let captures = try pairs(of: "capture", options), expectations = try pairs(of: "expect", options)
        let display = try Display(options, printsBodies: true)
        var draft = try SendItems.draft(options, target), options = options
        let url = try options.url(target.url)
        let session = try SendSession(options, for: url)
        session?.apply(to: &draft, &options)
        for (key, value) in expectations { draft.expectations[key] = RequestDraft.value(value) }
        draft.captures = captures.map { ($0.0, $0.1) }
        let text = RequestDraft.manifest([("request", draft)])
        let workflow: Workflow
        do throws(ManifestError) {
            workflow = try Workflow(parsing: Data(text.utf8), name: "the request")
        } catch {
            throw .usage(Printable.line(Shown.text(error.message)))
        }
        let streams = captures.isEmpty && expectations.allSatisfy { ["status", "type", "maxTime"].contains($0.0) }
        let output = try SendOutput(options, display, streams: streams)
        if let file = options.value("save") {
            try SavedRequest.append(draft, to: file, options, display)
            if session?.cookies.cookies.isEmpty == false {
                display.complain("\(Printable.line(file)): the cookies of the session were not saved")
            }
        }
        // This step comes last, because it may prompt for a password and a passphrase.
        let settings = try TransferSettings(options, for: url, display, cookies: session?.cookies)
        let result = try run(workflow, url, settings, prints: captures.map(\.0), to: output, display, options)
        guard let (status, isAnswered) = result else { return .success }
        if isAnswered { try session?.save(draft, settings.login.credential) }
        return settings.finish(status, display)
    }

    private static func pairs(of name: String, _ options: Options) throws(ToolError) -> [(String, String)] {
        var pairs: [(String, String)] = []
        for text in options.all(name) {
            guard let equals = text.firstIndex(of: "="), equals > text.startIndex else {
                throw options.usage("--\(name) takes \(name == "capture" ? "NAME=SOURCE" : "KEY=VALUE")")
            }
            pairs.append((String(text[..<equals]), String(text[text.index(after: equals)...])))
        }
        return pairs
    }

    /// Sends the request. Returns the exit status, and whether the server has answered, or nil if nothing is sent.
    private static func run(
        _ workflow: Workflow, _ url: URL, _ settings: TransferSettings, prints captures: [String], to output: SendOutput,
        _ display: Display, _ options: Options
    ) throws(ToolError) -> (status: ExitStatus, isAnswered: Bool)? {
        let trust = settings.trust
        let timeout = try options.seconds("timeout")
        if let warning = trust.warning { display.complain(warning) }
        let response = Locked<WorkflowResponse?>(nil), command = Locked<String?>(nil)
        var run = WorkflowRun.Options()
        run.userAgent = Program.userAgent
        run.showsSecrets = Shown.secrets
        run.received = { received in response.withLock { $0 = received } }
        let onlyPrints = options.has("curl")
        run.configure = { operation, number in
            try? settings.apply(to: operation, url, operation.connectionConfiguration, number: number, heard: { _ in })
            settings.speed.apply(to: operation)
            if let timeout { operation.idleTimeout = timeout }
            guard onlyPrints else { return output.prepare(operation) }
            command.withLock { $0 = operation.curlCommand(includingSecrets: Shown.secrets) }
            operation.cancel()
        }
        if options.has("offline") {
            let preview = try? WorkflowRun(workflow, options: run).preview().first
            // The first line is the name of the request.
            let lines = (preview ?? "").split(separator: "\n", omittingEmptySubsequences: false).dropFirst()
            for line in lines { display.emit(Printable.line(String(line))) }
            return nil
        }
        let made: WorkflowRun
        do {
            made = try WorkflowRun(workflow, options: run)
        } catch {
            throw .failure(ErrorText.line(for: error))
        }
        let result = made.wait()
        output.discard()
        settings.trace.finish()
        if let text = command.withLock({ $0 }) {
            display.emit(Printable.line(text))
            return nil
        }
        let outcome = result.outcomes.first, received = response.withLock { $0 }
        if captures.isEmpty, let received { try output.finish(received) }
        if !captures.isEmpty { printCaptures(made.captures(of: "request"), display) }
        for failure in outcome?.failures ?? [] where Interruption.shared.status == nil {
            display.complain(output.failure?.text ?? Printable.line(failure), isMarked: true)
        }
        let status = Interruption.shared.status ?? ExitStatus(failures: [outcome?.kind].compactMap(\.self))
        return (status, received != nil)
    }

    private static func printCaptures(_ captures: [(name: String, value: JSON)], _ display: Display) {
        for (name, value) in captures {
            let text = if case .string(let text) = value { text } else { value.description }
            let output = captures.count == 1 ? text : "\(name)=\(Printable.shellQuoted(text))"
            guard display.terminals.contains(STDOUT_FILENO) else {
                display.emit(output)
                continue
            }
            // A terminal would obey control characters of the server.
            for line in output.split(separator: "\n", omittingEmptySubsequences: false) {
                display.emit(Printable.line(String(line)))
            }
        }
    }
}
