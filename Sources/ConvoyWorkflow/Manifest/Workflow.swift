import ConvoySerialization
import Foundation

/// What a manifest is given from outside.
public struct WorkflowInputs: Sendable {
    /// Variables by name, which take the place of those in the manifest.
    public var variables: [String: String] = [:]
    /// What `${env.NAME}` stands for: by default the environment of the process.
    public var environment: [String: String]

    /// Inputs with an environment.
    public init(environment: [String: String] = ProcessInfo.processInfo.environment) { self.environment = environment }
}

/// Requests that pass values to each other, from a manifest, with all of it checked and nothing sent.
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

    /// The ids of the requests, in the order of the manifest.
    public var requestIDs: [String] { plan.requests.map(\.id) }
    /// The ids of the requests that capture secrets, which are not known before they have ended.
    public var idsCapturingSecrets: Set<String> { Set(plan.secretCaptures.keys) }
    /// The URL that those of the requests are relative to; nil if all of them are absolute.
    public var baseURL: URL? { plan.baseURL }

    /// A workflow from the text of a manifest, in JSON or YAML.
    ///
    /// - Parameters:
    ///   - data: the text, in UTF-8.
    ///   - name: its name, for messages.
    ///   - inputs: variables and the environment.
    public init(parsing data: Data, name: String, inputs: WorkflowInputs = WorkflowInputs()) throws(ManifestError) {
        plan = try ManifestReader.plan(of: try ManifestDocument(parsing: data, name: name), inputs)
        self.name = name
    }

    /// A workflow from a file.
    ///
    /// - Throws: `ManifestError`, or Foundation's error if the file cannot be read.
    public init(contentsOf file: URL, inputs: WorkflowInputs = WorkflowInputs()) throws {
        try self.init(parsing: try Data(contentsOf: file), name: file.relativePath, inputs: inputs)
    }

    private init(plan: WorkflowPlan, name: String) { (self.plan, self.name) = (plan, name) }

    /// The workflow with some of its requests, and those that they need.
    ///
    /// - Returns: nil if an id is unknown.
    public func only(_ ids: [String]) -> Workflow? {
        let requests = Dictionary(plan.requests.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
        var wanted: Set<String> = [], rest = ids
        while let id = rest.popLast() {
            guard let request = requests[id] else { return nil }
            if wanted.insert(id).inserted { rest += request.dependencies }
        }
        var plan = plan
        plan.requests.removeAll { !wanted.contains($0.id) }
        return Workflow(plan: plan, name: name)
    }

    /// What to say of a variable that is given, but that the manifest neither has nor uses; nil for one that it knows.
    package func complaint(aboutVariable name: String) -> String? {
        guard !plan.variableNames.contains(name) else { return nil }
        return "there is no variable \(quoted(name))\(Suggestion.text(for: name, among: plan.variableNames))"
    }

    /// The paths of the outputs that are known before anything is sent, below the output directory.
    package var knownOutputs: [String] { KnownOutputs.all(of: plan).compactMap { try? $0.path.get() } }

    /// Whether a request has an output.
    package var hasOutputs: Bool { plan.requests.contains { $0.output != nil } }

    /// A mask for the secrets that are known before anything is sent.
    ///
    /// - Parameter hidesNamed: whether values are masked because of their names.
    package func secrets(hidesNamed: Bool) -> SecretMask {
        let mask = SecretMask(hidesNamed: hidesNamed)
        mask.add(plan.secretValues)
        if hidesNamed { mask.add(named: plan.namedSecrets) }
        return mask
    }

    /// Whether a text is a manifest of this form: YAML, or JSON with a version or with requests by name. JSON with a list of
    /// requests is what `convoy run` had before.
    public static func isManifest(_ data: Data) -> Bool {
        guard ManifestDocument.isJSON(data) else { return true }
        guard let json = try? JSON(parsing: data, maximumDepth: ManifestDocument.maximumDepth) else { return false }
        if json[["version"]] != nil { return true }
        if case .object? = json[["requests"]] { return true }
        return false
    }

    /// The requests that have neither ended nor begun, with those that they wait for.
    package func waiting(ended: Set<String>, running: Set<String>) -> [(id: String, dependencies: [String])] {
        plan.requests.compactMap { request in
            guard !ended.contains(request.id), !running.contains(request.id) else { return nil }
            let missing = request.dependencies.filter { !ended.contains($0) || running.contains($0) }
            return missing.isEmpty ? nil : (request.id, missing)
        }
    }
}
