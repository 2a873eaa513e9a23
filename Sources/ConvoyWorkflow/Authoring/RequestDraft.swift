import ConvoySerialization
import ConvoySupport
import Foundation

/// A request to be written into a manifest.
public struct RequestDraft: Sendable {
    /// A body.
    public enum Body: Sendable {
        /// A JSON text.
        case json(JSON)
        /// The items of a form.
        case form([(name: String, value: String)])
        /// The parts of a multipart form.
        case multipart([Part])
        /// Text.
        case text(String)
        /// The file at a path.
        case file(String)
    }

    /// A part of a multipart form.
    public struct Part: Sendable {
        /// Its name.
        public var name: String
        /// Its text, or the path of its file.
        public var value: String
        /// Whether it is a file.
        public var isFile: Bool
        /// The name of the file that is sent; nil for that of the file, or for none.
        public var fileName: String?
        /// The media type; nil for the usual one.
        public var type: String?

        /// A part.
        public init(name: String, value: String, isFile: Bool) {
            (self.name, self.value, self.isFile) = (name, value, isFile)
        }

        fileprivate var json: JSON {
            guard isFile || fileName != nil || type != nil else { return literal(value) }
            var object = JSONObject()
            object.append(key: isFile ? "file" : "value", value: literal(value))
            if let fileName { object.append(key: "name", value: literal(fileName)) }
            if let type { object.append(key: "type", value: .string(type)) }
            return .object(object)
        }
    }

    /// The method.
    public var method: String
    /// The URL.
    public var url: String
    /// Fields in their order.
    public var headers: [(name: String, value: String)] = []
    /// Items of the query besides those of the URL.
    public var query: [(name: String, value: String)] = []
    /// The body; nil for none.
    public var body: Body?
    /// A user and a password that are sent with the request.
    public var login: (user: String, password: String)?
    /// The variable of the environment that has the password, in place of the password of ``login``.
    public var passwordVariable: String?
    /// What is expected, by the keys of `expect`.
    public var expectations = JSONObject()
    /// Captures by name, such as `json:/token`.
    public var captures: [(name: String, source: String)] = []
    /// Further members, such as `insecure`.
    public var others = JSONObject()
    /// Comments above the request.
    public var notes: [String] = []

    /// A draft of a request without a body.
    public init(method: String, url: String) { (self.method, self.url) = (method, url) }

    /// A value as it is written on a command line: a number, true, false, null or text.
    public static func value(_ text: String) -> JSON { YAMLReader.plain(text) }

    /// A name for the request, from its method and the last part of its path: at most 40 ASCII letters, digits and hyphens.
    public var suggestedName: String {
        let path = URL(string: url).flatMap { PathText.components(of: $0.path).last { !$0.isEmpty } }
        func plain(_ text: String) -> String {
            let isPlain = { (scalar: Unicode.Scalar) in
                scalar.isASCII && (scalar.properties.isAlphabetic || (0x30...0x39).contains(scalar.value))
            }
            return String(String.UnicodeScalarView(text.unicodeScalars.map { isPlain($0) ? $0 : "-" }))
        }
        let verb = plain(method.lowercased())
        return String("\(verb.first?.isLetter == true ? verb : "request")-\(plain(path ?? "root"))".prefix(40))
    }

    /// The request as a mapping of a manifest.
    public var json: JSON {
        var object = JSONObject()
        let verb = method.lowercased()
        if RequestReader.verbs.contains(verb), method == verb.uppercased() {
            object.append(key: verb, value: literal(url))
        } else {
            object.append(key: "method", value: .string(method))
            object.append(key: "url", value: literal(url))
        }
        if !query.isEmpty { object.append(key: "query", value: Self.mapping(query)) }
        if !headers.isEmpty { object.append(key: "headers", value: Self.mapping(headers)) }
        if let login {
            let password = passwordVariable.map { JSON.string("${env.\($0)}") } ?? literal(login.password)
            object.append(key: "basic", value: ["user": literal(login.user), "password": password])
        }
        switch body {
        case nil: break
        case .json(let json)?: object.append(key: "json", value: Self.escaped(json))
        case .form(let items)?: object.append(key: "form", value: Self.mapping(items))
        case .text(let text)?: object.append(key: "text", value: literal(text))
        case .file(let path)?: object.append(key: "file", value: literal(path))
        case .multipart(let parts)?:
            object.append(key: "multipart", value: Self.mapping(parts.map { ($0.name, $0.json) }))
        }
        if !expectations.members.isEmpty { object.append(key: "expect", value: .object(expectations)) }
        if !captures.isEmpty { object.append(key: "capture", value: Self.mapping(captures.map { ($0.name, $0.source) })) }
        for member in others.members { object.append(key: member.key, value: member.value) }
        return .object(object)
    }

    /// The request as lines of YAML, below `requests:`.
    public func yaml(name: String) -> String {
        guard case .object(let object) = json else { return "" }
        let lines = object.members.map { member -> String in
            if member.key == "headers" || member.key == "capture", case .object(let inner) = member.value {
                return (["    \(member.key):"] + inner.members.map { Self.line("      ", $0.key, Self.scalar($0.value)) })
                    .joined(separator: "\n")
            }
            return "    \(member.key): \(Self.scalar(member.value))"
        }
        let comments = notes.map { note in
            "  # " + note.unicodeScalars.map { Self.isBreak($0) ? " " : String($0) }.joined()
        }
        return (comments + ["  \(name):"] + lines).joined(separator: "\n") + "\n"
    }

    /// Whether a character ends a line of YAML, is refused by it, or controls a terminal.
    private static func isBreak(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.generalCategory == .control
            || ["\u{2028}", "\u{2029}", "\u{FEFF}", "\u{FFFE}", "\u{FFFF}"].contains(scalar)
    }

    /// A manifest with some requests.
    public static func manifest(_ requests: [(name: String, draft: RequestDraft)]) -> String {
        "version: 1\nrequests:\n" + requests.map { $0.draft.yaml(name: $0.name) }.joined()
    }

    // MARK: Text

    private static func escaped(_ json: JSON) -> JSON {
        switch json {
        case .string(let string): return literal(string)
        case .array(let values): return .array(values.map(escaped))
        case .object(let object):
            var result = JSONObject()
            for member in object.members { result.append(key: member.key, value: escaped(member.value)) }
            return .object(result)
        default: return json
        }
    }

    private static func mapping(_ pairs: [(name: String, value: String)]) -> JSON {
        mapping(pairs.map { ($0.name, literal($0.value)) })
    }

    /// A mapping; values of one name become a list.
    private static func mapping(_ pairs: [(name: String, value: JSON)]) -> JSON {
        var object = JSONObject()
        for pair in pairs {
            switch object[pair.name] {
            case nil: object.append(key: pair.name, value: pair.value)
            case .array(let values)?: object[pair.name] = .array(values + [pair.value])
            case let value?: object[pair.name] = .array([value, pair.value])
            }
        }
        return .object(object)
    }

    /// JSON, which is YAML, too; plain text without quotes.
    private static func scalar(_ json: JSON) -> String {
        guard case .string(let text) = json, isPlain(text) else { return quoted(json) }
        return text
    }

    /// A member of a block. A key of more than 1,024 characters must be marked.
    private static func line(_ indent: String, _ key: String, _ value: String) -> String {
        let key = isPlain(key) ? key : quoted(.string(key))
        return isLong(key) ? "\(indent)? \(key)\n\(indent): \(value)" : "\(indent)\(key): \(value)"
    }

    private static func isLong(_ key: String) -> Bool { key.unicodeScalars.count > 1000 }

    /// JSON without the characters that YAML takes for ends of lines or refuses, which can only be in strings.
    private static func quoted(_ json: JSON) -> String {
        switch json {
        case .object(let object):
            let members = object.members.map { member in
                let key = quoted(.string(member.key))
                return "\(isLong(key) ? "? " : "")\(key):\(isLong(key) ? " " : "")\(quoted(member.value))"
            }
            return "{\(members.joined(separator: ","))}"
        case .array(let values): return "[\(values.map(quoted).joined(separator: ","))]"
        default:
            return json.description.unicodeScalars.map { scalar in
                isBreak(scalar) ? String(format: "\\u%04x", scalar.value) : String(scalar)
            }.joined()
        }
    }

    /// Whether YAML reads a text as it is.
    private static func isPlain(_ text: String) -> Bool {
        guard let first = text.unicodeScalars.first, first.properties.isAlphabetic || first == "/", text.utf8.count < 1000
        else { return false }
        guard text.unicodeScalars.allSatisfy({ $0.isASCII && !isBreak($0) && !"#\"'{}[],".unicodeScalars.contains($0) })
        else { return false }
        guard !text.contains(": "), !text.hasSuffix(":"), !text.hasSuffix(" ") else { return false }
        if case .string = YAMLReader.plain(text) { return true }
        return false
    }
}

/// A text in which `${` has no meaning.
private func literal(_ text: String) -> JSON { .string(text.replacing("${", with: "$${")) }
