import ConvoySerialization

/// The outputs of a plan whose paths are known before anything is sent.
enum KnownOutputs {
    struct Output {
        let request: RequestPlan
        let template: Template
        /// The number of the item, from 0, or nil for a request without items.
        let index: Int?
        /// The path below the output directory, or the error if it is invalid.
        let path: Result<String, EvaluationError>
    }

    /// The values of the manifest and the environment, and the values of an item.
    private struct KnownScope: Scope {
        let early: EarlyScope
        var item: JSON?
        var index: Int?
        var files: FileRoot { early.files }

        func hides(_ expression: Expression) -> Bool { early.hides(expression) }

        func value(of reference: Reference) throws(EvaluationError) -> ScopedValue {
            switch reference.root {
            case "index": return ScopedValue(json: .number(JSONNumber(index ?? 0)))
            case "item":
                guard let found = item?.value(at: reference.path) else {
                    throw EvaluationError(message: "\(reference) does not exist")
                }
                return ScopedValue(json: found)
            default: return try early.value(of: reference)
            }
        }
    }

    static func all(of plan: WorkflowPlan) -> [Output] {
        let scope = KnownScope(early: plan.earlyScope)
        var outputs: [Output] = []
        for request in plan.requests {
            guard let template = request.output, !template.isVolatile, isKnown(template.references, in: plan) else {
                continue
            }
            guard let forEach = request.forEach else {
                outputs.append(output(of: request, template, scope))
                continue
            }
            guard isKnown(forEach.templates.flatMap(\.references), in: plan),
                case .array(let items)? = try? forEach.value(in: scope).json
            else { continue }
            for (index, item) in items.enumerated() {
                outputs.append(output(of: request, template, KnownScope(early: scope.early, item: item, index: index)))
            }
        }
        return outputs
    }

    private static func isKnown(_ references: [Reference], in plan: WorkflowPlan) -> Bool {
        references.allSatisfy { ["env", "item", "index"].contains($0.root) || plan.variables[$0.root] != nil }
    }

    private static func output(of request: RequestPlan, _ template: Template, _ scope: KnownScope) -> Output {
        let path: Result<String, EvaluationError>
        do throws(EvaluationError) {
            path = .success(try OutputPath.path(of: template, in: scope))
        } catch {
            path = .failure(error)
        }
        return Output(request: request, template: template, index: scope.index, path: path)
    }
}
