import ConvoySerialization
import ConvoySupport
import Foundation

/// A preview of a request, as far as it is known before anything is sent.
struct RequestPreview {
    /// The known values, and `${…}` for unknown values.
    private struct PreviewScope: Scope {
        let values: ItemScope

        var files: FileRoot { values.files }

        func value(of reference: Reference) throws(EvaluationError) -> ScopedValue {
            if values.values.plan.isKnownEarly(reference) { return try values.value(of: reference) }
            return ScopedValue(json: .string("${\(reference)}"))
        }

        func value(of expression: Expression) throws(EvaluationError) -> ScopedValue {
            let isKnown = expression.allReferences.allSatisfy { values.values.plan.isKnownEarly($0) }
            guard isKnown, !expression.isVolatile else {
                return ScopedValue(json: .string("${\(expression.source)}"))
            }
            return try values.value(of: expression)
        }
    }

    let plan: RequestPlan
    let values: RunValues
    let secrets: SecretMask

    private var scope: PreviewScope {
        var scope = ItemScope(values: values)
        scope.hidesSecrets = true
        scope.hidesNamedSecrets = secrets.hidesNamed
        return PreviewScope(values: scope)
    }

    var text: String {
        var lines = [
            "# \(plan.id)" + (plan.dependencies.isEmpty ? "" : ", after \(plan.dependencies.joined(separator: ", "))")
        ]
        if let forEach = plan.forEach { lines.append("# for each of \(json(forEach, named: "forEach").text)") }
        lines.append("\(plan.method) \(url)")
        for header in plan.headers {
            if let value = header.value { lines.append("\(header.name): \(field(header.name, value))") }
        }
        switch plan.login {
        case .none: break
        case .bearer(let token): lines.append("Authorization: Bearer \(login(token))")
        case .basic(let user, let password): lines.append("Authorization: Basic \(text(user)):\(login(password))")
        }
        switch plan.body {
        case .none: break
        case .json(let tree): lines += ["Content-Type: application/json", "", json(tree, named: "").text]
        case .form(let items): lines += ["Content-Type: application/x-www-form-urlencoded", "", self.items(items)]
        case .multipart(let parts):
            lines += ["Content-Type: multipart/form-data", ""]
            lines += parts.map { part in
                let value =
                    part.isFile ? "@\(text(part.value))" : json(TreeTemplate(part.value), named: text(part.name)).text
                return "\(text(part.name))=\(value)"
            }
        case .text(let template): lines += ["", json(TreeTemplate(template), named: "").text]
        case .file(let template): lines += ["", "(the file \(text(template)))"]
        }
        if let output = plan.output { lines.append("# into \(text(output))") }
        return secrets.masked(lines.joined(separator: "\n"))
    }

    private func text(_ template: Template) -> String { (try? template.text(in: scope)) ?? "" }

    /// Returns a value without its secrets.
    private func json(_ tree: TreeTemplate, named name: String) -> JSON {
        (try? tree.value(in: scope).json).map { secrets.masked($0, named: name) } ?? .null
    }

    /// Returns whether a value is not known yet, and therefore cannot be a secret.
    private func isUnknown(_ template: Template) -> Bool {
        template.wholeValue != nil && !template.allReferences.allSatisfy { values.plan.isKnownEarly($0) }
    }

    private func field(_ name: String, _ template: Template) -> String {
        isUnknown(template) ? text(template) : secrets.masked(field: name, text(template))
    }

    private func login(_ template: Template) -> String {
        isUnknown(template) || !secrets.hidesNamed ? text(template) : Redaction.mask
    }

    private func items(_ items: [(name: Template, value: TreeTemplate)]) -> String {
        items.map { "\(text($0.name))=\(json($0.value, named: text($0.name)).text)" }.joined(separator: "&")
    }

    private var url: String {
        var url = text(plan.url)
        if url.isEmpty, let base = values.plan.baseURL?.absoluteString {
            url = base
        } else if let base = values.plan.baseURL?.absoluteString, !url.hasPrefix("${"), !url.hasScheme {
            url =
                url.hasPrefix("/")
                ? (URLReference.url(
                    url, relativeTo: values.plan.baseURL, keepingDotSegments: plan.connection.keepsDotSegments)?
                    .absoluteString ?? url)
                : base + (base.hasSuffix("/") ? "" : "/") + url
        }
        if secrets.hidesNamed { url = Redaction.url(url) }
        let query = items(plan.query)
        return query.isEmpty ? url : url + (url.contains("?") ? "&" : "?") + query
    }
}
