import ConvoySerialization
import Foundation

extension RequestPlan {
    private static func item(_ name: Template, _ value: TreeTemplate) -> NamedValue {
        NamedValue(kind: .item, name: name.title, value: value, nameTemplate: name.literal == nil ? name : nil)
    }

    /// The values that the request sends, except its URL.
    var values: [NamedValue] {
        var values = headers.compactMap { header in
            header.value.map {
                NamedValue(kind: .field, name: header.name, value: TreeTemplate($0), isDefault: header.isDefault)
            }
        }
        values += query.map { Self.item($0.name, $0.value) }
        switch body {
        case .none, .file: break
        case .json(let tree): values.append(NamedValue(kind: .item, name: "", value: tree))
        case .form(let items): values += items.map { Self.item($0.name, $0.value) }
        case .multipart(let parts):
            values += parts.filter { !$0.isFile }.map { Self.item($0.name, TreeTemplate($0.value)) }
        case .text(let template): values.append(NamedValue(kind: .item, name: "", value: TreeTemplate(template)))
        }
        switch login {
        case .none: break
        case .bearer(let token):
            values.append(
                NamedValue(kind: .login, name: "bearer", value: TreeTemplate(token), isDefault: hasDefaultLogin))
        case .basic(_, let password):
            values.append(
                NamedValue(kind: .login, name: "basic", value: TreeTemplate(password), isDefault: hasDefaultLogin))
        }
        return values
    }

    /// Returns the secrets that the request sends, as far as they are known in a scope.
    func secrets(in scope: some Scope) -> [String] {
        var url = ""
        for piece in self.url.pieces { url += (try? piece.value(in: scope).json.text) ?? "" }
        return NamedSecrets.values(ofURL: url) + values.flatMap { $0.secrets(in: scope) } + connection.secrets(in: scope)
    }
}

extension WorkflowPlan {
    /// The secrets that are known before anything is sent, determined by their names and positions.
    var namedSecrets: [String] {
        var secrets = variables.flatMap { NamedSecrets.values(of: $0.value, named: $0.key) } + cookies.map(\.value)
        let scope = earlyScope
        for request in requests {
            secrets += request.secrets(in: scope)
            let templates = request.templates + (request.forEach?.templates ?? [])
            let checks = request.expectations.checks.map(\.expression) + (request.poll.map { [$0.until] } ?? [])
            let all = templates.flatMap(\.allReferences) + checks.flatMap(\.allReferences)
            for reference in all where reference.root == "env" && isSecret(reference) {
                if let value = try? scope.value(of: reference) { secrets.append(value.json.text) }
            }
        }
        return secrets
    }
}
