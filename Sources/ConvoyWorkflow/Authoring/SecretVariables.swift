import ConvoySerialization
import ConvoySupport
import Foundation

/// Environment variables that replace the secrets of requests, so that a manifest can be stored and shared.
package struct SecretVariables {
    /// The secrets, keyed by the names of their variables.
    package private(set) var values: [String: String] = [:]
    private var names: [String: String] = [:]
    private var found: [(variable: String, place: String)] = []
    private var unwritable: [String] = []
    private let classifier = SecretClassifier.standard

    package init() {}

    /// Replaces the secrets of requests, and adds notes about the variables to each request.
    package mutating func hide(in drafts: inout [(name: String, draft: RequestDraft)]) {
        for name in drafts.flatMap(\.draft.variables) { names[RequestDraft.reference(to: name)] = name }
        for index in drafts.indices { hide(in: &drafts[index].draft) }
    }

    /// Replaces the secrets of a request, and adds notes about the variables.
    package mutating func hide(in draft: inout RequestDraft) {
        found = []
        unwritable = []
        hideURL(of: &draft)
        for index in draft.headers.indices {
            draft.headers[index].value = field(draft.headers[index].name, draft.headers[index].value)
        }
        for index in draft.query.indices {
            let item = draft.query[index]
            if isHidden(item.name, item.value) {
                draft.query[index].value = reference(to: item.value, for: item.name, at: item.name)
            }
        }
        if let login = draft.login, !login.password.isEmpty, !login.password.contains("\0") {
            draft.login?.password = reference(to: login.password, for: "PASSWORD", at: "the password of \(login.user)")
        }
        hideBody(of: &draft)
        for (variable, place) in found where !draft.secretVariables.contains(variable) {
            draft.variables.insert(variable)
            draft.secretVariables.append(variable)
            draft.notes.append("\(place): not written here; give it as \(variable) in the environment of convoy run")
        }
        draft.notes += unwritable
    }

    private func isHidden(_ name: String, _ value: String) -> Bool {
        !value.isEmpty && !value.contains("\0") && classifier.hides(item: name.utf8, value.utf8)
    }

    /// Returns the placeholder for a secret. Equal secrets share a variable.
    private mutating func reference(to secret: String, for name: String, at place: String) -> String {
        let variable: String
        if let known = names[secret] {
            variable = known
        } else {
            let base = Self.variable(for: name)
            let taken = Set(names.values)
            variable = ([base] + (2...(names.count + 2)).map { "\(base)_\($0)" }).first { !taken.contains($0) } ?? base
            (names[secret], values[variable]) = (variable, secret)
        }
        found.append((variable, place))
        return RequestDraft.reference(to: variable)
    }

    /// Returns the variable for a name: `X_API_KEY` for `X-Api-Key`, and `USER_PASSWORD` for `user[password]`.
    private static func variable(for name: String) -> String {
        let words = name.split { !($0.isASCII && ($0.isLetter || $0.isNumber)) }.map { $0.uppercased() }
        let text = words.joined(separator: "_")
        return ShellWords.isName(text) ? text : "SECRET" + (text.isEmpty ? "" : "_\(text)")
    }

    // MARK: The places

    private mutating func field(_ name: String, _ value: String) -> String {
        guard !value.isEmpty, !value.contains("\0") else { return value }
        guard classifier.hides(field: name, value) else {
            return NamedSecrets.values(ofURL: value).filter { $0.utf8.count >= NamedSecrets.minimumLength }
                .reduce(value) { $0.replacing($1, with: reference(to: $1, for: name, at: name)) }
        }
        // The scheme of an Authorization field is not a secret.
        let words = value.split(separator: " " as Character, maxSplits: 1).map(String.init)
        guard name.lowercased().hasSuffix("authorization"), words.count == 2, !words[1].contains("=\"") else {
            return reference(to: value, for: name, at: name)
        }
        let isToken = ["bearer", "token"].contains(words[0].lowercased())
        return "\(words[0]) \(reference(to: words[1], for: isToken ? "TOKEN" : name, at: name))"
    }

    private mutating func hideURL(of draft: inout RequestDraft) {
        if let login = URLUserInfo.parts(of: draft.url), !draft.url.contains("\0") {
            let password = String(decoding: login.password ?? login.user, as: UTF8.self)
            let user = login.password == nil ? "" : Escaping.url(String(decoding: login.user, as: UTF8.self)) + ":"
            if !password.isEmpty {
                let text = URLUserInfo.removed(from: draft.url)
                let hidden = reference(to: password, for: "PASSWORD", at: "the login of the URL")
                draft.url = text.replacing("://", with: "://\(user)\(hidden)@", maxReplacements: 1)
            }
        }
        guard let question = draft.url.firstIndex(of: "?") else { return }
        let head = draft.url[...question], query = draft.url[draft.url.index(after: question)...]
        let items = query.split(separator: "&" as Character, omittingEmptySubsequences: false).map { item -> String in
            guard let equals = item.firstIndex(of: "="), let name = Self.decoded(item[..<equals]) else {
                return String(item)
            }
            let raw = item[item.index(after: equals)...]
            guard let value = Self.decoded(raw), isHidden(name, value) else { return String(item) }
            if Escaping.url(value) != raw {
                unwritable.append("\(name): sent with another percent-encoding, which has the same meaning")
            }
            return "\(item[..<equals])=\(reference(to: value, for: name, at: name))"
        }
        draft.url = head + items.joined(separator: "&")
    }

    private static func decoded(_ text: Substring) -> String? { text.replacing("+", with: " ").removingPercentEncoding }

    private mutating func hideBody(of draft: inout RequestDraft) {
        switch draft.body {
        case nil, .file?: break
        case .json(let json)?: draft.body = .json(hidden(json, named: "", isSecret: false))
        case .form(var items)?:
            for index in items.indices where isHidden(items[index].name, items[index].value) {
                items[index].value = reference(to: items[index].value, for: items[index].name, at: items[index].name)
            }
            draft.body = .form(items)
        case .multipart(var parts)?:
            for index in parts.indices where !parts[index].isFile && isHidden(parts[index].name, parts[index].value) {
                parts[index].value = reference(to: parts[index].value, for: parts[index].name, at: parts[index].name)
            }
            draft.body = .multipart(parts)
        case .text(let text)?: draft.body = .text(hidden(text))
        }
    }

    private mutating func hidden(_ json: JSON, named name: String, isSecret: Bool) -> JSON {
        switch json {
        case .array(let elements): return .array(elements.map { hidden($0, named: name, isSecret: isSecret) })
        case .object(let object):
            let isSecret = isSecret || (!name.isEmpty && classifier.hides(member: name, nil))
            var result = JSONObject()
            for member in object.members {
                result.append(key: member.key, value: hidden(member.value, named: member.key, isSecret: isSecret))
            }
            return .object(result)
        case .string(let text):
            guard !text.isEmpty, !text.contains("\0"), isSecret || classifier.hides(member: name, text) else { return json }
            return .string(reference(to: text, for: name, at: name))
        case .number(let number):
            if isSecret || classifier.hides(member: name, number.text) {
                unwritable.append("\(name): written as it is, because a variable is a text and this is a number")
            }
            return json
        default: return json
        }
    }

    /// Returns a string with the secrets of its JSON or form replaced.
    private mutating func hidden(_ text: String) -> String {
        if let json = try? JSON(parsing: Data(text.utf8)) {
            var text = text
            for secret in Set(NamedSecrets.values(of: json, named: "")).sorted() where !secret.isEmpty {
                let quoted = JSON.string(secret).description
                guard text.contains(quoted) else { continue }
                text.replace(quoted, with: "\"\(reference(to: secret, for: "SECRET", at: "a secret of the body"))\"")
            }
            return text
        }
        return text.split(separator: "&" as Character, omittingEmptySubsequences: false).map { item -> String in
            guard let equals = item.firstIndex(of: "="), let name = Self.decoded(item[..<equals]),
                name.utf8.count < 200, !name.contains(where: \.isWhitespace)
            else { return String(item) }
            let raw = String(item[item.index(after: equals)...])
            guard let value = Self.decoded(raw[...]), isHidden(name, value) else { return String(item) }
            let place = raw == value ? name : "\(name), percent-encoded"
            return "\(item[..<equals])=\(reference(to: raw, for: name, at: place))"
        }.joined(separator: "&")
    }
}
