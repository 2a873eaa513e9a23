import ConvoySerialization
import ConvoySupport
import Foundation

/// The outcome of one item of a request, and its captured values.
struct ItemResult: Sendable {
    var outcome: RequestOutcome
    var item: JSON?
    var captures: [String: JSON] = [:]
}

/// The results of a request.
struct NodeResult: Sendable {
    var items: [ItemResult] = []
    var isList = false
    var state = RequestOutcome.State.succeeded
    /// Whether the outcome counts as a success for dependent requests.
    var lets = true
    /// The secret captures that were not stored in the earlier run in which the request succeeded.
    var missing: Set<String> = []
}

/// The values of a run: the results of the requests so far.
final class RunValues: Sendable {
    let plan: WorkflowPlan
    private let results = Locked<[String: NodeResult]>([:])

    init(_ plan: WorkflowPlan) { self.plan = plan }

    func set(_ result: NodeResult, of id: String) { results.withLock { $0[id] = result } }

    func result(of id: String) -> NodeResult? { results.withLock { $0[id] } }

    /// Returns the value of a reference to a request.
    func value(of reference: Reference) throws(EvaluationError) -> ScopedValue {
        guard let result = result(of: reference.root), let name = reference.path.first else {
            throw EvaluationError(message: "\(reference) has no value")
        }
        let value: JSON
        switch name {
        case "failed" where result.isList: value = Self.items(result) { $0 == .failed }
        case "succeeded" where result.isList: value = Self.items(result) { $0 == .succeeded || $0 == .kept }
        case "failed": value = .bool(result.state == .failed)
        case "succeeded": value = .bool(result.state == .succeeded || result.state == .kept)
        case "skipped": value = .bool(result.state == .skipped)
        default:
            if result.isList {
                value = .array(result.items.map { Self.value(name, of: $0) ?? .null })
            } else {
                guard let item = result.items.first, let found = Self.value(name, of: item) else {
                    let reason = result.state == .skipped ? "was not sent" : "failed"
                    throw EvaluationError(message: "\(reference) has no value: \(quoted(reference.root)) \(reason)")
                }
                value = found
            }
        }
        guard let found = value.value(at: reference.path.dropFirst()) else {
            throw EvaluationError(message: "\(reference) does not exist in the captured value")
        }
        // The path of the output file was sanitized when the file was created.
        return ScopedValue(json: found, isHostile: name != "file")
    }

    private static func items(_ result: NodeResult, _ isWanted: (RequestOutcome.State) -> Bool) -> JSON {
        .array(result.items.filter { isWanted($0.outcome.state) }.map { $0.item ?? .null })
    }

    private static func value(_ name: String, of item: ItemResult) -> JSON? {
        if let value = item.captures[name] { return value }
        switch name {
        case "status": return item.outcome.status.map { .number(JSONNumber($0)) }
        case "url": return item.outcome.url.map { .string($0) }
        case "file": return item.outcome.file.map { .string($0) }
        case "bytes": return .number(JSONNumber(item.outcome.bytes))
        case "seconds": return JSONNumber(item.outcome.seconds).map { .number($0) }
        default: return nil
        }
    }
}

/// The values for a request, or for one of its items.
struct ItemScope: Scope {
    let values: RunValues
    var item: ScopedValue?
    var index: Int?
    /// Whether to mask the secrets that the manifest marks, so that derived values can be stored.
    var hidesSecrets = false
    /// Whether to also mask values whose names identify them as secrets.
    var hidesNamedSecrets = false
    /// The values of functions such as `uuid()`, which an item evaluates only once.
    let fixedValues = FixedValues()

    /// Values of expressions that would otherwise differ from evaluation to evaluation.
    final class FixedValues: Sendable {
        private let values = Locked<[ObjectIdentifier: ScopedValue]>([:])

        subscript(expression: Expression) -> ScopedValue? {
            get { values.withLock { $0[ObjectIdentifier(expression.identity)] } }
            set { values.withLock { $0[ObjectIdentifier(expression.identity)] = newValue } }
        }
    }

    private func isHidden(_ reference: Reference) -> Bool {
        hidesSecrets && values.plan.isLeftOutOfJournal(reference)
            || hidesNamedSecrets && values.plan.isSecret(reference)
    }

    var files: FileRoot { values.plan.files }

    func hides(_ expression: Expression) -> Bool { values.plan.usesSecret(expression) }

    func value(of expression: Expression) throws(EvaluationError) -> ScopedValue {
        if expression.allReferences.contains(where: isHidden) { return ScopedValue(json: "***") }
        guard expression.isVolatile else { return try evaluated(expression) }
        // A value that differs in every run is not an input.
        if hidesSecrets { return ScopedValue(json: .string("${\(expression.source)}")) }
        if let known = fixedValues[expression] { return known }
        let value = try evaluated(expression)
        fixedValues[expression] = value
        return value
    }

    func value(of reference: Reference) throws(EvaluationError) -> ScopedValue {
        if isHidden(reference) { return ScopedValue(json: "***") }
        switch reference.root {
        case "item":
            guard let item, let found = item.json.value(at: reference.path) else {
                throw EvaluationError(message: "\(reference) does not exist")
            }
            return ScopedValue(json: found, isHostile: item.isHostile)
        case "index": return ScopedValue(json: .number(JSONNumber(index ?? 0)))
        default: break
        }
        if values.plan.isKnownEarly(reference) {
            return try values.plan.earlyScope.value(of: reference)
        }
        return try values.value(of: reference)
    }
}

extension RequestPlan {
    /// Returns the values that expressions of the request compute from secrets, for example in Base64. The mask does not
    /// recognize the secrets in them.
    func derivedSecrets(in scope: ItemScope) -> [String] {
        let expressions = templates.flatMap(\.pieces).compactMap { piece in
            if case .expression(let expression) = piece { expression } else { nil }
        }
        return expressions.flatMap { expression -> [String] in
            let references = expression.allReferences
            guard references.contains(where: scope.values.plan.isSecret), let value = try? scope.value(of: expression)
            else { return [] }
            let isMarked = references.contains(where: scope.values.plan.isMarked)
            // A short number, such as a length, is not a secret.
            return SecretMask.texts(of: value.json).filter { text in
                text.utf8.count >= NamedSecrets.minimumLength || isMarked && JSONNumber(text) == nil
            }
        }
    }
}
