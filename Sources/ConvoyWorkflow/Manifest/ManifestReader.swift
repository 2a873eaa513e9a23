import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import Foundation

/// A decoder for the top level of a manifest, its variables and its defaults. ``RequestReader`` decodes the requests.
struct ManifestReader {
    static let keys = ["version", "include", "baseURL", "variables", "secrets", "secrets-for", "defaults", "requests"]
    static let defaultKeys =
        [
            "timeout", "retry", "perHost", "perSecond", "jobs", "headers", "bearer", "basic", "onFailure", "cookie-jar",
            "cookies", "hsts", "delay",
        ]
        + ConnectionPlan.keys

    private let inputs: WorkflowInputs
    private(set) var plan = WorkflowPlan()

    init(_ inputs: WorkflowInputs) { self.inputs = inputs }

    static func plan(of document: ManifestDocument, _ inputs: WorkflowInputs) throws(ManifestError) -> WorkflowPlan {
        var reader = ManifestReader(inputs)
        try reader.read(document.root)
        try WorkflowGraph.check(&reader.plan)
        return reader.plan
    }

    private mutating func read(_ root: ManifestValue) throws(ManifestError) {
        let sources = try ManifestSources(root)
        guard let requests = sources.values("requests").last else {
            throw root.problem("the manifest has no \"requests\"")
        }
        plan.environment = inputs.environment
        plan.typedNames = inputs.typedNames
        plan.files = root.document.files
        for value in sources.values("secrets") { try readSecretMarks(value) }
        try readVariables(sources.values("variables"))
        var defaults: [String: ManifestValue] = [:]
        for value in sources.values("defaults") {
            defaults.merge(try value.fields("defaults", knowing: Self.defaultKeys)) { $1 }
        }
        try readLimits(defaults)
        if let base = sources.values("baseURL").last {
            let template = try Template(base, "baseURL")
            try checkEarly(template)
            plan.variableNames.formUnion(template.references.map(\.root))
            let text = try evaluated(template)
            guard let url = URL(string: text), Target(url) != nil else {
                throw base.problem("baseURL must be an absolute http or https URL")
            }
            plan.baseURL = url
        }
        try readStores(defaults)
        for servers in sources.values("secrets-for") { try readServers(servers) }
        var members: [ManifestValue.Member] = []
        for value in sources.values("requests") { members += try value.members("requests") }
        guard !members.isEmpty else { throw requests.problem("the manifest has no requests") }
        // Create the connection settings once, because all requests share their rate limit.
        var connection = ConnectionPlan()
        try connection.read(defaults)
        var known: [String: ManifestValue] = [:]
        for member in members {
            if let other = known.updateValue(member.value, forKey: member.key) {
                throw member.problem("\(quoted(member.key)) is already a request of \(quoted(other.document.name))")
            }
            guard Reference.isName(member.key) else {
                throw member.problem("invalid request name \(quoted(member.key)): use letters, digits, - and _")
            }
            guard !ReservedName.all.contains(member.key) else {
                throw member.problem("\(quoted(member.key)) is reserved and cannot be the name of a request")
            }
            guard plan.variables[member.key] == nil else {
                throw member.problem("\(quoted(member.key)) is already the name of a variable")
            }
            plan.requests.append(
                try RequestReader.plan(
                    of: member, defaults: defaults, connection: connection, hasBase: plan.baseURL != nil))
        }
    }

    private mutating func readSecretMarks(_ value: ManifestValue) throws(ManifestError) {
        for element in try value.elements("secrets") {
            let text = try element.string("a secret")
            let bare = text.hasPrefix("${") && text.hasSuffix("}") ? String(text.dropFirst(2).dropLast()) : text
            guard let reference = Reference(bare) else { throw element.problem("invalid reference \(quoted(text))") }
            plan.secretMarks.append((reference, element))
        }
    }

    /// Reads the servers that may receive secrets in addition to those of the URLs in the manifest.
    private mutating func readServers(_ value: ManifestValue) throws(ManifestError) {
        for element in try value.elements("secrets-for") {
            let template = try Template(element, "an element of secrets-for")
            try checkEarly(template)
            plan.variableNames.formUnion(template.references.map(\.root))
            guard let server = Target(try evaluated(template)) else {
                throw element.problem("secrets-for takes absolute http or https URLs")
            }
            plan.serversForSecrets.insert(server)
        }
    }

    private mutating func readLimits(_ defaults: [String: ManifestValue]) throws(ManifestError) {
        plan.perHost = try defaults["perHost"].map { value throws(ManifestError) in try value.integer("perHost", in: 1...256)
        }
        plan.jobs = try defaults["jobs"].map { value throws(ManifestError) in try value.integer("jobs", in: 1...256) }
        plan.perSecond = try defaults["perSecond"].map { value throws(ManifestError) in try value.rate("perSecond") }
    }

    /// Reads the paths of the cookie file and the HSTS file, and checks the files.
    private mutating func readStores(_ defaults: [String: ManifestValue]) throws(ManifestError) {
        func file(_ key: String) throws(ManifestError) -> URL? {
            guard let value = defaults[key] else { return nil }
            let template = try Template(value, key)
            try checkEarly(template)
            plan.variableNames.formUnion(template.references.map(\.root))
            let path = try evaluated(template)
            return try ManifestValue(json: .string(path), pointer: value.pointer, document: value.document).file(key)
        }
        plan.cookieJar = try file("cookie-jar")
        if let value = defaults["cookies"] {
            guard plan.baseURL != nil else { throw value.problem("cookies requires baseURL", atKey: true) }
            for member in try value.members("cookies") {
                let template = try Template(member.value.json.text, at: member.value)
                try checkEarly(template)
                plan.variableNames.formUnion(template.references.map(\.root))
                let text = try evaluated(template)
                guard !member.key.isEmpty, !Escaping.hasControls(member.key + text),
                    !(member.key + text).contains(where: { ";\t".contains($0) }), !member.key.contains("=")
                else { throw member.problem("invalid cookie \(quoted(member.key))") }
                plan.cookies.append((member.key, text))
            }
        }
        plan.hsts = try file("hsts")
        do {
            _ = try RunStores(plan)
        } catch {
            let key = error is HSTSStoreError ? "hsts" : "cookie-jar"
            throw (defaults[key] ?? defaults["hsts"])?.problem("\(key): \(FailureText.line(for: error))")
                ?? ManifestError(file: "", line: 1, column: 1, message: FailureText.line(for: error))
        }
    }

    // MARK: Variables

    private mutating func readVariables(_ values: [ManifestValue]) throws(ManifestError) {
        var trees: [String: (tree: TreeTemplate, value: ManifestValue)] = [:]
        var names: [String] = []
        var members: [ManifestValue.Member] = []
        for value in values { members += try value.members("variables") }
        for member in members {
            guard Reference.isName(member.key), !ReservedName.all.contains(member.key) else {
                throw member.problem("invalid variable name \(quoted(member.key))")
            }
            if trees[member.key] == nil { names.append(member.key) }
            trees[member.key] = (try TreeTemplate(member.value), member.value)
        }
        plan.variables.merge(inputs.variables) { $1 }
        plan.variableNames = Set(names)
        plan.variableNames.formUnion(trees.values.flatMap(\.tree.templates).flatMap(\.references).map(\.root))
        for name in names where plan.variables[name] == nil {
            var open: [String] = []
            try evaluate(name, trees, &open)
        }
    }

    private mutating func evaluate(
        _ name: String, _ trees: [String: (tree: TreeTemplate, value: ManifestValue)], _ open: inout [String]
    ) throws(ManifestError) {
        guard plan.variables[name] == nil, let (tree, value) = trees[name] else { return }
        guard !value.isNull else { throw value.problem("the variable \(quoted(name)) has no value: set it with --var") }
        guard !open.contains(name) else {
            throw value.problem("circular variables: \((open + [name]).joined(separator: " -> "))")
        }
        open.append(name)
        defer { open.removeLast() }
        for template in tree.templates {
            for reference in template.references where trees[reference.root] != nil {
                try evaluate(reference.root, trees, &open)
            }
            try checkEarly(template, also: Array(trees.keys))
        }
        // A variable that is computed from a secret is a secret.
        if case .text(let template) = tree, case .expression(let expression)? = template.wholeValue,
            expression.allReferences.contains(where: plan.isMarked)
        {
            plan.secretMarks.append((Reference(root: name, path: []), value))
        }
        do throws(EvaluationError) {
            plan.variables[name] = try tree.value(in: plan.earlyScope).json
        } catch {
            throw value.problem(error.message)
        }
    }

    /// Checks that a template uses only values that are known before anything is sent.
    private func checkEarly(_ template: Template, also names: [String] = []) throws(ManifestError) {
        for reference in template.references where reference.root != "env" && plan.variables[reference.root] == nil {
            let known = Array(plan.variables.keys) + names
            throw template.source.problem(
                "unknown variable ${\(reference)}\(Suggestion.text(for: reference.root, among: known))")
        }
    }

    private func evaluated(_ template: Template) throws(ManifestError) -> String {
        do throws(EvaluationError) {
            return try template.text(in: plan.earlyScope)
        } catch {
            throw template.source.problem(error.message)
        }
    }
}

/// Reserved names in references.
enum ReservedName {
    static let all: Set<String> = [
        "env", "item", "index", "true", "false", "null", "and", "or", "not", "any", "all", "always",
    ]
    /// The values of every request, in addition to its captures.
    static let ofRequests = ["status", "url", "failed", "succeeded", "skipped", "file", "bytes", "seconds"]
}

/// A validated manifest.
struct WorkflowPlan: Sendable {
    var baseURL: URL?
    var variables: [String: JSON] = [:]
    /// The names of the variables that the manifest declares or uses.
    var variableNames: Set<String> = []
    var environment: [String: String] = [:]
    /// The environment variables whose values have types.
    var typedNames: Set<String> = []
    /// The files that requests may send and expressions may read.
    var files = FileRoot.none
    var perHost: Int?
    var perSecond: Double?
    var jobs: Int?
    /// The cookie file, or nil.
    var cookieJar: URL?
    /// The cookies that the server of the base URL receives from the start.
    var cookies: [(name: String, value: String)] = []
    /// The file of the hosts that require HTTPS, or nil.
    var hsts: URL?
    var requests: [RequestPlan] = []
    var secretMarks: [(Reference, ManifestValue)] = []
    /// The servers named by `secrets-for`.
    var serversForSecrets: Set<Target> = []
    /// The values that are secret from the start.
    var secretValues: [String] = []
    /// The captures that are secret, keyed by request.
    var secretCaptures: [String: Set<String>] = [:]

    /// Returns whether the value of a reference, or a value that contains it, is marked as secret, or is a secret by its
    /// name.
    func isSecret(_ reference: Reference) -> Bool { isMarked(reference) || isSecretByName(reference) }

    /// Returns the captures of a request that are secrets, by mark or by name.
    func hiddenCaptures(of request: RequestPlan) -> Set<String> {
        (secretCaptures[request.id] ?? []).union(request.captures.map(\.name).filter(NamedSecrets.isSecret))
    }

    /// Returns whether the value of a reference is known before anything is sent.
    func isKnownEarly(_ reference: Reference) -> Bool { reference.root == "env" || variables[reference.root] != nil }

    private func isSecretByName(_ reference: Reference) -> Bool {
        if let value = variables[reference.root] {
            guard let found = value.value(at: reference.path) else { return false }
            return !NamedSecrets.values(of: found, named: reference.path.last ?? reference.root).isEmpty
        }
        switch reference.root {
        case "item", "index": return false
        default: return reference.path.first.map(NamedSecrets.isSecret) ?? false
        }
    }

    /// Returns whether a reference names a secret that must not be stored in the journal: a value that is marked, or a
    /// capture that is a secret by its name. Such a capture is missing in a resumed run.
    func isLeftOutOfJournal(_ reference: Reference) -> Bool {
        isMarked(reference) || !isKnownEarly(reference) && isSecretByName(reference)
    }

    /// Returns whether the value of a reference, or a value that contains it, is marked as secret.
    func isMarked(_ reference: Reference) -> Bool {
        if let name = reference.path.first, secretCaptures[reference.root]?.contains(name) == true { return true }
        return secretMarks.contains { mark, _ in mark.root == reference.root && reference.path.starts(with: mark.path) }
    }

    var earlyScope: EarlyScope {
        EarlyScope(
            variables: variables, environment: environment, typedNames: typedNames, secrets: secretMarks.map(\.0),
            files: files)
    }

    /// Returns whether an expression uses a secret.
    func usesSecret(_ expression: Expression) -> Bool {
        expression.namesSecret || expression.allReferences.contains(where: isSecret)
    }
}

/// The values that are known before anything is sent: variables and the environment.
struct EarlyScope: Scope {
    let variables: [String: JSON]
    let environment: [String: String]
    var typedNames: Set<String> = []
    /// The values that the manifest marks as secret.
    var secrets: [Reference] = []
    var files = FileRoot.none

    func hides(_ expression: Expression) -> Bool {
        expression.namesSecret
            || expression.allReferences.contains { reference in
                secrets.contains { $0.root == reference.root && reference.path.starts(with: $0.path) }
            }
    }

    func value(of reference: Reference) throws(EvaluationError) -> ScopedValue {
        if reference.root == "env" {
            guard reference.path.count == 1, let value = environment[reference.path[0]] else {
                throw EvaluationError(
                    message: "the environment variable \(reference.path.joined(separator: ".")) is not set")
            }
            return ScopedValue(
                json: typedNames.contains(reference.path[0]) ? WorkflowInputs.value(of: value) : .string(value))
        }
        guard let value = variables[reference.root] else {
            throw EvaluationError(message: "unknown variable ${\(reference)}")
        }
        guard let found = value.value(at: reference.path) else {
            throw EvaluationError(
                message: "the variable \(reference.root) has no \(quoted(reference.path.joined(separator: ".")))")
        }
        return ScopedValue(json: found)
    }
}
