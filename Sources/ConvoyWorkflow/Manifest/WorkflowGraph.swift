import ConvoySerialization
import Foundation

/// Functions that determine the dependencies of the requests, and check for unknown names and cycles.
enum WorkflowGraph {
    static func check(_ plan: inout WorkflowPlan) throws(ManifestError) {
        let known = Dictionary(plan.requests.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
        for index in plan.requests.indices {
            plan.requests[index].dependencies = try dependencies(of: plan.requests[index], plan, known)
        }
        noteVariables(&plan)
        try checkCycles(plan)
        try readSecrets(&plan, known)
        try checkOutputs(plan)
    }

    private static func dependencies(
        of request: RequestPlan, _ plan: WorkflowPlan, _ known: [String: RequestPlan]
    ) throws(ManifestError) -> [String] {
        var found: [String] = []
        func add(_ reference: Reference, at source: ManifestValue) throws(ManifestError) {
            if let id = try check(reference, at: source, in: request, plan, known), !found.contains(id) { found.append(id) }
        }
        for template in request.templates + (request.forEach?.templates ?? []) {
            for reference in template.references { try add(reference, at: template.source) }
        }
        let root = request.url.source.document.root
        let own = root.child(.null, "requests").child(.null, request.id)
        for reference in request.when?.references ?? [] {
            guard reference.root != "item", reference.root != "index" else {
                throw own.child(.null, "when").problem("when cannot use item or index, as it is evaluated before them")
            }
            try add(reference, at: own.child(.null, "when"))
        }
        let place = own.child(.null, "poll").child(.null, "until")
        for reference in request.poll?.until.references ?? [] { try add(reference, at: place) }
        for check in request.expectations.checks {
            for reference in check.expression.references {
                guard reference.root == request.id else {
                    try add(reference, at: check.source)
                    continue
                }
                let names = request.captures.map(\.name)
                guard let name = reference.path.first, names.contains(name) else {
                    let name = reference.path.first ?? ""
                    throw check.source.problem(
                        ResponseName(rawValue: name) == nil
                            ? "\(quoted(request.id)) has no capture \(quoted(name))\(Suggestion.text(for: name, among: names))"
                            : "\(reference) is not known before the end of \(quoted(request.id)); write \(name)")
                }
            }
        }
        for value in try after(of: request) {
            let id = try value.string("an element of after")
            guard known[id] != nil else {
                throw value.problem(
                    "after names the unknown request \(quoted(id))\(Suggestion.text(for: id, among: known.keys))")
            }
            if !found.contains(id) { found.append(id) }
        }
        return found
    }

    /// Adds the names of variables that the manifest uses but does not declare. Their values come from outside.
    private static func noteVariables(_ plan: inout WorkflowPlan) {
        defer { plan.variableNames.formIntersection(plan.variables.keys) }
        guard plan.variables.keys.contains(where: { !plan.variableNames.contains($0) }) else { return }
        var references = plan.secretMarks.map(\.0)
        for request in plan.requests {
            references += request.references
            references += request.forEach?.templates.flatMap(\.references) ?? []
            references += request.when?.references ?? []
        }
        plan.variableNames.formUnion(references.map(\.root))
    }

    private static func after(of request: RequestPlan) throws(ManifestError) -> [ManifestValue] {
        let pointer = JSONPointer(tokens: ["requests", request.id, "after"])
        let document = request.url.source.document
        guard let json = document.json[pointer], json != .null else { return [] }
        let value = ManifestValue(json: json, pointer: pointer, document: document)
        if case .string = json { return [value] }
        return try value.elements("after")
    }

    /// Checks a reference.
    ///
    /// - Returns: The request that the reference depends on, or nil for a variable, an item or the environment.
    private static func check(
        _ reference: Reference, at source: ManifestValue, in request: RequestPlan, _ plan: WorkflowPlan,
        _ known: [String: RequestPlan]
    ) throws(ManifestError) -> String? {
        switch reference.root {
        case "env":
            guard let name = reference.path.first, reference.path.count == 1 else {
                throw source.problem("invalid reference ${\(reference)}: write env.NAME for an environment variable")
            }
            guard plan.environment[name] != nil else {
                let near = Suggestion.text(for: name, among: plan.environment.keys)
                throw source.problem("the environment variable \(name) is not set\(near)")
            }
            return nil
        case "item", "index":
            guard request.forEach != nil else { throw source.problem("${\(reference)} requires forEach") }
            let isInForEach = request.forEach?.templates.contains { $0.source.pointer == source.pointer } ?? false
            guard !isInForEach else { throw source.problem("forEach cannot use its own items") }
            return nil
        default: break
        }
        if let value = plan.variables[reference.root] {
            guard value.value(at: reference.path) != nil else {
                throw source.problem(
                    "the variable \(quoted(reference.root)) has no \(quoted(reference.path.joined(separator: ".")))")
            }
            return nil
        }
        guard let other = known[reference.root] else {
            let names = Array(known.keys) + plan.variables.keys + ["env", "item"]
            let near = Suggestion.text(for: reference.root, among: names)
            let isOfResponse = ResponseName(rawValue: reference.root) != nil
            let hint = isOfResponse ? "; in expect and until, write \(reference) without ${…} for the response" : near
            throw source.problem("${\(reference)}: unknown request or variable \(quoted(reference.root))\(hint)")
        }
        let names = other.captures.map(\.name) + ReservedName.ofRequests
        guard let name = reference.path.first else {
            throw source.problem(
                "${\(reference)} names a request; its values are \(names.map { "\(other.id).\($0)" }.joined(separator: ", "))"
            )
        }
        guard names.contains(name) else {
            throw source.problem(
                "\(quoted(other.id)) has no capture \(quoted(name))\(Suggestion.text(for: name, among: names))")
        }
        return other.id
    }

    // MARK: Cycles

    private static func checkCycles(_ plan: WorkflowPlan) throws(ManifestError) {
        var finished: Set<String> = []
        let edges = Dictionary(plan.requests.map { ($0.id, $0.dependencies) }, uniquingKeysWith: { first, _ in first })
        for request in plan.requests where !finished.contains(request.id) {
            // Do not use recursion, because a chain may be long.
            var path: [(id: String, next: Int)] = [(request.id, 0)]
            var open: Set<String> = [request.id]
            while let (id, next) = path.last {
                let others = edges[id] ?? []
                guard next < others.count else {
                    finished.insert(id)
                    open.remove(id)
                    path.removeLast()
                    continue
                }
                path[path.count - 1].next += 1
                let other = others[next]
                if open.contains(other) {
                    let cycle = path.map(\.id).drop { $0 != other } + [other]
                    let root = (plan.requests.first { $0.id == other } ?? request).url.source.document.root
                    let place = root.child(.null, "requests").child(.null, other)
                    let names = cycle.map { quoted($0) }.joined(separator: " -> ")
                    throw place.problem("circular dependency: \(names)", atKey: true)
                }
                guard !finished.contains(other) else { continue }
                open.insert(other)
                path.append((other, 0))
            }
        }
    }

    private static func checkOutputs(_ plan: WorkflowPlan) throws(ManifestError) {
        // Compare the bytes of the paths: names whose accents are encoded differently are different files.
        var owners: [Data: String] = [:]
        for request in plan.requests {
            guard let output = request.output, request.forEach != nil, output.literal != nil else { continue }
            throw output.source.problem("all items have the same output; use ${item} or ${index}")
        }
        for output in KnownOutputs.all(of: plan) {
            let path: String
            do throws(EvaluationError) {
                path = try output.path.get()
            } catch {
                let secrets = SecretMask()
                secrets.add(plan.secretValues)
                secrets.add(named: plan.namedSecrets)
                throw output.template.source.problem(secrets.masked(error.message))
            }
            let id = output.request.id
            guard let other = owners.updateValue(id, forKey: Data(path.utf8)) else { continue }
            guard other != id else {
                throw output.template.source.problem("two items of \(quoted(id)) have the same output")
            }
            throw output.template.source.problem("\(quoted(other)) and \(quoted(id)) have the same output")
        }
    }

    // MARK: Secrets

    private static func readSecrets(_ plan: inout WorkflowPlan, _ known: [String: RequestPlan]) throws(ManifestError) {
        for (reference, source) in plan.secretMarks {
            if reference.root == "env" || plan.variables[reference.root] != nil {
                do throws(EvaluationError) {
                    plan.secretValues += SecretMask.texts(of: try plan.earlyScope.value(of: reference).json)
                } catch {
                    throw source.problem(error.message)
                }
                continue
            }
            guard let request = known[reference.root] else {
                let names = Array(known.keys) + plan.variables.keys + ["env"]
                throw source.problem(
                    "unknown request or variable \(quoted(reference.root))\(Suggestion.text(for: reference.root, among: names))"
                )
            }
            let names = request.captures.map(\.name)
            guard let name = reference.path.first, names.contains(name) else {
                let name = reference.path.first ?? ""
                throw source.problem(
                    "\(quoted(request.id)) has no capture \(quoted(name))\(Suggestion.text(for: name, among: names))")
            }
            plan.secretCaptures[request.id, default: []].insert(name)
        }
    }
}
