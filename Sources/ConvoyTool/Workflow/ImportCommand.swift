import ConvoyDiagnostics
import ConvoySupport
import ConvoyWorkflow
import Foundation

/// `convoy import`: prints a manifest from a curl command, an HTTP Archive, a file of Hurl, or a collection of Postman or
/// Bruno.
enum ImportCommand {
    static func run(_ options: Options, _ display: Display) throws(ToolError) -> ExitStatus {
        switch options.arguments.first {
        case "curl":
            let words = options.arguments.dropFirst()
            guard !words.isEmpty else {
                throw options.usage("no curl command; put it in quotes, or use - for standard input")
            }
            var text = words.count == 1 ? words[1] : words.map(Printable.shellQuoted).joined(separator: " ")
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
        case "postman":
            guard options.arguments.count == 2 else { throw options.usage("import postman takes a file") }
            let file = options.arguments[1]
            let data = try InputFile.contents(of: file, called: Printable.line(file), limit: DownloadList.maximumLength)
            do throws(PostmanReader.Problem) {
                display.emit(String(try PostmanReader.manifest(data).dropLast()))
            } catch {
                throw .usage("import postman: \(Printable.line(file)): \(Printable.line(error.description))")
            }
        case "bruno":
            guard options.arguments.count == 2 else { throw options.usage("import bruno takes a directory or a file") }
            let directory = options.arguments[1]
            let sources = try sources(directory)
            do throws(BrunoReader.Problem) {
                display.emit(String(try BrunoReader.manifest(sources).dropLast()))
            } catch {
                throw .usage("import bruno: \(Printable.line(directory)): \(Printable.line(error.description))")
            }
        default: throw options.usage("import takes curl, har, hurl, postman or bruno")
        }
        return .success
    }

    /// Reads the files of a collection of Bruno, or one of its requests.
    private static func sources(_ path: String) throws(ToolError) -> [BrunoReader.Source] {
        let paths = InputDirectory.isDirectory(path) ? try InputDirectory.paths(in: path, withSuffixes: [".bru"]) : [path]
        return try paths.map { file throws(ToolError) in
            let data = try InputFile.contents(of: file, called: Printable.line(file), limit: DownloadList.maximumLength)
            let name = file == path ? PathText.name(of: file) : String(file.dropFirst(path.count).drop { $0 == "/" })
            return BrunoReader.Source(path: name, contents: data)
        }
    }

    /// Prints a manifest, with variables for its secrets.
    private static func emit(_ drafts: [(name: String, draft: RequestDraft)], _ options: Options, _ display: Display) {
        var drafts = drafts, secrets = SecretVariables()
        if !options.has("show-secrets") { secrets.hide(in: &drafts) }
        display.emit(String(RequestDraft.manifest(drafts).dropLast()))
    }
}
