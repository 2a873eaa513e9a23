import ConvoySerialization
import ConvoySupport
import Foundation

/// A value of a request together with the name under which it is sent, which determines whether it is a secret.
struct NamedValue: Sendable {
    enum Kind: Sendable {
        /// A header field.
        case field
        /// A query item, a form item, or a member of a JSON object.
        case item
        /// A token or a password, which is always a secret.
        case login
    }

    let kind: Kind
    let name: String
    let value: TreeTemplate
    /// The name, if it is not known in advance.
    var nameTemplate: Template?
    /// Whether the value comes from the defaults of the manifest.
    var isDefault = false

    /// The name of the value in a message.
    var title: String {
        switch kind {
        case .field: "the header \(name)"
        case .item: quoted(name)
        case .login: name
        }
    }

    /// Returns the parts of the value that are secrets. Parts that have no value in the scope are omitted.
    func secrets(in scope: some Scope) -> [String] {
        switch kind {
        case .login: return value.texts(in: scope)
        case .field: return value.texts(in: scope).flatMap { NamedSecrets.values(ofField: name, $0) }
        case .item:
            let name = nameTemplate.flatMap { try? $0.text(in: scope) } ?? name
            return NamedSecrets.values(of: value, named: name, in: scope)
        }
    }
}

/// Functions that find secrets by their names and positions, according to ``SecretClassifier``.
enum NamedSecrets {
    private static let classifier = SecretClassifier.standard
    /// The minimum length of a secret that is masked wherever it occurs. Masking every `1` or `test` would hide strings
    /// that are not secrets.
    static let minimumLength = 6

    /// Returns the secrets in a value, determined by the names of its members.
    static func values(of json: JSON, named name: String, isHidden: Bool = false) -> [String] {
        switch json {
        case .array(let elements): return elements.flatMap { values(of: $0, named: name, isHidden: isHidden) }
        case .object(let object):
            let isHidden = isHidden || classifier.hides(member: name, nil)
            return object.members.flatMap { values(of: $0.value, named: $0.key, isHidden: isHidden) }
        case .null, .bool: return []
        default:
            if isHidden || classifier.hides(member: name, json.text) { return [json.text] }
            return values(ofURL: json.text)
        }
    }

    static func values(
        of tree: TreeTemplate, named name: String, isHidden: Bool = false, in scope: some Scope
    ) -> [String] {
        switch tree {
        case .array(let elements):
            return elements.flatMap { values(of: $0, named: name, isHidden: isHidden, in: scope) }
        case .object(let members):
            let isHidden = isHidden || classifier.hides(member: name, nil)
            return members.flatMap { member in
                let key = (try? member.key.text(in: scope)) ?? member.key.title
                return values(of: member.value, named: key, isHidden: isHidden, in: scope)
            }
        case .constant, .text:
            guard let json = try? tree.value(in: scope).json else { return [] }
            return values(of: json, named: name, isHidden: isHidden)
        }
    }

    /// Returns the secrets in a header field: the value, and its parts that are also secrets elsewhere.
    static func values(ofField name: String, _ text: String) -> [String] {
        guard classifier.hides(field: name, text) else { return values(ofURL: text) }
        var values = [text]
        let words = text.split(separator: " " as Character, maxSplits: 1).map(String.init)
        if words.count == 2 { values.append(words[1]) }
        if words.count == 2, words[0].lowercased() == "basic", let data = Data(base64Encoded: words[1]) {
            let login = String(decoding: data, as: UTF8.self)
            values += [login, String(login.drop { $0 != ":" }.dropFirst())]
        }
        if name.lowercased() == "cookie" {
            for pair in text.split(separator: ";" as Character) {
                values.append(String(pair.drop { $0 != "=" }.dropFirst()))
            }
        }
        return values
    }

    /// Returns the secrets in a URL: its password, and items of its query.
    static func values(ofURL text: String) -> [String] {
        guard text.contains("@") || text.contains("=") else { return [] }
        var values: [String] = []
        if let login = URLUserInfo.parts(of: text) {
            let user = String(decoding: login.user, as: UTF8.self)
            // A token may be used as the user name.
            if login.password == nil || user.utf8.count >= 16 { values.append(user) }
            if let password = login.password { values.append(String(decoding: password, as: UTF8.self)) }
        }
        guard let query = text.utf8.firstIndex(where: { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }) else {
            return values
        }
        for item in text.utf8[query...].split(whereSeparator: { "?#&;".utf8.contains($0) }) {
            guard let equals = item.firstIndex(of: UInt8(ascii: "=")) else { continue }
            let name = PercentEncoding.decoded(Array(item[..<equals])[...])
            let value = PercentEncoding.decoded(Array(item[item.index(after: equals)...])[...])
            if classifier.hides(item: name, value) { values.append(String(decoding: value, as: UTF8.self)) }
        }
        return values
    }

    /// Returns whether a name denotes a secret.
    static func isSecret(_ name: String) -> Bool { classifier.contains(name) }
}

extension TreeTemplate {
    /// Returns the strings of the value, without those that have no value in the scope.
    fileprivate func texts(in scope: some Scope) -> [String] {
        switch self {
        case .array(let elements): elements.flatMap { $0.texts(in: scope) }
        case .object(let members): members.flatMap { $0.value.texts(in: scope) }
        case .constant, .text: (try? value(in: scope).json).map(SecretMask.texts) ?? []
        }
    }

    /// Creates a value from a template.
    init(_ template: Template) { self = template.literal.map { .constant(.string($0)) } ?? .text(template) }
}

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
