import ConvoySerialization
import ConvoySupport
import Foundation

/// Reads command lines of curl, as people write them and browsers copy them.
public enum CurlCommandLine {
    /// Why a command line cannot be a request of a manifest.
    public struct Problem: Error, Equatable, CustomStringConvertible {
        /// What is wrong.
        public let description: String
    }

    /// The request of a command line. What of it a manifest cannot say is in its notes.
    ///
    /// - Throws: ``Problem`` for quotes without an end, a missing URL, a body of a GET, and options that are not known.
    public static func draft(_ text: String) throws(Problem) -> RequestDraft {
        var words = try ShellWords.split(text)[...]
        if words.first == "curl" { words.removeFirst() }
        var reader = CurlReader()
        while let word = words.popFirst() { try reader.take(word, &words) }
        return try reader.draft()
    }
}

/// Collects what the options of a command line say.
private struct CurlReader {
    private typealias Problem = CurlCommandLine.Problem

    private var method: String?
    private var url: String?
    private var headers: [(name: String, value: String)] = []
    private var data: [String] = []
    private var parts: [RequestDraft.Part] = []
    private var user: String?
    private var isChallenged = false
    private var isGet = false, isHead = false, isJSON = false, isUpload = false, isRemoteName = false
    private var takesOnlyURLs = false
    private var file: String?
    private var output: String?
    private var outputDirectory: String?
    private var retry: Int?, retryTime: JSON?
    private var others = JSONObject()
    private var notes: [String] = []

    // MARK: The words

    mutating func take(_ word: String, _ rest: inout ArraySlice<String>) throws(CurlCommandLine.Problem) {
        guard word.hasPrefix("-"), word != "-", !takesOnlyURLs else { return try take(url: word) }
        if word == "--" { return takesOnlyURLs = true }
        guard word.hasPrefix("--") else { return try take(short: word.dropFirst(), &rest) }
        var name = String(word.dropFirst(2)), given: String?
        if let equals = name.firstIndex(of: "=") {
            (name, given) = (String(name[..<equals]), String(name[name.index(after: equals)...]))
        }
        if try takeFlag(name, shown: "--\(name)") { return }
        try take(name, shown: "--\(name)", given: given, &rest)
    }

    /// Options of one letter, which may stand together: `-sSLkXPUT`.
    private mutating func take(
        short letters: Substring, _ rest: inout ArraySlice<String>
    ) throws(CurlCommandLine.Problem) {
        var letters = letters
        while let letter = letters.popFirst() {
            guard let name = CurlOption.short[letter] else {
                throw Problem(description: "a manifest has nothing for -\(letter)")
            }
            if try takeFlag(name, shown: "-\(letter)") { continue }
            return try take(name, shown: "-\(letter)", given: letters.isEmpty ? nil : String(letters), &rest)
        }
    }

    private mutating func take(url text: String) throws(CurlCommandLine.Problem) {
        guard url == nil else { throw Problem(description: "more than one URL") }
        // Like curl, which takes `localhost:8080` for a host and a port.
        url = text.prefix { !"/?#".contains($0) }.hasSuffix(":") ? text : "http://\(text)"
    }

    /// - Returns: whether it is an option without a value.
    private mutating func takeFlag(_ name: String, shown: String) throws(CurlCommandLine.Problem) -> Bool {
        if CurlOption.ignoredFlags.contains(name) { return true }
        if CurlOption.notedFlags.contains(name) {
            notes.append("\(shown): left out")
            return true
        }
        switch name {
        case "get": isGet = true
        case "head": isHead = true
        case "remote-name": isRemoteName = true
        case "insecure", "http1.1", "ipv4", "ipv6": others[name] = true
        case "tlsv1.2": others["tls-min"] = "1.2"
        case "tlsv1.3": others["tls-min"] = "1.3"
        case "digest", "anyauth": isChallenged = true
        default: return false
        }
        return true
    }

    private mutating func take(
        _ name: String, shown: String, given: String?, _ rest: inout ArraySlice<String>
    ) throws(CurlCommandLine.Problem) {
        let isNoted = CurlOption.notedValues.contains(name)
        guard isNoted || CurlOption.values.contains(name) else {
            throw Problem(description: "a manifest has nothing for \(shown)")
        }
        guard let value = given ?? rest.popFirst() else { throw Problem(description: "\(shown) has no value") }
        if isNoted {
            notes.append("\(shown) '\(value)': left out")
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
        case "url": try take(url: value)
        case "header": try take(header: value)
        case "user-agent": add(value, to: "User-Agent")
        case "referer":
            add(value.hasSuffix(";auto") ? String(value.dropLast(5)) : value, to: "Referer")
            if value.hasSuffix(";auto") { notes.append("\(shown) '\(value)': ;auto is left out") }
        case "cookie":
            guard value.contains("=") else {
                notes.append("\(shown) '\(value)': cookies of a file; give --cookie-jar to convoy run")
                break
            }
            add(value, to: "Cookie")
        case "range": add("bytes=\(value)", to: "Range")
        case "user": user = value
        case "oauth2-bearer": others["bearer"] = .string(value.replacing("${", with: "$${"))
        default: return false
        }
        return true
    }

    private mutating func take(header text: String) throws(CurlCommandLine.Problem) {
        if text.hasPrefix("@") { return notes.append("-H '\(text)': headers of a file are left out") }
        guard let colon = text.firstIndex(of: ":") else {
            // Like curl, for which `Name;` is a header without a value.
            guard text.hasSuffix(";") else { throw Problem(description: "a header without a colon: \(text)") }
            return add("", to: String(text.dropLast()))
        }
        let value = text[text.index(after: colon)...].trimmingCharacters(in: .whitespaces)
        guard !value.isEmpty else { return notes.append("-H '\(text)': takes away what curl sends itself; left out") }
        add(value, to: String(text[..<colon]))
    }

    /// Adds a header. A manifest has each once: several values stand in one.
    private mutating func add(_ value: String, to name: String) {
        guard let index = headers.firstIndex(where: { $0.name.lowercased() == name.lowercased() }) else {
            return headers.append((name, value))
        }
        headers[index].value += (name.lowercased() == "cookie" ? "; " : ", ") + value
    }

    private mutating func takeBody(
        _ name: String, _ value: String, _ shown: String
    ) throws(CurlCommandLine.Problem) -> Bool {
        switch name {
        case "data", "data-ascii", "data-binary", "json":
            if name == "json" { isJSON = true }
            guard value.hasPrefix("@") else {
                data.append(value)
                break
            }
            guard value != "@-", file == nil else {
                notes.append("\(shown) '\(value)': left out; a body is one file")
                break
            }
            file = String(value.dropFirst())
            if name != "data-binary" {
                notes.append("\(shown) '\(value)': curl leaves out the ends of the lines, and convoy does not")
            }
        case "data-raw": data.append(value)
        case "data-urlencode":
            guard let mark = value.firstIndex(where: { "=@".contains($0) }), value[mark] == "=" else {
                if value.contains("@") {
                    notes.append("\(shown) '\(value)': the encoded text of a file is left out")
                } else {
                    data.append(Escaping.url(value))
                }
                break
            }
            let name = value[..<mark], content = Escaping.url(String(value[value.index(after: mark)...]))
            data.append(name.isEmpty ? content : "\(name)=\(content)")
        case "form":
            let (part, partNotes) = try CurlFormPart.part(value)
            notes += partNotes
            if let part { parts.append(part) }
        case "form-string":
            guard let equals = value.firstIndex(of: "=") else {
                throw Problem(description: "a part without an =: \(value)")
            }
            let content = String(value[value.index(after: equals)...])
            parts.append(RequestDraft.Part(name: String(value[..<equals]), value: content, isFile: false))
        case "upload-file":
            guard value != "-", value != "." else {
                notes.append("\(shown) '\(value)': standard input is left out; give file: with a path")
                break
            }
            (file, isUpload) = (value, true)
        default: return false
        }
        return true
    }

    // MARK: How it is sent

    private mutating func takeSetting(
        _ name: String, _ value: String, _ shown: String
    ) throws(CurlCommandLine.Problem) {
        switch name {
        case "proxy", "noproxy", "cacert", "key", "interface", "unix-socket", "netrc-file": others[name] = .string(value)
        case "cert":
            // The passphrase stands behind the first colon that has no backslash.
            let path = value.prefix { $0 != ":" }
            others["cert"] = .string(String(path))
            if path.count < value.count { notes.append("\(shown): the passphrase is left out; convoy run asks for it") }
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
        case "max-redirs": others[name] = try number(value, shown)
        case "limit-rate":
            let units: [Character: Int64] = ["k": 1 << 10, "m": 1 << 20, "g": 1 << 30]
            let unit = value.last.flatMap { units[Character($0.lowercased())] }
            guard let count = Int64(unit == nil ? value : String(value.dropLast())), (0...1 << 40).contains(count) else {
                throw Problem(description: "\(shown): not a number: \(value)")
            }
            others[name] = .number(JSONNumber(count * (unit ?? 1)))
        case "retry":
            guard let count = Int(value), count >= 0 else { throw Problem(description: "\(shown): not a number: \(value)") }
            retry = count
        case "retry-max-time": retryTime = try number(value, shown)
        case "output": output = value
        case "output-dir": outputDirectory = value
        default: throw Problem(description: "a manifest has nothing for \(shown)")
        }
    }

    private func number(_ value: String, _ shown: String) throws(CurlCommandLine.Problem) -> JSON {
        guard let number = JSONNumber(value), (number.double ?? -1) >= 0 else {
            throw Problem(description: "\(shown): not a number: \(value)")
        }
        return .number(number)
    }

    /// `HOST:PORT:ADDRESS` as a member of a mapping.
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

    // MARK: The request

    func draft() throws(CurlCommandLine.Problem) -> RequestDraft {
        guard var url else { throw Problem(description: "no URL") }
        let text = data.joined(separator: "&")
        if isGet, !data.isEmpty { url += (url.contains("?") ? "&" : "?") + text }
        if isUpload, url.hasSuffix("/"), let name = file?.split(separator: "/" as Character).last {
            url += Escaping.url(String(name))
        }
        let hasBody = file != nil || !parts.isEmpty || (!data.isEmpty && !isGet)
        let usual = isHead ? "HEAD" : isUpload ? "PUT" : hasBody ? "POST" : "GET"
        var draft = RequestDraft(method: method ?? usual, url: url)
        (draft.headers, draft.others, draft.notes) = (headers, others, notes)
        addLogin(to: &draft)
        if let retryTime {
            draft.others["retry"] = ["count": .number(JSONNumber(retry ?? 0)), "maxTime": retryTime]
        } else if let retry {
            draft.others["retry"] = .number(JSONNumber(retry))
        }
        addOutput(to: &draft)
        guard hasBody else { return draft }
        guard !["GET", "HEAD"].contains(draft.method) else {
            throw Problem(description: "a manifest has no body for a \(draft.method)")
        }
        addBody(text, to: &draft)
        return draft
    }

    private func addLogin(to draft: inout RequestDraft) {
        guard let user else { return }
        let pair = user.split(separator: ":" as Character, maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard pair.count > 1 else {
            draft.login = (pair[0], "")
            draft.passwordVariable = "PASSWORD"
            draft.notes.append("-u '\(user)': curl asks for the password; give it as PASSWORD of the environment")
            return
        }
        if isChallenged {
            draft.others["user"] = .string(user.replacing("${", with: "$${"))
        } else {
            draft.login = (pair[0], pair[1])
        }
    }

    private func addOutput(to draft: inout RequestDraft) {
        var name = output
        if isRemoteName, name == nil {
            let path = draft.url.prefix { $0 != "?" && $0 != "#" }.split(separator: "/" as Character)
            // After the scheme and the host.
            name = path.count > 2 && !draft.url.hasSuffix("/") ? path.last?.removingPercentEncoding : nil
            if name == nil { draft.notes.append("-O: the URL has no name for a file") }
        }
        guard var name, name != "-", name != "/dev/null" else { return }
        if let outputDirectory { name = "\(outputDirectory)/\(name)" }
        guard let path = OutputPath.normalized(name) else {
            return draft.notes.append("-o '\(name)': left out; an output is below the directory of convoy run -d")
        }
        draft.others["output"] = .string(path.replacing("${", with: "$${"))
    }

    private func addBody(_ text: String, to draft: inout RequestDraft) {
        let typeIndex = headers.firstIndex { $0.name.lowercased() == "content-type" }
        let type =
            typeIndex.map { headers[$0].value.lowercased() }
            ?? (isJSON ? "application/json" : "application/x-www-form-urlencoded")
        if isJSON, !headers.contains(where: { $0.name.lowercased() == "accept" }) {
            draft.headers.append(("Accept", "application/json"))
        }
        if let file {
            draft.body = .file(file)
            if typeIndex == nil, !isUpload { draft.headers.append(("Content-Type", type)) }
            if !data.isEmpty || !parts.isEmpty { draft.notes.append("-d, -F: left out beside the file") }
        } else if !parts.isEmpty {
            draft.body = .multipart(parts)
            // The boundary is another one.
            draft.headers.removeAll { $0.name.lowercased() == "content-type" }
            if !data.isEmpty { draft.notes.append("-d: left out beside -F") }
        } else if type.hasPrefix("application/json"), let json = try? JSON(parsing: Data(text.utf8)) {
            draft.body = .json(json)
            if type == "application/json", let typeIndex { draft.headers.remove(at: typeIndex) }
        } else if type == "application/x-www-form-urlencoded", let items = Self.items(text) {
            draft.body = .form(items)
            if let typeIndex { draft.headers.remove(at: typeIndex) }
        } else {
            draft.body = .text(text)
            if typeIndex == nil { draft.headers.append(("Content-Type", type)) }
        }
    }

    /// The items of a form, if encoding them again gives the same.
    private static func items(_ text: String) -> [(name: String, value: String)]? {
        var items: [(name: String, value: String)] = []
        for pair in text.split(separator: "&" as Character) {
            let parts = pair.split(separator: "=" as Character, maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let name = decoded(parts[0]), let value = decoded(parts[1]) else { return nil }
            items.append((name, value))
        }
        // The items of one name are sent together.
        let names = items.map(\.name)
        return Set(names).count == names.count ? items : nil
    }

    private static func decoded(_ text: Substring) -> String? { text.replacing("+", with: " ").removingPercentEncoding }
}
