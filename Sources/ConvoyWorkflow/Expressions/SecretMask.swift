import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation

/// Replaces secrets by `***` in everything that a run prints or writes: the values that were added, and those whose names
/// say that they are secrets.
public final class SecretMask: Sendable {
    private let forms = Locked<[String]>([])
    /// The mask whose secrets this one replaces, too.
    private let parent: SecretMask?
    /// Whether values are masked because of their names.
    let hidesNamed: Bool

    /// A mask without secrets.
    public init() { (hidesNamed, parent) = (true, nil) }

    /// - Parameter hidesNamed: whether values are masked because of their names; false for `--show-secrets`.
    package init(hidesNamed: Bool) { (self.hidesNamed, parent) = (hidesNamed, nil) }

    /// A mask with the secrets of another one, to which further ones are added without changing that.
    init(extending parent: SecretMask) { (self.parent, hidesNamed) = (parent, parent.hidesNamed) }

    /// Adds secrets: as they are, and in the forms that they have in URLs, in JSON, in HTML and in a `Basic` login.
    public func add(_ secrets: [String]) {
        var new: Set<String> = []
        for secret in secrets where !secret.isEmpty {
            new.insert(secret)
            new.insert(Escaping.url(secret))
            new.insert(Escaping.url(secret).replacing("%20", with: "+"))
            // A server may echo JSON within JSON.
            let json = Self.escaped(secret)
            new.formUnion([json, json.replacing("/", with: "\\/"), Self.escaped(json)])
            new.insert(String(quoted(secret, isCut: false).dropFirst().dropLast()))
            new.insert(Data(secret.utf8).base64EncodedString())
            new.insert(secret.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;"))
        }
        add(new)
    }

    /// Adds values that are secrets by their names. Short ones are only masked where their names are.
    func add(named values: [String]) {
        guard hidesNamed else { return }
        add(values.filter { $0.utf8.count >= NamedSecrets.minimumLength })
    }

    /// Adds a text that is a secret in this form only.
    func add(exactly secret: String) { add([secret] as Set) }

    private static func escaped(_ text: String) -> String { String(JSON.string(text).description.dropFirst().dropLast()) }

    private func add(_ new: Set<String>) {
        guard !new.isEmpty else { return }
        forms.withLock { forms in
            guard !new.isSubset(of: forms) else { return }
            // The longest first, as one may be a part of another.
            forms = Set(forms).union(new).sorted { ($0.utf8.count, $0) > ($1.utf8.count, $1) }
        }
    }

    /// The text with `***` for the secrets that were added.
    public func masked(_ text: String) -> String {
        let forms = forms.withLock { $0 }
        var text = parent?.masked(text) ?? text
        for form in forms where text.contains(form) { text = text.replacing(form, with: "***") }
        return text
    }

    /// A text from outside with `***` for the secrets that were added, and for those in its URLs.
    func masked(foreign text: String) -> String { masked(hidesNamed ? Redaction.text(text) : text) }

    /// The value of a header field with `***` for its secrets.
    func masked(field name: String, _ value: String) -> String {
        masked(hidesNamed ? SecretClassifier.standard.shown(name, value) : value)
    }

    /// A value with `***` for its secrets, and for those that the names of its members tell.
    package func masked(_ value: JSON, named name: String) -> JSON {
        guard hidesNamed else { return masked(value) { masked($0) } }
        var object = JSONObject()
        object.append(key: name, value: value)
        guard case .object(let shown) = BodyRedaction.shown(.object(object)) else { return value }
        return masked(shown[name] ?? .null) { masked(foreign: $0) }
    }

    /// A JSON text with `***` for all secrets in its values; its keys stay as they are. What is no JSON is masked as text.
    public func masked(json data: Data) -> Data {
        guard let json = try? JSON(parsing: data) else { return Data(masked(String(decoding: data, as: UTF8.self)).utf8) }
        return Data(masked(json) { masked($0) }.description.utf8)
    }

    private func masked(_ json: JSON, _ mask: (String) -> String) -> JSON {
        switch json {
        case .string(let text): return .string(mask(text))
        case .array(let values): return .array(values.map { masked($0, mask) })
        case .object(let object):
            var result = JSONObject()
            for member in object.members { result.append(key: member.key, value: masked(member.value, mask)) }
            return .object(result)
        default: return json
        }
    }

    /// Whether a secret is in a value.
    func finds(in json: JSON) -> Bool {
        if parent?.finds(in: json) == true { return true }
        let forms = forms.withLock { $0 }
        return Self.texts(of: json).contains { text in forms.contains { text.contains($0) } }
    }

    /// All texts and numbers of a value.
    static func texts(of json: JSON) -> [String] {
        switch json {
        case .null, .bool: []
        case .number(let number): [number.text]
        case .string(let text): [text]
        case .array(let values): values.flatMap(texts)
        case .object(let object): object.members.flatMap { texts(of: $0.value) }
        }
    }
}
