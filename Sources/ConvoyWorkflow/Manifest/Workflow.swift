import ConvoySerialization
import Foundation

/// The external values of a manifest.
public struct WorkflowInputs: Sendable {
    /// The variables, keyed by name. They override those in the manifest.
    public var variables: [String: JSON] = [:]
    /// The values of `${env.NAME}`. The default is the environment of the process.
    public var environment: [String: String]
    /// The names in ``environment`` whose values are numbers, booleans or null if they read as such, as in ``value(of:)``.
    package var typedNames: Set<String> = []
    /// The directory of the files that requests send and expressions read, or nil for the current directory. If it is set,
    /// files outside it are rejected.
    public var fileRoot: URL?

    /// Returns the value of a text from a command line or a file: a number, true, false or null if it is spelled as in
    /// JSON, and otherwise a string. Double quotes around the text are removed, and make it a string: `"3"`.
    package static func value(of text: String) -> JSON {
        if text.utf8.count >= 2, text.hasPrefix("\""), text.hasSuffix("\"") {
            return .string(String(text.dropFirst().dropLast()))
        }
        switch text {
        case "true": return true
        case "false": return false
        case "null": return nil
        default: return JSONNumber(text).map { .number($0) } ?? .string(text)
        }
    }

    /// Creates inputs with an environment.
    public init(environment: [String: String] = ProcessInfo.processInfo.environment) { self.environment = environment }
}

/// A set of requests that pass values to each other, read from a manifest and fully validated, but not yet sent.
///
/// ```swift
/// let workflow = try Workflow(contentsOf: file)
/// let result = await WorkflowRun(workflow).run()
/// ```
///
/// The article `Workflows` describes manifests.
public struct Workflow: Sendable {
    let plan: WorkflowPlan
    /// The name of the manifest, for messages.
    public let name: String

    /// The IDs of the requests, in the order of the manifest.
    public var requestIDs: [String] { plan.requests.map(\.id) }
    /// The IDs of the requests that capture secrets, which are unknown until these requests have ended.
    package var idsCapturingSecrets: Set<String> { Set(plan.secretCaptures.keys) }
    /// The base URL of the requests, or nil if all URLs are absolute.
    public var baseURL: URL? { plan.baseURL }

    /// Creates a workflow from the text of a manifest, in JSON or YAML.
    ///
    /// - Parameters:
    ///   - data: The text, in UTF-8.
    ///   - name: The name of the manifest, for messages. Paths in `include` are relative to its directory.
    ///   - inputs: Variables and the environment.
    public init(parsing data: Data, name: String, inputs: WorkflowInputs = WorkflowInputs()) throws(ManifestError) {
        let files = FileRoot(directory: inputs.fileRoot?.path)
        plan = try ManifestReader.plan(of: try ManifestDocument(parsing: data, name: name, files: files), inputs)
        self.name = name
    }

    /// Creates a workflow from a file.
    ///
    /// - Throws: `ManifestError`, or Foundation's error if the file cannot be read.
    public init(contentsOf file: URL, inputs: WorkflowInputs = WorkflowInputs()) throws {
        // The path must lead to the file, because included manifests are found relative to it.
        let path = file.relativePath
        let name = URL(fileURLWithPath: path).path == file.path ? path : file.path
        try self.init(parsing: try Data(contentsOf: file), name: name, inputs: inputs)
    }

    private init(plan: WorkflowPlan, name: String) {
        self.plan = plan
        self.name = name
    }

    /// Returns the workflow reduced to some of its requests and their dependencies.
    ///
    /// - Parameter names: The IDs or the tags of the requests.
    /// - Returns: The workflow, or nil if a name is unknown.
    public func only(_ names: [String]) -> Workflow? {
        let requests = Dictionary(plan.requests.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
        guard unknownName(in: names) == nil else { return nil }
        var wanted: Set<String> = [], rest = names.flatMap(ids)
        while let id = rest.popLast() {
            guard let request = requests[id] else { return nil }
            if wanted.insert(id).inserted { rest += request.dependencies }
        }
        var plan = plan
        plan.requests.removeAll { !wanted.contains($0.id) }
        return Workflow(plan: plan, name: name)
    }

    /// Returns the workflow without some of its requests and those that depend on them. A request with a `when` condition,
    /// such as a teardown, remains if it uses no value of them.
    ///
    /// - Parameter names: The IDs or the tags of the requests.
    /// - Returns: The workflow, or nil if a name is unknown.
    public func skipping(_ names: [String]) -> Workflow? {
        guard unknownName(in: names) == nil else { return nil }
        var skipped = Set(names.flatMap(ids)), isComplete = false
        while !isComplete {
            isComplete = true
            for request in plan.requests where !skipped.contains(request.id) {
                let used =
                    request.when.map { when in
                        (request.references + when.references + (request.forEach?.templates.flatMap(\.references) ?? []))
                            .map(\.root)
                    } ?? request.dependencies
                guard used.contains(where: skipped.contains) else { continue }
                skipped.insert(request.id)
                isComplete = false
            }
        }
        var plan = plan
        plan.requests.removeAll { skipped.contains($0.id) }
        for index in plan.requests.indices { plan.requests[index].dependencies.removeAll(where: skipped.contains) }
        return Workflow(plan: plan, name: name)
    }

    /// Returns the workflow without its expectations. Only requests that write files still require a success.
    package func acceptingAllResponses() -> Workflow {
        var plan = plan
        for index in plan.requests.indices {
            plan.requests[index].expectations = ExpectationPlan()
            if plan.requests[index].output == nil { plan.requests[index].expectations.statuses = [100...999] }
        }
        return Workflow(plan: plan, name: name)
    }

    /// Returns the IDs of the requests with an ID or a tag.
    private func ids(_ name: String) -> [String] {
        plan.requests.filter { $0.id == name || $0.tags.contains(name) }.map(\.id)
    }

    /// Returns the first name that is neither an ID nor a tag.
    package func unknownName(in names: [String]) -> String? { names.first { ids($0).isEmpty } }

    /// Returns a message about a given variable that the manifest neither declares nor uses, or nil if it is known.
    package func complaint(aboutVariable name: String) -> String? {
        guard !plan.variableNames.contains(name) else { return nil }
        return "unknown variable \(quoted(name))\(Suggestion.text(for: name, among: plan.variableNames))"
    }

    /// The paths of the outputs that are known before anything is sent, relative to the output directory.
    package var knownOutputs: [String] { KnownOutputs.all(of: plan).compactMap { try? $0.path.get() } }

    /// Whether any request has an output.
    package var hasOutputs: Bool { plan.requests.contains { $0.output != nil } }

    /// Returns a mask for the secrets that are known before anything is sent.
    ///
    /// - Parameter hidesNamed: Whether values are masked because of their names.
    package func secrets(hidesNamed: Bool) -> SecretMask {
        let mask = SecretMask(hidesNamed: hidesNamed)
        mask.add(plan.secretValues)
        if hidesNamed { mask.add(named: plan.namedSecrets) }
        return mask
    }

    /// Returns whether a string is a manifest of this form: YAML, or JSON with a version or with named requests. JSON
    /// with a list of requests is the older format of `convoy run`.
    package static func isManifest(_ data: Data) -> Bool {
        guard ManifestDocument.isJSON(data) else { return true }
        guard let json = try? JSON(parsing: data, maximumDepth: ManifestDocument.maximumDepth) else { return false }
        if json[["version"]] != nil || json[["include"]] != nil { return true }
        if case .object? = json[["requests"]] { return true }
        return false
    }

    /// Returns the requests that have neither ended nor started, with the dependencies that they wait for.
    package func waiting(ended: Set<String>, running: Set<String>) -> [(id: String, dependencies: [String])] {
        plan.requests.compactMap { request in
            guard !ended.contains(request.id), !running.contains(request.id) else { return nil }
            let missing = request.dependencies.filter { !ended.contains($0) || running.contains($0) }
            return missing.isEmpty ? nil : (request.id, missing)
        }
    }
}
