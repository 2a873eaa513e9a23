import ConvoyDiagnostics
import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation

/// A mask that replaces secrets with `***` in everything that a run prints or writes. It replaces the values that were
/// added, and values whose names identify them as secrets.
package final class SecretMask: Sendable {
    private struct KnownSecrets {
        /// The secrets in all forms, longest first.
        var forms: [String] = []
        /// The same forms, by their bytes: forms that are canonically equivalent are different.
        var known: Set<ExactString> = []
        /// The secrets that were added in all forms, by their bytes.
        var secrets: Set<ExactString> = []
    }

    private let state = Locked(KnownSecrets())
    /// The mask that this mask extends. Its secrets are replaced as well.
    private let parent: SecretMask?
    /// Whether values are masked because of their names.
    let hidesNamed: Bool

    /// Creates a mask without secrets.
    package init() {
        hidesNamed = true
        parent = nil
    }

    /// - Parameter hidesNamed: Whether values are masked because of their names; false for `--show-secrets`.
    package init(hidesNamed: Bool) {
        self.hidesNamed = hidesNamed
        parent = nil
    }

    /// Creates a mask with the secrets of another mask. Adding secrets does not change the other mask.
    init(extending parent: SecretMask) {
        self.parent = parent
        hidesNamed = parent.hidesNamed
    }

    /// Adds secrets, as they are and in their encoded forms in URLs, JSON, HTML and `Basic` logins.
    package func add(_ secrets: [String]) {
        // Computing the forms takes much longer than looking up a secret, and most requests send the same ones.
        let unknown = Set(secrets.filter { !$0.isEmpty }.map(ExactString.init)).filter { !hasAllForms(of: $0) }
        var new: [String] = []
        for secret in unknown.map(\.text) {
            new.append(secret)
            new.append(Escaping.url(secret))
            new.append(Escaping.url(secret).replacing("%20", with: "+"))
            // A server may echo JSON within JSON.
            let json = Self.escaped(secret)
            new.append(contentsOf: [json, json.replacing("/", with: "\\/"), Self.escaped(json)])
            new.append(String(quoted(secret, isCut: false).dropFirst().dropLast()))
            new.append(Data(secret.utf8).base64EncodedString())
            new.append(secret.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;"))
        }
        add(Set(new.map(ExactString.init)), allFormsOf: unknown)
    }

    private func hasAllForms(of secret: ExactString) -> Bool {
        parent?.hasAllForms(of: secret) == true || state.withLock { $0.secrets.contains(secret) }
    }

    /// Adds the secrets of another mask.
    package func add(from other: SecretMask) {
        if let parent = other.parent { add(from: parent) }
        add(Set(other.forms.map(ExactString.init)))
    }

    private var forms: [String] { state.withLock { $0.forms } }

    /// Adds values that are secrets because of their names. Short values are masked only next to their names.
    func add(named values: [String]) {
        guard hidesNamed else { return }
        add(values.filter { $0.utf8.count >= NamedSecrets.minimumLength })
    }

    /// Adds a string that is a secret in exactly this form.
    func add(exactly secret: String) { add([ExactString(secret)] as Set) }

    private static func escaped(_ text: String) -> String { String(JSON.string(text).description.dropFirst().dropLast()) }

    private func add(_ new: Set<ExactString>, allFormsOf secrets: Set<ExactString> = []) {
        guard !new.isEmpty else { return }
        state.withLock { state in
            state.secrets.formUnion(secrets)
            let new = new.subtracting(state.known)
            guard !new.isEmpty else { return }
            state.known.formUnion(new)
            // Put the longest forms first, because one form may be part of another.
            state.forms = state.known.map(\.text).sorted { ($0.utf8.count, $0) > ($1.utf8.count, $1) }
        }
    }

    /// Returns a string with `***` for the secrets that were added.
    package func masked(_ text: String) -> String {
        var text = parent?.masked(text) ?? text
        // ASCII contains a form only if it contains its bytes, which are found much faster than its characters.
        let isASCII = text.utf8.allSatisfy { $0 < 0x80 }
        for form in forms where (!isASCII || Self.contains(form, in: &text)) && text.contains(form) {
            text = text.replacing(form, with: "***")
        }
        return text
    }

    private static func contains(_ form: String, in text: inout String) -> Bool {
        var form = form
        return text.withUTF8 { text in
            form.withUTF8 { form in
                guard let first = form.first else { return false }
                var rest = text[...]
                while let start = rest.firstIndex(of: first), text.count - start >= form.count {
                    if text[start..<start + form.count].elementsEqual(form) { return true }
                    rest = text[(start + 1)...]
                }
                return false
            }
        }
    }

    /// Returns a string from an external source with `***` for the secrets that were added and for those in its URLs.
    func masked(foreign text: String) -> String { masked(hidesNamed ? Redaction.text(text) : text) }

    /// Returns the value of a header field with `***` for its secrets.
    func masked(field name: String, _ value: String) -> String {
        masked(hidesNamed ? SecretClassifier.standard.shown(name, value) : value)
    }

    /// Returns a value with `***` for its secrets, including those determined by the names of its members.
    package func masked(_ value: JSON, named name: String) -> JSON {
        guard hidesNamed else { return masked(value, hidesNumbers: true) { masked($0) } }
        var object = JSONObject()
        object.append(key: name, value: value)
        guard case .object(let shown) = BodyRedaction.shown(.object(object)) else { return value }
        return masked(shown[name] ?? .null, hidesNumbers: true) { masked(foreign: $0) }
    }

    /// Returns JSON with `***` for all secrets in its values; keys are unchanged. Data that is not JSON is masked as
    /// text.
    package func masked(json data: Data) -> Data {
        guard let json = try? JSON(parsing: data) else { return Data(masked(String(decoding: data, as: UTF8.self)).utf8) }
        // A reader of the data relies on the types of its values.
        return Data(masked(json, hidesNumbers: false) { masked($0) }.description.utf8)
    }

    private func masked(_ json: JSON, hidesNumbers: Bool, _ mask: (String) -> String) -> JSON {
        switch json {
        case .string(let text): return .string(mask(text))
        case .number(let number) where hidesNumbers && isSecret(number.text): return "***"
        case .array(let values): return .array(values.map { masked($0, hidesNumbers: hidesNumbers, mask) })
        case .object(let object):
            var result = JSONObject()
            for member in object.members {
                result.append(key: member.key, value: masked(member.value, hidesNumbers: hidesNumbers, mask))
            }
            return .object(result)
        default: return json
        }
    }

    /// Returns whether a string is a secret that was added.
    private func isSecret(_ text: String) -> Bool {
        parent?.isSecret(text) == true || forms.contains(text)
    }

    /// Returns whether bytes contain a secret.
    func finds(in data: Data) -> Bool {
        parent?.finds(in: data) == true
            || forms.contains { ByteSearch.contains(Data($0.utf8), in: data) }
    }

    /// Returns whether a value contains a secret.
    func finds(in json: JSON) -> Bool {
        if parent?.finds(in: json) == true { return true }
        let forms = forms
        return Self.texts(of: json).contains { text in forms.contains { text.contains($0) } }
    }

    /// Returns all strings and numbers in a value.
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
