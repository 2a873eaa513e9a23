import ConvoySerialization
import ConvoySupport
import Foundation

/// The secrets of a run, which are replaced by `***` in everything that is printed or written.
public final class SecretMask: Sendable {
    private let forms = Locked<[String]>([])

    /// A mask without secrets.
    public init() {}

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

    /// The text with `***` for all secrets.
    public func masked(_ text: String) -> String {
        let forms = forms.withLock { $0 }
        guard !forms.isEmpty else { return text }
        var text = text
        for form in forms where text.contains(form) { text = text.replacing(form, with: "***") }
        return text
    }

    /// A JSON text with `***` for all secrets in its values; its keys stay as they are. What is no JSON is masked as text.
    public func masked(json data: Data) -> Data {
        guard let json = try? JSON(parsing: data) else { return Data(masked(String(decoding: data, as: UTF8.self)).utf8) }
        return Data(masked(json).description.utf8)
    }

    private func masked(_ json: JSON) -> JSON {
        switch json {
        case .string(let text): return .string(masked(text))
        case .array(let values): return .array(values.map(masked))
        case .object(let object):
            var result = JSONObject()
            for member in object.members { result.append(key: member.key, value: masked(member.value)) }
            return .object(result)
        default: return json
        }
    }

    /// Whether a secret is in a value.
    func finds(in json: JSON) -> Bool {
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
