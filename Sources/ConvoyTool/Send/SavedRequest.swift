import ConvoySerialization
import ConvoyWorkflow
import Foundation

/// Support for adding a request to a manifest file.
enum SavedRequest {
    static func append(
        _ draft: RequestDraft, to path: String, _ options: Options, _ display: Display
    ) throws(ToolError) {
        var draft = draft, inputs = WorkflowInputs(), secrets = SecretVariables()
        let left = addOptions(to: &draft, options)
        secrets.hide(in: &draft)
        for name in draft.variables { inputs.environment[name] = inputs.environment[name] ?? "" }
        var text = "", names: [String] = []
        if FileManager.default.fileExists(atPath: path) {
            let data = try InputFile.contents(
                of: path, called: "the manifest \(Printable.line(path))", limit: DownloadList.maximumLength)
            text = String(decoding: data, as: UTF8.self)
            // Variables need no values until the manifest is run.
            for name in text.components(separatedBy: "${env.").dropFirst().map({ String($0.prefix { $0 != "}" }) }) {
                inputs.environment[name] = inputs.environment[name] ?? ""
            }
            do throws(ManifestError) {
                names = try Workflow(parsing: data, name: path, inputs: inputs).requestIDs
            } catch {
                throw .usage(Printable.line(Shown.text(error.description)))
            }
        }
        let base = draft.suggestedName
        let name = ([base] + (2...10_000).map { "\(base)-\($0)" }).first { !names.contains($0) } ?? base
        if text.isEmpty {
            text = RequestDraft.manifest([(name, draft)])
        } else {
            text += (text.hasSuffix("\n") ? "" : "\n") + draft.yaml(name: name)
        }
        do throws(ManifestError) {
            // The manifest must end with its requests, in block style.
            guard try Workflow(parsing: Data(text.utf8), name: path, inputs: inputs).requestIDs == names + [name] else {
                throw ManifestError(file: path, line: 1, column: 1, message: "requests must be the last key of the manifest")
            }
        } catch {
            throw .usage("--save: cannot add a request: \(Printable.line(Shown.text(error.description)))")
        }
        try OutputFile(path, option: "save").write(Data(text.utf8))
        let shown = Printable.line(path)
        display.say("\(shown): \(name)")
        for note in draft.notes { display.complain("\(shown): \(Printable.line(note))") }
        for name in left { display.complain("\(shown): --\(name) was not saved; pass it to convoy run") }
    }

    /// The options that are manifest keys with a value of the same form.
    private static let texts = [
        "proxy", "noproxy", "unix-socket", "interface", "cacert", "crl-file", "cert", "key", "tls-min", "netrc-file",
    ]
    private static let flags = ["insecure", "ipv4", "ipv6", "http1.0", "http1.1", "path-as-is"]
    private static let numbers = ["max-redirs", "connect-timeout", "max-time", "retry", "timeout"]
    /// The options that concern the output or are already in the draft.
    private static let own: Set<String> = [
        "save", "form", "multipart", "body", "head", "expect", "capture", "curl", "header", "user-agent", "user", "verbose",
        "quiet", "show-secrets", "no-config", "har", "help", "color", "json", "silent", "no-progress", "print", "session",
        "auth", "bearer",
        "session-read-only",
    ]

    /// Adds the options to the request.
    ///
    /// - Returns: The names of the options that a manifest does not support.
    private static func addOptions(to draft: inout RequestDraft, _ options: Options) -> [String] {
        if let user = options.value("user") {
            draft.setChallengedLogin(user)
        }
        for key in texts {
            if let value = options.value(key) { draft.others[key] = .string(value.replacing("${", with: "$${")) }
        }
        for key in flags where options.has(key) { draft.others[key] = true }
        for key in numbers { if let value = options.value(key) { draft.others[key] = RequestDraft.value(value) } }
        let known = own.union(texts).union(flags).union(numbers)
        return OptionTable.options(of: .send).map(\.name).filter { options.has($0) && !known.contains($0) }
    }
}
