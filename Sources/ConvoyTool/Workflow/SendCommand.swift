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
        let captures = try pairs(of: "capture", options)
        let display = try Display(options, printsBodies: true)
        var draft = try SendItems.draft(options, target)
        for (key, value) in try pairs(of: "expect", options) { draft.expectations[key] = RequestDraft.value(value) }
        draft.captures = captures.map { ($0.0, $0.1) }
        let text = RequestDraft.manifest([("request", draft)])
        let workflow: Workflow
        do throws(ManifestError) {
            workflow = try Workflow(parsing: Data(text.utf8), name: "the request")
        } catch {
            throw .usage(Printable.line(Shown.text(error.message)))
        }
        let output = try options.value("output").map { path throws(ToolError) in
            let file = try OutputFile(path, option: "output")
            guard captures.isEmpty, !options.has("head") else {
                throw options.usage("--output cannot be combined with --capture or --head")
            }
            return file
        }
        if let file = options.value("save") { try SavedRequest.append(draft, to: file, options, display) }
        return try run(workflow, try DownloadURL.parse(target.url), prints: captures.map(\.0), to: output, display, options)
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

    private static func run(
        _ workflow: Workflow, _ url: URL, prints captures: [String], to output: OutputFile?, _ display: Display,
        _ options: Options
    ) throws(ToolError) -> ExitStatus {
        // This step comes last, because it may prompt for a password and a passphrase.
        let settings = try TransferSettings(options, for: url, display)
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
            guard onlyPrints else { return }
            command.withLock { $0 = operation.curlCommand(includingSecrets: Shown.secrets) }
            operation.cancel()
        }
        if options.has("offline") {
            let preview = try? WorkflowRun(workflow, options: run).preview().first
            // The first line is the name of the request.
            let lines = (preview ?? "").split(separator: "\n", omittingEmptySubsequences: false).dropFirst()
            for line in lines { display.emit(Printable.line(String(line))) }
            return .success
        }
        let made: WorkflowRun
        do {
            made = try WorkflowRun(workflow, options: run)
        } catch {
            throw .failure(ErrorText.line(for: error))
        }
        let result = WorkflowCommand.wait(for: made)
        settings.trace.finish()
        if let text = command.withLock({ $0 }) {
            display.emit(Printable.line(text))
            return .success
        }
        let outcome = result.outcomes.first
        if let output, let response = response.withLock({ $0 }) {
            try output.write(response.body)
        } else if captures.isEmpty, let response = response.withLock({ $0 }) {
            try ResponsePrinter(display: display, options: options).print(response)
        } else {
            printCaptures(made.captures(of: "request"), display)
        }
        for failure in outcome?.failures ?? [] where Interruption.shared.status == nil {
            display.complain(Printable.line(failure), isMarked: true)
        }
        let status = Interruption.shared.status ?? ExitStatus(failures: [outcome?.kind].compactMap(\.self))
        return settings.finish(status, display)
    }

    private static func printCaptures(_ captures: [(name: String, value: JSON)], _ display: Display) {
        for (name, value) in captures {
            let text = if case .string(let text) = value { text } else { value.description }
            display.emit(captures.count == 1 ? text : "\(name)=\(SendItems.shellQuoted(text))")
        }
    }
}

/// Temporary files for data that must have a path.
enum TemporaryBytes {
    /// Returns the path of an open, unnamed file that exists as long as the process.
    static func path(of data: Data) throws(ToolError) -> String {
        let name = FileManager.default.temporaryDirectory.appendingPathComponent("convoy-XXXXXX").path
        var template = Array(name.utf8CString)
        let descriptor = mkstemp(&template)
        guard descriptor >= 0 else { throw .disk("cannot store standard input: \(SystemError().text)") }
        unlink(template)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        do throws(SystemError) {
            let result = data.withUnsafeBytes { bytes in
                Result { () throws(SystemError) in try StandardStreams.write(bytes, to: descriptor) { true } }
            }
            try result.get()
        } catch {
            close(descriptor)
            throw .disk("cannot store standard input: \(error.text)")
        }
        return "/proc/self/fd/\(descriptor)"
    }
}

/// A printer for responses. On a terminal, it prints the head as well, and indents and colours JSON; otherwise it
/// prints the body unchanged.
struct ResponsePrinter {
    let display: Display
    let options: Options

    func print(_ response: WorkflowResponse) throws(ToolError) {
        let isTerminal = display.terminals.contains(STDOUT_FILENO), printsOnlyHead = options.has("head")
        if isTerminal || printsOnlyHead {
            let phrase = HTTPURLResponse.localizedString(forStatusCode: response.status)
            display.emit(Printable.line("\(response.version) \(response.status) \(phrase)"))
            for field in response.fields {
                // With --head the fields are the requested output, so they are printed unmasked, as a body would be.
                let value = printsOnlyHead ? field.value : Shown.value(field.name, field.value)
                display.emit(Printable.line("\(field.name): \(value)"))
            }
            if printsOnlyHead { return }
            display.emit("")
        }
        guard isTerminal else {
            do throws(SystemError) {
                let result = response.body.withUnsafeBytes { bytes in
                    Result { () throws(SystemError) in
                        try StandardStreams.write(bytes, to: STDOUT_FILENO) { Interruption.shared.status == nil }
                    }
                }
                try result.get()
                return
            } catch {
                throw ToolError(text: "cannot write to standard output: \(error.text)", status: .failure)
            }
        }
        if let json = response.json {
            for line in JSONPrinter.lines(of: json, display) { display.emit(line) }
        } else if let text = response.text, !text.unicodeScalars.contains("\0") {
            for line in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline) {
                display.emit(Printable.line(String(line)))
            }
        } else {
            display.emit(
                "(\(Amounts.bytes(Int64(response.body.count))) of binary data; redirect the output to a file or a pipe)")
        }
    }
}

/// Functions that format JSON for people.
enum JSONPrinter {
    static func lines(of json: JSON, _ display: Display) -> [String] {
        var lines: [String] = []
        add(json, indent: 0, head: "", tail: "", to: &lines, display)
        return lines
    }

    private static func add(
        _ json: JSON, indent: Int, head: String, tail: String, to lines: inout [String], _ display: Display
    ) {
        let space = String(repeating: "  ", count: indent)
        switch json {
        case .object(let object) where !object.members.isEmpty:
            lines.append("\(space)\(head){")
            for (index, member) in object.members.enumerated() {
                let key = display.paint(JSONLine.quoted(member.key), .cyan)
                add(
                    member.value, indent: indent + 1, head: "\(key): ", tail: index + 1 < object.members.count ? "," : "",
                    to: &lines, display)
            }
            lines.append("\(space)}\(tail)")
        case .array(let values) where !values.isEmpty:
            lines.append("\(space)\(head)[")
            for (index, value) in values.enumerated() {
                add(value, indent: indent + 1, head: "", tail: index + 1 < values.count ? "," : "", to: &lines, display)
            }
            lines.append("\(space)]\(tail)")
        case .string(let text): lines.append("\(space)\(head)\(display.paint(JSONLine.quoted(text), .green))\(tail)")
        default: lines.append("\(space)\(head)\(display.paint(json.description, .yellow))\(tail)")
        }
    }
}
