import ConvoySerialization
import Foundation

/// A request as it would be sent, so far as it is known before anything was sent.
struct RequestPreview {
    /// Values that are known, and `${…}` for the others.
    private struct PreviewScope: Scope {
        let values: ItemScope

        func value(of reference: Reference) throws(EvaluationError) -> ScopedValue {
            if reference.root == "env" || values.values.plan.variables[reference.root] != nil {
                return try values.value(of: reference)
            }
            return ScopedValue(json: .string("${\(reference)}"))
        }
    }

    let plan: RequestPlan
    let values: RunValues
    let secrets: SecretMask

    var text: String {
        var scope = ItemScope(values: values)
        scope.hidesSecrets = true
        let known = PreviewScope(values: scope)
        func text(_ template: Template) -> String { (try? template.text(in: known)) ?? "" }
        func text(_ tree: TreeTemplate) -> String { (try? tree.value(in: known).json).map { $0.text } ?? "" }
        var url = text(plan.url)
        if let base = values.plan.baseURL?.absoluteString, !url.hasPrefix("${"), !url.hasScheme {
            url =
                url.hasPrefix("/")
                ? (URL(string: url, relativeTo: values.plan.baseURL)?.absoluteString ?? url)
                : base + (base.hasSuffix("/") ? "" : "/") + url
        }
        let query = plan.query.map { "\($0.name)=\(text($0.value))" }.joined(separator: "&")
        if !query.isEmpty { url += (url.contains("?") ? "&" : "?") + query }
        var lines = [
            "# \(plan.id)" + (plan.dependencies.isEmpty ? "" : ", after \(plan.dependencies.joined(separator: ", "))")
        ]
        if let forEach = plan.forEach { lines.append("# for each of \(text(forEach))") }
        lines.append("\(plan.method) \(url)")
        for header in plan.headers { if let value = header.value { lines.append("\(header.name): \(text(value))") } }
        switch plan.login {
        case .none: break
        case .bearer(let token): lines.append("Authorization: Bearer \(token.literal == nil ? text(token) : "***")")
        case .basic(let user, _): lines.append("Authorization: Basic \(text(user)):***")
        }
        switch plan.body {
        case .none: break
        case .json(let tree): lines += ["Content-Type: application/json", "", text(tree)]
        case .form(let items):
            lines += [
                "Content-Type: application/x-www-form-urlencoded", "",
                items.map { "\($0.name)=\(text($0.value))" }.joined(separator: "&"),
            ]
        case .multipart(let parts):
            lines +=
                ["Content-Type: multipart/form-data", ""]
                + parts.map { "\($0.name)=\($0.isFile ? "@" : "")\(text($0.value))" }
        case .text(let template): lines += ["", text(template)]
        case .file(let template): lines += ["", "(the file \(text(template)))"]
        }
        if let output = plan.output { lines.append("# into \(text(output))") }
        return secrets.masked(lines.joined(separator: "\n"))
    }
}
