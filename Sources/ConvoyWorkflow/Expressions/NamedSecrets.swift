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
