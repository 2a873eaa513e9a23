import ConvoyDiagnostics
import ConvoyWorkflow
import Foundation

/// `convoy import`: prints a manifest from a curl command, an HTTP Archive, or a file of Hurl.
enum ImportCommand {
    static func run(_ options: Options, _ display: Display) throws(ToolError) -> ExitStatus {
        switch options.arguments.first {
        case "curl":
            let words = options.arguments.dropFirst()
            guard !words.isEmpty else {
                throw options.usage("no curl command; put it in quotes, or use - for standard input")
            }
            var text = words.count == 1 ? words[1] : words.map(SendItems.shellQuoted).joined(separator: " ")
            if text == "-" {
                let data = try InputFile.contents(of: "-", called: "standard input", limit: DownloadList.maximumLength)
                text = String(decoding: data, as: UTF8.self)
            }
            do throws(CurlCommandLine.Problem) {
                emit(try CurlCommandLine.drafts(text), options, display)
            } catch {
                throw .usage("import curl: \(Printable.line(error.description))")
            }
        case "har":
            guard options.arguments.count == 2 else { throw options.usage("import har takes a file") }
            let file = options.arguments[1]
            let data = try InputFile.contents(of: file, called: Printable.line(file), limit: DownloadList.maximumLength)
            guard let drafts = ArchiveReader.drafts(data) else {
                throw .usage("\(Printable.line(file)) is not an HTTP Archive")
            }
            guard !drafts.isEmpty else { throw .usage("\(Printable.line(file)) has no requests of http or https") }
            emit(drafts, options, display)
        case "hurl":
            guard options.arguments.count == 2 else { throw options.usage("import hurl takes a file") }
            let file = options.arguments[1]
            let data = try InputFile.contents(of: file, called: Printable.line(file), limit: DownloadList.maximumLength)
            do throws(HurlReader.Problem) {
                display.emit(String(try HurlReader.manifest(data).dropLast()))
            } catch {
                throw .usage("import hurl: \(Printable.line(file)): \(Printable.line(error.description))")
            }
        default: throw options.usage("import takes curl, har or hurl")
        }
        return .success
    }

    /// Prints a manifest, with variables for its secrets.
    private static func emit(_ drafts: [(name: String, draft: RequestDraft)], _ options: Options, _ display: Display) {
        var drafts = drafts, secrets = SecretVariables()
        if !options.has("show-secrets") { secrets.hide(in: &drafts) }
        display.emit(String(RequestDraft.manifest(drafts).dropLast()))
    }
}
