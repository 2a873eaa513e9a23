import Convoy
import ConvoySupport
import ConvoyWorkflow
import Foundation

/// A manifest on the command line, or in a directory there.
struct ManifestFile: Sendable {
    /// The path, or `standard input`.
    let name: String
    let contents: Data

    /// Whether the manifest cannot be read a second time.
    var isStream: Bool { name == "standard input" || SpecialFile.isStream(name) }

    /// Reads the manifests that arguments name.
    ///
    /// A directory stands for the manifests in it and in its directories, in the order of their paths. Names that begin
    /// with `.` or `_` are skipped, and JSON files that are not manifests.
    static func all(_ options: Options) throws(ToolError) -> [ManifestFile] {
        guard !options.arguments.isEmpty else { throw options.usage("no manifest") }
        var files: [ManifestFile] = []
        for argument in options.arguments {
            guard argument != "-" else {
                files.append(try ManifestFile(path: argument, name: "standard input"))
                continue
            }
            guard InputDirectory.isDirectory(argument) else {
                files.append(try ManifestFile(path: argument, name: argument))
                continue
            }
            var found: [ManifestFile] = []
            for path in try InputDirectory.paths(in: argument, withSuffixes: [".yaml", ".yml", ".json"]) {
                let file = try ManifestFile(path: path, name: path)
                if !path.hasSuffix(".json") || Workflow.isManifest(file.contents) { found.append(file) }
            }
            guard !found.isEmpty else { throw .usage("\(Printable.line(argument)) contains no manifests") }
            files += found
        }
        return files
    }

    private init(path: String, name: String) throws(ToolError) {
        contents = try InputFile.contents(
            of: path, called: "the manifest \(Printable.line(name))", limit: DownloadList.maximumLength)
        self.name = name
    }
}
