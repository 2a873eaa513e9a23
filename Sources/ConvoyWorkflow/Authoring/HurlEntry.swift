import ConvoySerialization
import ConvoySupport
import Foundation

/// A request of a file of Hurl, and its checks.
struct HurlEntry {
    var draft: RequestDraft
    let name: String
    var status: Int?
    /// The expressions that the response must meet.
    var checks: [String] = []
    private(set) var followsRedirects = false
    private var body: JSON?

    init(draft: RequestDraft, name: String) {
        self.draft = draft
        self.name = name
    }

    private mutating func note(_ line: String) { draft.notes.append("not expressed: \(line)") }

    // MARK: The request

    mutating func addHeader(_ field: (name: String, value: String), _ variables: inout ImportedVariables) {
        guard !field.name.contains("{{") else { return note("\(field.name): \(field.value)") }
        draft.headers.append((field.name, variables.text(HurlText.unescaped(field.value), &draft)))
    }

    mutating func add(
        _ section: String, _ pairs: [(name: String, value: String)], _ variables: inout ImportedVariables
    ) {
        var items: [(name: String, value: String)] = []
        if section == "Options" {
            for pair in pairs { addOption(pair, &variables) }
            return
        }
        if section.hasPrefix("Multipart") {
            draft.body = .multipart(pairs.map { part($0, &variables) })
            return
        }
        for pair in pairs {
            let name = variables.text(pair.name, &draft)
            items.append((name, variables.text(HurlText.unescaped(pair.value), &draft)))
        }
        switch section {
        case "Query", "QueryStringParams": draft.query += items
        case "Form", "FormParams": draft.body = .form(items)
        case "Cookies":
            draft.headers.append(("Cookie", items.map { "\($0.name)=\($0.value)" }.joined(separator: "; ")))
        case "BasicAuth": if let login = items.first { draft.login = (login.name, login.value) }
        default: break
        }
    }

    private mutating func part(
        _ pair: (name: String, value: String), _ variables: inout ImportedVariables
    ) -> RequestDraft.Part {
        let name = variables.text(pair.name, &draft)
        guard pair.value.hasPrefix("file,") else {
            return RequestDraft.Part(
                name: name, value: variables.text(HurlText.unescaped(pair.value), &draft), isFile: false)
        }
        let words = pair.value.dropFirst(5).split(separator: ";" as Character, omittingEmptySubsequences: false).map {
            $0.trimmingCharacters(in: .whitespaces)
        }
        var part = RequestDraft.Part(name: name, value: variables.text(words[0], &draft), isFile: true)
        if words.count > 1, !words[1].isEmpty { part.type = words[1] }
        return part
    }

    private mutating func addOption(_ option: (name: String, value: String), _ variables: inout ImportedVariables) {
        let takesTemplates = ["user", "output", "header", "aws-sigv4"].contains(option.name)
        guard takesTemplates || !option.value.contains("{{") else { return note("\(option.name): \(option.value)") }
        let value = variables.text(option.value, &draft)
        switch option.name {
        case "location", "location-trusted":
            followsRedirects = option.value == "true"
            if option.name == "location-trusted", followsRedirects { draft.others["location-trusted"] = true }
        case "max-redirs":
            if let count = Int(option.value), count >= 0 { draft.others["max-redirs"] = .number(JSONNumber(count)) }
        case "insecure", "ipv4", "ipv6", "path-as-is": draft.others[option.name] = .bool(option.value == "true")
        case "http1.0", "http1.1", "http2":
            // The last of these options counts. A version that is not wanted selects the one below it.
            let isWanted = option.value == "true"
            let key: String? =
                switch option.name {
                case "http2": isWanted ? nil : "http1.1"
                case "http1.1": isWanted ? "http1.1" : "http1.0"
                default: isWanted ? "http1.0" : nil
                }
            guard isWanted || option.name != "http1.0" else { return }
            for name in ["http1.0", "http1.1"] { draft.others.removeValue(forKey: name) }
            if let key { draft.others[key] = true }
        case "user":
            let pair = value.split(separator: ":" as Character, maxSplits: 1, omittingEmptySubsequences: false).map(
                String.init)
            draft.login = (pair[0], pair.count > 1 ? pair[1] : "")
        case "digest", "ntlm", "negotiate": draft.isLoginChallenged = draft.isLoginChallenged || option.value == "true"
        case "aws-sigv4": draft.signature = value
        case "output" where option.value != "-": draft.output = value
        case "proxy", "unix-socket", "cacert", "cert", "key", "netrc-file", "limit-rate":
            draft.others[option.name] = .string(option.value)
        case "connect-timeout", "max-time":
            draft.others[option.name] = JSONNumber(option.value).map { .number($0) } ?? .string(option.value)
        case "header":
            let parts = option.value.split(separator: ":" as Character, maxSplits: 1).map(String.init)
            if parts.count == 2 { addHeader((parts[0], parts[1].trimmingCharacters(in: .whitespaces)), &variables) }
        case "delay":
            // Hurl counts milliseconds.
            let isPlain = option.value.allSatisfy(\.isNumber)
            draft.others["delay"] = .string(isPlain ? "\(option.value)ms" : option.value)
        case "skip" where option.value == "true": draft.others["when"] = false
        case "variable":
            let parts = option.value.split(separator: "=" as Character, maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { return note("variable: \(option.value)") }
            variables.set(String(parts[0]), to: WorkflowInputs.value(of: String(parts[1])))
        case "verbose", "very-verbose", "compressed", "skip": break
        default: note("\(option.name): \(option.value)")
        }
    }

    mutating func setBody(_ body: HurlBody, _ variables: inout ImportedVariables) {
        let hasType = draft.headers.contains { $0.name.lowercased() == "content-type" }
        switch body.kind {
        case .file: draft.body = .file(variables.text(body.text, &draft))
        case .json:
            if let json = draft.json(body.text, &variables) {
                draft.body = .json(json)
            } else {
                draft.body = .text(variables.text(body.text, &draft))
                if !hasType { draft.headers.append(("Content-Type", "application/json")) }
            }
        case .text where body.language == "graphql":
            draft.body = .json(["query": .string(variables.text(body.text, &draft))])
        case .text:
            draft.body = .text(variables.text(body.text, &draft))
            let types = ["xml": "application/xml", "json": "application/json"]
            if hasType { return }
            if let type = types[body.language] {
                draft.headers.append(("Content-Type", type))
            } else {
                draft.removedHeaders.append("Content-Type")
            }
        case .hex, .base64:
            let bytes =
                body.kind == .hex
                ? ASCII.bytes(ofHexadecimal: Array(body.text.utf8)).map { Data($0) } : Data(base64Encoded: body.text)
            guard let text = bytes.flatMap({ String(validating: $0, as: UTF8.self) }), !text.contains("\0") else {
                return note("a body of bytes")
            }
            draft.body = .text(text)
            if !hasType { draft.removedHeaders.append("Content-Type") }
        }
    }

    // MARK: The response

    mutating func expectHeader(_ field: (name: String, value: String), _ variables: inout ImportedVariables) {
        let line = "header \"\(field.name)\" includes \"\(field.value.replacing("\"", with: "\\\""))\""
        guard !field.value.contains("{{") else { return note("\(field.name): \(field.value)") }
        addAssert(line, &variables)
    }

    mutating func addAssert(_ line: String, _ variables: inout ImportedVariables) {
        // A check that is not expressed needs no variables.
        var known = variables
        guard let expression = HurlAssert.expression(line, &known),
            (try? ExpressionParser.parse(expression, in: .response)) != nil
        else { return note(line.trimmingCharacters(in: .whitespaces)) }
        variables = known
        checks.append(expression)
    }

    mutating func addCapture(_ line: String, _ variables: inout ImportedVariables) {
        let parts = line.split(separator: ":" as Character, maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
        guard parts.count == 2, let source = HurlAssert.capture(parts[1]), !source.contains("{{") else { return note(line) }
        let name = ImportedVariables.name(parts[0])
        guard Reference.isName(name) else { return note(line) }
        draft.captures.append((name, source))
        variables.capture(parts[0], by: self.name)
    }

    mutating func expectBody(_ body: HurlBody, _ variables: inout ImportedVariables) {
        let isTemplate = body.text.contains("{{")
        switch body.kind {
        case .json:
            guard let json = draft.json(body.text, &variables) else { return note("the expected body") }
            self.body = draft.templated(json)
        case .text where !isTemplate: checks.append("body == \(HurlText.constant(body.text))")
        case .hex: checks.append("bytes == hex(\(HurlText.constant(body.text)))")
        case .base64: checks.append("bytes == (\(HurlText.constant(body.text)) | base64Decode)")
        case .file where !isTemplate: checks.append("bytes == file(\(HurlText.constant(body.text)))")
        case .text, .file: note("the expected body")
        }
    }

    /// The value of `expect`.
    var expectation: JSON {
        var mapping = JSONObject()
        if let status { mapping["status"] = .number(JSONNumber(status)) }
        if let body { mapping["json"] = ["": ["equals": body]] }
        guard !checks.isEmpty else { return .object(mapping) }
        let first: [JSON] = mapping.members.isEmpty ? [] : [.object(mapping)]
        return .array(first + checks.map { .string($0) })
    }
}
