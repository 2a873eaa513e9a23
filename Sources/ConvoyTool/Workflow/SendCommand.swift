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
        if let file = options.value("save") { try SavedRequest.append(draft, to: file, options, display) }
        return try run(workflow, try DownloadURL.parse(target.url), prints: captures.map(\.0), display, options)
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
        _ workflow: Workflow, _ url: URL, prints captures: [String], _ display: Display, _ options: Options
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
        if captures.isEmpty, let response = response.withLock({ $0 }) {
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

/// The arguments of `convoy send`.
enum SendItems {
    private enum Kind { case text, json, file, query, header }

    /// The parsed arguments. The method defaults to GET, or to POST if there is a body, as in HTTPie.
    struct Arguments {
        let method: String
        let url: String
        let items: ArraySlice<String>
    }

    /// Parses the arguments. Returns nil if the URL is missing.
    static func target(_ options: Options) -> Arguments? {
        guard let first = options.arguments.first else { return nil }
        let rest = options.arguments.dropFirst()
        if first.contains(where: { "/:.".contains($0) }) || first == "localhost" {
            let hasBody =
                options.has("body") || rest.contains { item($0).map { $0.1 != .query && $0.1 != .header } ?? false }
            return Arguments(method: hasBody ? "POST" : "GET", url: first, items: rest)
        }
        guard let url = rest.first else { return nil }
        return Arguments(method: first.uppercased(), url: url, items: rest.dropFirst())
    }

    static func draft(_ options: Options, _ target: Arguments) throws(ToolError) -> RequestDraft {
        let url = try DownloadURL.parse(target.url)
        var draft = RequestDraft(method: target.method, url: url.absoluteString)
        var items: [String] = []
        var object = JSONObject(), pairs: [(name: String, value: String)] = [], parts: [RequestDraft.Part] = []
        for argument in target.items {
            guard let (name, kind, value) = item(argument) else {
                throw options.usage(
                    "invalid item '\(Printable.line(argument))': use NAME=VALUE, NAME:=JSON, NAME@FILE, NAME==VALUE or Header:Value"
                )
            }
            switch kind {
            case .header: items.append("\(name): \(value)")
            case .query: draft.query.append((name, value))
            case .text:
                object[name] = .string(value)
                pairs.append((name, value))
                parts.append(RequestDraft.Part(name: name, value: value, isFile: false))
            case .json:
                guard let json = try? JSON(parsing: Data(value.utf8)) else {
                    throw options.usage("invalid JSON in '\(Printable.line(argument))'")
                }
                object[name] = json
                pairs.append((name, json.description))
                parts.append(RequestDraft.Part(name: name, value: json.description, isFile: false))
            case .file where options.has("multipart"):
                parts.append(RequestDraft.Part(name: name, value: value, isFile: true))
            case .file:
                let data = try InputFile.contents(
                    of: value, called: Printable.line(value), limit: DownloadList.maximumLength)
                guard let text = String(validating: data, as: UTF8.self) else {
                    let file = Printable.line(value)
                    throw options.usage(
                        "'\(Printable.line(argument))': \(file) is not UTF-8; use --multipart or --body to send it")
                }
                object[name] = .string(text)
                pairs.append((name, text))
            }
        }
        draft.headers = try Headers(options).adding(items).list
        draft.body = try body(object, pairs, parts, options)
        return draft
    }

    private static func body(
        _ object: JSONObject, _ pairs: [(name: String, value: String)], _ parts: [RequestDraft.Part], _ options: Options
    ) throws(ToolError) -> RequestDraft.Body? {
        if let file = options.value("body") {
            guard parts.isEmpty, pairs.isEmpty else { throw options.usage("--body cannot be combined with body items") }
            if file != "-" { return .file(file) }
            let data = try InputFile.contents(of: "-", called: "standard input", limit: DownloadList.maximumLength)
            if let text = String(validating: data, as: UTF8.self) { return .text(text) }
            guard !options.has("save") else {
                throw options.usage("standard input is not text and cannot be saved; use --body FILE")
            }
            return .file(try TemporaryBytes.path(of: data))
        }
        guard !parts.isEmpty || !pairs.isEmpty else { return nil }
        if options.has("multipart") {
            return .multipart(parts)
        }
        return options.has("form") ? .form(pairs) : .json(.object(object))
    }

    /// Splits an item into name, kind and value, at its first separator without a preceding backslash.
    private static func item(_ text: String) -> (String, Kind, String)? {
        var name = "", rest = text[...]
        while let next = rest.first, !":=@".contains(next) {
            rest.removeFirst()
            // As in HTTPie, `dc\:title=x` has a colon in its name.
            let isEscape = next == "\\" && rest.first.map { ":=@\\".contains($0) } == true
            name.append(isEscape ? rest.removeFirst() : next)
        }
        guard !name.isEmpty else { return nil }
        for (separator, kind) in [(":=", Kind.json), ("==", .query), ("=", .text), ("@", .file), (":", .header)]
        where rest.hasPrefix(separator) {
            return (name, kind, String(rest.dropFirst(separator.count)))
        }
        return nil
    }

    static func shellQuoted(_ text: String) -> String { "'\(text.replacing("'", with: "'\\''"))'" }
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
