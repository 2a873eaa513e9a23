import ConvoySupport
import Foundation

/// The top-level keys of a manifest and of the manifests that it includes.
///
/// An included manifest is read before the one that includes it, which may override its variables, defaults and base URL.
struct ManifestSources {
    /// The maximum number of manifests that are read together.
    private static let maximumCount = 1000

    /// The keys of each manifest, included ones first.
    private(set) var all: [[String: ManifestValue]] = []
    private var read: Set<String> = []

    init(_ root: ManifestValue) throws(ManifestError) {
        let name = root.document.name
        try add(root, open: [(name, Self.identity(of: name))])
    }

    private mutating func add(
        _ root: ManifestValue, open: [(name: String, identity: String)]
    ) throws(ManifestError) {
        let fields = try root.fields("the manifest", knowing: ManifestReader.keys)
        if let version = fields["version"] {
            guard case .number(let number) = version.json, number.text == "1" else {
                throw version.problem("version must be 1")
            }
        }
        for element in try fields["include"].map(Self.elements) ?? [] {
            let path = try element.path("include")
            let name =
                path.utf8.first == UInt8(ascii: "/")
                ? path : PathText.join(PathText.directory(of: root.document.name), path)
            let identity = Self.identity(of: name)
            guard !open.contains(where: { $0.identity == identity }) else {
                let names = (open.drop { $0.identity != identity }.map(\.name) + [name]).map { quoted($0) }
                throw element.problem("circular include: \(names.joined(separator: " -> "))")
            }
            guard read.insert(identity).inserted else { continue }
            guard read.count < Self.maximumCount else { throw element.problem("more than \(Self.maximumCount) includes") }
            let data: Data
            do throws(EvaluationError) {
                data = try NamedFile.contents(of: name)
            } catch {
                throw element.problem("include: \(error.message)")
            }
            let document = try ManifestDocument(parsing: data, name: name, files: root.document.files)
            try add(document.root, open: open + [(name, identity)])
        }
        all.append(fields)
    }

    private static func elements(of value: ManifestValue) throws(ManifestError) -> [ManifestValue] {
        if case .string = value.json { return [value] }
        return try value.elements("include")
    }

    /// Returns the same string for all paths of a file.
    private static func identity(of path: String) -> String { FileRoot.realPath(path) ?? path }

    /// Returns the values of a key in all manifests.
    func values(_ key: String) -> [ManifestValue] { all.compactMap { $0[key] } }
}
