import ConvoySerialization
import ConvoySupport
import Foundation

/// A request that can be written to a manifest.
package struct RequestDraft: Sendable {
    /// The body of a request.
    package enum Body: Sendable {
        /// A JSON value.
        case json(JSON)
        /// The items of a form.
        case form([(name: String, value: String)])
        /// The parts of a multipart form.
        case multipart([Part])
        /// Plain text.
        case text(String)
        /// The file at a path.
        case file(String)
    }

    /// A part of a multipart form.
    package struct Part: Sendable {
        /// The name of the part.
        package var name: String
        /// The text of the part, or the path of its file.
        package var value: String
        /// Whether the part is a file.
        package var isFile: Bool
        /// The file name that is sent; nil for the default: the name of the file, or no file name for text.
        package var fileName: String?
        /// The media type; nil for the default.
        package var type: String?

        /// Creates a part.
        package init(name: String, value: String, isFile: Bool) {
            self.name = name
            self.value = value
            self.isFile = isFile
        }

        fileprivate func json(_ template: (String) -> JSON) -> JSON {
            guard isFile || fileName != nil || type != nil else { return template(value) }
            var object = JSONObject()
            object.append(key: isFile ? "file" : "value", value: template(value))
            if let fileName { object.append(key: "name", value: template(fileName)) }
            if let type { object.append(key: "type", value: .string(type)) }
            return .object(object)
        }
    }

    /// The method of the request.
    package var method: String
    /// The URL of the request.
    package var url: String
    /// The header fields, in order.
    package var headers: [(name: String, value: String)] = []
    /// The names of default header fields that are not sent.
    package var removedHeaders: [String] = []
    /// The query items, in addition to those of the URL.
    package var query: [(name: String, value: String)] = []
    /// The body, or nil.
    package var body: Body?
    /// The user name and password that are sent with the request.
    package var login: (user: String, password: String)?
    /// Whether the login is sent only if the server requests it.
    var isLoginChallenged = false
    /// The scope of the AWS signature that the login makes.
    var signature: String?
    /// The path of the output, below the output directory.
    var output: String?
    /// The expectations, under the keys of `expect`.
    package var expectations = JSONObject()
    /// The captures: their names and sources, for example `json:/token`.
    package var captures: [(name: String, source: String)] = []
    /// Other members of the request, for example `insecure`.
    package var others = JSONObject()
    /// The comments above the request.
    package var notes: [String] = []
    /// The environment variables to which strings may refer; see ``reference(to:)``.
    package internal(set) var variables: Set<String> = []
    /// The templates that replace the placeholders of ``variables``, if they are not environment variables.
    var substitutions: [String: String] = [:]
    /// The ``variables`` that are secrets.
    var secretVariables: [String] = []

    /// Creates a draft of a request without a body.
    package init(method: String, url: String) {
        self.method = method
        self.url = url
    }

    /// Parses a value on a command line: a number, true, false, null or text.
    package static func value(_ text: String) -> JSON { YAMLReader.plain(text) }

    /// A name for the request, from its method and the last part of its path: at most 40 ASCII letters, digits and hyphens.
    package var suggestedName: String {
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
    package var json: JSON {
        var object = JSONObject()
        let verb = method.lowercased()
        if RequestReader.verbs.contains(verb), method == verb.uppercased() {
            object.append(key: verb, value: template(url))
        } else {
            object.append(key: "method", value: .string(method))
            object.append(key: "url", value: template(url))
        }
        if !query.isEmpty { object.append(key: "query", value: mapping(query)) }
        if !headers.isEmpty || !removedHeaders.isEmpty {
            let fields = headers.map { ($0.name, template($0.value)) } + removedHeaders.map { ($0, JSON.null) }
            object.append(key: "headers", value: Self.mapping(fields))
        }
        if let login {
            let (user, password) = (template(login.user), template(login.password))
            if isLoginChallenged || signature != nil {
                object.append(key: "user", value: .string("\(user.text):\(password.text)"))
            } else {
                object.append(key: "basic", value: ["user": user, "password": password])
            }
        }
        if let signature { object.append(key: "aws-sigv4", value: template(signature)) }
        switch body {
        case nil: break
        case .json(let json)?: object.append(key: "json", value: template(json))
        case .form(let items)?: object.append(key: "form", value: mapping(items))
        case .text(let text)?: object.append(key: "text", value: template(text))
        case .file(let path)?: object.append(key: "file", value: template(path))
        case .multipart(let parts)?:
            object.append(key: "multipart", value: Self.mapping(parts.map { (template($0.name).text, $0.json(template)) }))
        }
        if let output { object.append(key: "output", value: template(output)) }
        if !expectations.members.isEmpty { object.append(key: "expect", value: .object(expectations)) }
        if !captures.isEmpty {
            object.append(key: "capture", value: Self.mapping(captures.map { ($0.name, .string($0.source)) }))
        }
        for member in others.members { object.append(key: member.key, value: member.value) }
        return .object(object)
    }

    /// Returns the request as lines of YAML, below `requests:`.
    package func yaml(name: String) -> String {
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

    /// Returns whether a character ends a line of YAML, is invalid in YAML, or controls a terminal.
    private static func isBreak(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.generalCategory == .control
            || ["\u{2028}", "\u{2029}", "\u{FEFF}", "\u{FFFE}", "\u{FFFF}"].contains(scalar)
    }

    /// Returns a YAML manifest that contains the given requests.
    package static func manifest(_ requests: [(name: String, draft: RequestDraft)]) -> String {
        manifest(requests, variables: JSONObject())
    }

    static func manifest(_ requests: [(name: String, draft: RequestDraft)], variables: JSONObject) -> String {
        let secrets = requests.flatMap(\.draft.secretVariables).reduce(into: [String]()) { all, name in
            if !all.contains(name) { all.append(name) }
        }
        let marks = secrets.isEmpty ? "" : "secrets: [\(secrets.map { "env.\($0)" }.joined(separator: ", "))]\n"
        let values = variables.members.isEmpty ? "" : "variables: \(quoted(.object(variables)))\n"
        return "version: 1\n\(values)\(marks)requests:\n" + requests.map { $0.draft.yaml(name: $0.name) }.joined()
    }

    // MARK: Text

    /// Returns the placeholder of an environment variable. It contains NUL, which an argument of a command cannot.
    static func reference(to name: String) -> String { "\0\(name)\0" }

    /// Returns a string in which `${` and `{{` are escaped, except in references to variables.
    private func template(_ text: String) -> JSON {
        let escaped = text.replacing("${", with: "$${").replacing("{{", with: "{${'{'}")
            .replacing("$\0", with: "${'$'}\0")
        guard !variables.isEmpty, escaped.contains("\0") else { return .string(escaped) }
        return .string(
            variables.reduce(escaped) {
                $0.replacing(Self.reference(to: $1), with: substitutions[$1] ?? "${env.\($1)}")
            })
    }

    /// Returns JSON with the templates of its placeholders.
    func templated(_ json: JSON) -> JSON { template(json) }

    private func template(_ json: JSON) -> JSON {
        switch json {
        case .string(let string): return template(string)
        case .array(let values): return .array(values.map(template))
        case .object(let object):
            var result = JSONObject()
            for member in object.members { result.append(key: template(member.key).text, value: template(member.value)) }
            return .object(result)
        default: return json
        }
    }

    private func mapping(_ pairs: [(name: String, value: String)]) -> JSON {
        Self.mapping(pairs.map { (template($0.name).text, template($0.value)) })
    }

    /// Returns a mapping. Values of the same name become a list.
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

    /// Returns a string without quotes if YAML allows it, and any other value as JSON, which is also YAML.
    private static func scalar(_ json: JSON) -> String {
        guard case .string(let text) = json, isPlain(text) else { return quoted(json) }
        return text
    }

    /// Returns a member of a block. YAML requires a `?` before a key that is longer than 1,024 characters.
    private static func line(_ indent: String, _ key: String, _ value: String) -> String {
        let key = isPlain(key) ? key : quoted(.string(key))
        return isLong(key) ? "\(indent)? \(key)\n\(indent): \(value)" : "\(indent)\(key): \(value)"
    }

    private static func isLong(_ key: String) -> Bool { key.unicodeScalars.count > 1000 }

    /// Returns JSON that escapes the characters that YAML treats as line breaks or rejects. They occur only in strings.
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

    /// Returns whether YAML reads an unquoted string unchanged.
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
