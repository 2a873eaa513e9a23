import ConvoySerialization
import ConvoySupport
import Foundation

/// A reader for the options of one curl command.
struct CurlReader {
    private typealias Problem = CurlCommandLine.Problem

    var method: String?
    var urls: [String] = []
    /// The fields of `-H`. A nil value removes the field that curl would send by default.
    var headers: [(name: String, value: String?)] = []
    var cookies: [String] = []
    /// The fields that other options set. A field of `-H` takes precedence.
    var ownHeaders: [(name: String, value: String)] = []
    var data = CurlData()
    var queries: [String] = []
    var parts: [RequestDraft.Part] = []
    var user: String?
    /// The flags that name schemes of HTTP authentication.
    var schemes: Set<String> = []
    /// The value of `--aws-sigv4`.
    var signature: String?
    var isGet = false, isHead = false, isJSON = false, usesPatterns = true, namesAllOutputs = false
    /// The file for each URL, in the order of the URLs.
    var uploads: [String] = []
    /// The output for each URL, in the order of the URLs; nil for the name in the URL.
    var outputs: [String?] = []
    var outputDirectory: String?
    var retry: Int?, retryTime: JSON?
    var others = JSONObject()
    var notes: [String]

    private let input: ShellWords.Command
    private var takesOnlyURLs = false

    /// - Parameter input: The command, to whose standard input `@-` refers.
    init(_ input: ShellWords.Command) {
        self.input = input
        notes = input.notes
    }

    // MARK: The words

    mutating func take(_ word: String, _ rest: inout ArraySlice<String>) throws(CurlCommandLine.Problem) {
        guard word.hasPrefix("-"), word != "-", !takesOnlyURLs else { return add(url: word) }
        if word == "--" { return takesOnlyURLs = true }
        guard word.hasPrefix("--") else { return try take(short: word.dropFirst(), &rest) }
        var name = String(word.dropFirst(2)), given: String?
        if let equals = name.firstIndex(of: "=") {
            (name, given) = (String(name[..<equals]), String(name[name.index(after: equals)...]))
        }
        name = CurlOption.completed(name)
        if takeFlag(name, shown: "--\(name)") { return }
        try take(name, shown: "--\(name)", given: given, &rest)
    }

    /// Reads single-letter options, which may be combined: `-sSLkXPUT`.
    private mutating func take(
        short letters: Substring, _ rest: inout ArraySlice<String>
    ) throws(CurlCommandLine.Problem) {
        var letters = letters
        while let letter = letters.popFirst() {
            guard let name = CurlOption.short[letter] else { throw Self.unsupported("-\(letter)") }
            if takeFlag(name, shown: "-\(letter)") { continue }
            return try take(name, shown: "-\(letter)", given: letters.isEmpty ? nil : String(letters), &rest)
        }
    }

    private static func unsupported(_ shown: String) -> CurlCommandLine.Problem {
        CurlCommandLine.Problem(description: "The curl option \(shown) has no equivalent in a manifest.")
    }

    private mutating func add(url text: String) {
        // To curl, `localhost:8080` is a host and a port. A variable may contain the scheme.
        let start = text.prefix { !"/?#".contains($0) }
        urls.append(start.hasSuffix(":") || text.hasPrefix("\0") ? text : "http://\(text)")
    }

    /// Reads an option without a value. Returns false for all other options.
    private mutating func takeFlag(_ name: String, shown: String) -> Bool {
        if CurlOption.ignoredFlags.contains(name) { return true }
        if CurlOption.notedFlags.contains(name) {
            notes.append("\(shown): left out")
            return true
        }
        switch name {
        case "get": isGet = true
        case "head": isHead = true
        case "globoff": usesPatterns = false
        case "remote-name": outputs.append(nil)
        case "remote-name-all": namesAllOutputs = true
        case "insecure", "location-trusted", "path-as-is": others[name] = true
        case "ipv4", "ipv6":
            others.removeValue(forKey: name == "ipv4" ? "ipv6" : "ipv4")
            others[name] = true
        case "http1.0", "http1.1", "http2":
            for version in ["http1.0", "http1.1"] { others.removeValue(forKey: version) }
            if name != "http2" { others[name] = true }
        case "tlsv1.2": others["tls-min"] = "1.2"
        case "tlsv1.3": others["tls-min"] = "1.3"
        case "basic", "digest", "anyauth", "ntlm", "negotiate": schemes.insert(name)
        default:
            guard name.hasPrefix("no-"), CurlOption.isFlag(String(name.dropFirst(3))) else { return false }
            notes.append("\(shown): left out")
        }
        return true
    }

    private mutating func take(
        _ name: String, shown: String, given: String?, _ rest: inout ArraySlice<String>
    ) throws(CurlCommandLine.Problem) {
        let isNoted = CurlOption.notedValues.contains(name)
        guard isNoted || CurlOption.values.contains(name) else { throw Self.unsupported(shown) }
        guard let value = given ?? rest.popFirst() else { throw Problem(description: "\(shown) has no value.") }
        if isNoted {
            // The values of other options may be passwords.
            notes.append(CurlOption.shownValues.contains(name) ? "\(shown) '\(value)': left out" : "\(shown): left out")
        } else if try !takeContent(name, value, shown), try !takeBody(name, value, shown) {
            try takeSetting(name, value, shown)
        }
    }

    // MARK: What is sent

    private mutating func takeContent(
        _ name: String, _ value: String, _ shown: String
    ) throws(CurlCommandLine.Problem) -> Bool {
        switch name {
        case "request": method = value
        case "url": add(url: value)
        case "header": try take(header: value)
        case "user-agent": set(value, for: "User-Agent")
        case "referer":
            set(value.hasSuffix(";auto") ? String(value.dropLast(5)) : value, for: "Referer")
            if value.hasSuffix(";auto") { notes.append("\(shown) '\(value)': ;auto is left out") }
        case "cookie":
            guard value.contains("=") else {
                notes.append("\(shown) '\(value)': left out; for a file of cookies, give --cookie-jar to convoy run")
                break
            }
            cookies.append(value)
        case "range": set("bytes=\(value)", for: "Range")
        case "user": user = value
        case "oauth2-bearer": set("Bearer \(value)", for: "Authorization")
        case "aws-sigv4": signature = value
        case "url-query":
            if value.hasPrefix("+") {
                queries.append(String(value.dropFirst()))
            } else if let text = CurlData.encoded(value) {
                queries.append(text)
            } else {
                notes.append("\(shown) '\(value)': the content of a file is left out")
            }
        default: return false
        }
        return true
    }

    private mutating func set(_ value: String, for name: String) {
        ownHeaders.removeAll { $0.name == name }
        if !value.isEmpty { ownHeaders.append((name, value)) }
    }

    private mutating func take(header text: String) throws(CurlCommandLine.Problem) {
        if text.hasPrefix("@") { return notes.append("-H '\(text)': the fields in a file are left out") }
        guard let colon = text.firstIndex(of: ":") else {
            // `Name;` is a field without a value.
            guard text.hasSuffix(";") else { throw Problem(description: "The header field \"\(text)\" has no colon.") }
            return headers.append((String(text.dropLast()), ""))
        }
        let value = text[text.index(after: colon)...].trimmingCharacters(in: .whitespaces)
        headers.append((String(text[..<colon]), value.isEmpty ? nil : value))
    }

    private mutating func takeBody(
        _ name: String, _ value: String, _ shown: String
    ) throws(CurlCommandLine.Problem) -> Bool {
        switch name {
        case "data", "data-ascii", "data-binary", "json":
            if name == "json" { isJSON = true }
            let isText = name == "data" || name == "data-ascii"
            guard value.hasPrefix("@") else {
                data.add(value, separator: name == "json" ? "" : "&")
                break
            }
            takeData(from: String(value.dropFirst()), isText: isText, shown: "\(shown) '\(value)'")
        case "data-raw": data.add(value)
        case "data-urlencode":
            if let text = CurlData.encoded(value) {
                data.add(text)
            } else {
                data.addUnknown()
                notes.append("\(shown) '\(value)': the content of a file is left out")
            }
        case "form":
            let (part, partNotes) = try CurlFormPart.part(value)
            notes += partNotes
            if let part { parts.append(part) }
        case "form-string":
            guard let equals = value.firstIndex(of: "=") else {
                throw Problem(description: "The part \"\(value.prefix(40))\" has no equals sign.")
            }
            let content = String(value[value.index(after: equals)...])
            parts.append(RequestDraft.Part(name: String(value[..<equals]), value: content, isFile: false))
        case "upload-file":
            guard !value.contains(where: { "{[".contains($0) }) || !usesPatterns else {
                throw Problem(description: "\(shown) with a pattern cannot be imported: give each file its own command.")
            }
            uploads.append(value)
        default: return false
        }
        return true
    }

    private mutating func takeData(from file: String, isText: Bool, shown: String) {
        if file == "-", let text = input.inputText {
            data.add(isText ? text.filter { !$0.isNewline } : text)
            return
        }
        guard file != "-" || input.inputFile != nil else {
            data.addUnknown()
            return notes.append("\(shown): standard input is left out; give its content as text: or file:")
        }
        guard data.file == nil else { return notes.append("\(shown): left out; a body is one file") }
        data.set(file: file == "-" ? input.inputFile ?? file : file)
        if isText { notes.append("\(shown): curl removes the line breaks of the file, and convoy does not") }
    }

    /// Returns the file that a name in `-T` refers to, or nil for standard input of unknown content.
    func uploadedFile(_ name: String) -> String? { ["-", "."].contains(name) ? input.inputFile : name }

    // MARK: How it is sent

    /// Splits a client certificate at the first colon, which precedes its passphrase. As in curl, a backslash escapes a
    /// colon or a backslash of the path.
    static func certificate(_ value: String) -> (path: String, hasPassphrase: Bool) {
        var path = "", rest = value[...]
        while let character = rest.popFirst() {
            if character == ":" { return (path, true) }
            let isEscape = character == "\\" && (rest.first == ":" || rest.first == "\\")
            path.append(isEscape ? rest.removeFirst() : character)
        }
        return (path, false)
    }

    private mutating func takeSetting(
        _ name: String, _ value: String, _ shown: String
    ) throws(CurlCommandLine.Problem) {
        guard !value.contains("\0") || name.hasPrefix("output") else {
            return notes.append("\(shown): left out, because the key takes no variables")
        }
        switch name {
        case "proxy":
            if value.contains("@") {
                notes.append("\(shown): the login is left out, because the key takes no variables")
            }
            others[name] = .string(URLUserInfo.removedFromAnySpelling(value))
        case "noproxy", "cacert", "key", "interface", "unix-socket", "netrc-file": others[name] = .string(value)
        case "cert":
            let (path, hasPassphrase) = Self.certificate(value)
            others["cert"] = .string(path)
            if hasPassphrase { notes.append("\(shown): the passphrase is left out; convoy run asks for it") }
        case "crlfile": others["crl-file"] = .string(value)
        case "pinnedpubkey":
            guard value.hasPrefix("sha256//"), !value.contains(";") else {
                notes.append("\(shown) '\(value)': left out; pin takes one sha256//…")
                break
            }
            others["pin"] = .string(value)
        case "resolve": override("resolve", value, shown, hostFirst: 2)
        case "connect-to": override("connect-to", value, shown, hostFirst: 2)
        case "connect-timeout", "max-time": others[name] = try number(value, shown)
        case "max-redirs":
            if value == "-1" { return notes.append("\(shown) -1: left out; a manifest limits redirects") }
            others[name] = try number(value, shown)
        case "limit-rate":
            let units: [Character: Int64] = ["k": 1 << 10, "m": 1 << 20, "g": 1 << 30]
            let unit = value.last.flatMap { units[Character($0.lowercased())] }
            guard let count = Int64(unit == nil ? value : String(value.dropLast())), (0...1 << 40).contains(count) else {
                throw Problem(description: "\(shown) is not a number: \"\(value)\".")
            }
            others[name] = .number(JSONNumber(count * (unit ?? 1)))
        case "retry":
            guard let count = Int(value), count >= 0 else {
                throw Problem(description: "\(shown) is not a number: \"\(value)\".")
            }
            retry = count
        case "retry-max-time": retryTime = try number(value, shown)
        case "output": outputs.append(value)
        case "output-dir": outputDirectory = value
        default: throw Self.unsupported(shown)
        }
    }

    private func number(_ value: String, _ shown: String) throws(CurlCommandLine.Problem) -> JSON {
        guard let number = JSONNumber(value), (number.double ?? -1) >= 0 else {
            throw Problem(description: "\(shown) is not a number: \"\(value)\".")
        }
        return .number(number)
    }

    /// Adds `HOST:PORT:ADDRESS` to a mapping.
    private mutating func override(_ key: String, _ value: String, _ shown: String, hostFirst count: Int) {
        let parts = value.split(separator: ":" as Character, maxSplits: count, omittingEmptySubsequences: false).map(
            String.init)
        guard parts.count == 3, !parts.contains(""), !value.hasPrefix("-"), !value.hasPrefix("+"), !value.hasPrefix("[")
        else {
            return notes.append("\(shown) '\(value)': left out")
        }
        var members = JSONObject()
        if case .object(let known)? = others[key] { members = known }
        let target = key == "resolve" ? parts[2].trimmingCharacters(in: CharacterSet(charactersIn: "[]")) : parts[2]
        members["\(parts[0]):\(parts[1])"] = .string(target)
        others[key] = .object(members)
    }
}
