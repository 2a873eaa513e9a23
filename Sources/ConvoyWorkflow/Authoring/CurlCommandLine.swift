import ConvoySerialization
import Foundation

/// Reads command lines of curl, as browsers copy them.
public enum CurlCommandLine {
    /// Why a command line cannot be a request of a manifest.
    public struct Problem: Error, Equatable, CustomStringConvertible {
        /// What is wrong.
        public let description: String
    }

    /// The request of a command line.
    ///
    /// - Throws: ``Problem`` for quotes without an end, a missing URL, and options that a manifest has nothing for.
    public static func draft(_ text: String) throws(Problem) -> RequestDraft {
        var words = try shellWords(text)[...]
        if words.first == "curl" { words.removeFirst() }
        var reader = Reader()
        while let word = words.popFirst() { try reader.take(word, &words) }
        return try reader.draft()
    }

    /// The words of a command, as a POSIX shell splits them, with `$'…'` of bash. Variables and the like are text.
    static func shellWords(_ text: String) throws(Problem) -> [String] {
        var words: [String] = [], word = "", hasWord = false
        var rest = Array(text.unicodeScalars)[...]
        func end() {
            if hasWord { words.append(word) }
            (word, hasWord) = ("", false)
        }
        func closing(_ mark: Unicode.Scalar, escapes: Bool) throws(Problem) {
            hasWord = true
            while let next = rest.popFirst() {
                if next == mark { return }
                guard next == "\\", escapes, let escaped = rest.popFirst() else {
                    word.unicodeScalars.append(next)
                    continue
                }
                if escaped == "\n" { continue }
                if !"\"\\$`".unicodeScalars.contains(escaped) { word.unicodeScalars.append("\\") }
                word.unicodeScalars.append(escaped)
            }
            throw Problem(description: "a quote has no end")
        }
        while let next = rest.popFirst() {
            switch next {
            case " ", "\t", "\n", "\r": end()
            case "'": try closing("'", escapes: false)
            case "\"": try closing("\"", escapes: true)
            case "$" where rest.first == "'":
                rest.removeFirst()
                hasWord = true
                word += try ansi(&rest)
            case "\\":
                guard let escaped = rest.popFirst() else { break }
                if escaped == "\r", rest.first == "\n" {
                    rest.removeFirst()
                } else if escaped != "\n" {
                    word.unicodeScalars.append(escaped)
                    hasWord = true
                }
            default:
                word.unicodeScalars.append(next)
                hasWord = true
            }
        }
        end()
        return words
    }

    /// The text of `$'…'`.
    private static func ansi(_ rest: inout ArraySlice<Unicode.Scalar>) throws(Problem) -> String {
        var text = ""
        while let next = rest.popFirst() {
            if next == "'" { return text }
            guard next == "\\", let escaped = rest.popFirst() else {
                text.unicodeScalars.append(next)
                continue
            }
            switch escaped {
            case "n": text += "\n"
            case "r": text += "\r"
            case "t": text += "\t"
            case "u", "x":
                let digits = rest.prefix(escaped == "u" ? 4 : 2).prefix { $0.properties.isASCIIHexDigit }
                let value = UInt32(String(String.UnicodeScalarView(digits)), radix: 16)
                text.unicodeScalars.append(value.flatMap(Unicode.Scalar.init) ?? "\u{FFFD}")
                rest = rest.dropFirst(digits.count)
            default: text.unicodeScalars.append(escaped)
            }
        }
        throw Problem(description: "a quote has no end")
    }

    private struct Reader {
        private var method: String?
        private var url: String?
        private var headers: [(name: String, value: String)] = []
        private var data: [String] = []
        private var parts: [RequestDraft.Part] = []
        private var login: (user: String, password: String)?
        private var isGet = false, isHead = false, isJSON = false
        private var file: String?
        private var others = JSONObject()

        /// Options with a value that a manifest needs nothing for.
        private static let ignored: Set<String> = ["-o", "--output", "-w", "--write-out", "--max-redirs-ignored"]
        private static let ignoredFlags: Set<String> = [
            "-s", "--silent", "-S", "--show-error", "-L", "--location", "--compressed", "-v", "--verbose", "-i", "--include",
            "-f",
            "--fail", "-sS", "-O", "--remote-name", "--http2", "-g", "--globoff", "-#", "--progress-bar",
        ]

        mutating func take(_ word: String, _ rest: inout ArraySlice<String>) throws(Problem) {
            guard word.hasPrefix("-"), word.count > 1 else {
                guard url == nil else { throw Problem(description: "more than one URL") }
                // Like curl, which takes `localhost:8080` for a host and a port.
                url = word.prefix { !"/?#".contains($0) }.hasSuffix(":") ? word : "http://\(word)"
                return
            }
            if Self.ignoredFlags.contains(word) { return }
            var option = word, given: String?
            if word.hasPrefix("--") {
                if let equals = word.firstIndex(of: "=") {
                    (option, given) = (String(word[..<equals]), String(word[word.index(after: equals)...]))
                }
            } else if word.count > 2 {
                (option, given) = (String(word.prefix(2)), String(word.dropFirst(2)))
            }
            switch option {
            case "-G", "--get": return isGet = true
            case "-I", "--head": return isHead = true
            case "-k", "--insecure":
                others["insecure"] = true
                return
            case "--http1.1":
                others["http1.1"] = true
                return
            default: break
            }
            guard let value = given ?? rest.popFirst() else { throw Problem(description: "\(option) has no value") }
            if Self.ignored.contains(option) { return }
            try take(option, value)
        }

        private mutating func take(_ option: String, _ value: String) throws(Problem) {
            switch option {
            case "-X", "--request": method = value
            case "--url": url = value
            case "-H", "--header":
                guard let colon = value.firstIndex(of: ":") else {
                    throw Problem(description: "a header without a colon: \(value)")
                }
                headers.append(
                    (String(value[..<colon]), value[value.index(after: colon)...].trimmingCharacters(in: .whitespaces)))
            case "-A", "--user-agent": headers.append(("User-Agent", value))
            case "-e", "--referer": headers.append(("Referer", value))
            case "-b", "--cookie": headers.append(("Cookie", value))
            case "-d", "--data", "--data-ascii", "--data-binary", "--data-raw":
                if value.hasPrefix("@"), option != "--data-raw" {
                    file = String(value.dropFirst())
                } else {
                    data.append(value)
                }
            case "--data-urlencode":
                let parts = value.split(separator: "=" as Character, maxSplits: 1, omittingEmptySubsequences: false).map {
                    String($0)
                }
                data.append(parts.count == 2 ? "\(parts[0])=\(Escaping.url(parts[1]))" : Escaping.url(value))
            case "--json":
                isJSON = true
                data.append(value)
            case "-F", "--form", "--form-string":
                guard let equals = value.firstIndex(of: "=") else {
                    throw Problem(description: "a part without an =: \(value)")
                }
                let name = String(value[..<equals]), text = String(value[value.index(after: equals)...])
                let isFile = text.hasPrefix("@") && option != "--form-string"
                parts.append(
                    RequestDraft.Part(
                        name: name, value: isFile ? String(text.dropFirst().prefix { $0 != ";" }) : text, isFile: isFile))
            case "-T", "--upload-file":
                file = value
                method = method ?? "PUT"
            case "-u", "--user":
                let pair = value.split(separator: ":" as Character, maxSplits: 1, omittingEmptySubsequences: false).map {
                    String($0)
                }
                login = (pair[0], pair.count > 1 ? pair[1] : "")
            case "-x", "--proxy": others["proxy"] = .string(value)
            case "--cacert": others["cacert"] = .string(value)
            case "-E", "--cert": others["cert"] = .string(value)
            case "--key": others["key"] = .string(value)
            case "--connect-timeout": others["connect-timeout"] = JSONNumber(value).map { .number($0) }
            case "-m", "--max-time": others["max-time"] = JSONNumber(value).map { .number($0) }
            case "--max-redirs": others["max-redirs"] = JSONNumber(value).map { .number($0) }
            case "--retry": others["retry"] = JSONNumber(value).map { .number($0) }
            default: throw Problem(description: "a manifest has nothing for \(option)")
            }
        }

        func draft() throws(Problem) -> RequestDraft {
            guard var url else { throw Problem(description: "no URL") }
            let text = data.joined(separator: "&")
            if isGet, !data.isEmpty { url += (url.contains("?") ? "&" : "?") + text }
            let hasBody = file != nil || !parts.isEmpty || (!data.isEmpty && !isGet)
            var draft = RequestDraft(method: method ?? (isHead ? "HEAD" : hasBody ? "POST" : "GET"), url: url)
            draft.headers = headers
            (draft.login, draft.others) = (login, others)
            guard hasBody else { return draft }
            let typeIndex = headers.firstIndex { $0.name.lowercased() == "content-type" }
            let type =
                typeIndex.map { headers[$0].value.lowercased() }
                ?? (isJSON ? "application/json" : "application/x-www-form-urlencoded")
            if let file {
                draft.body = .file(file)
                if typeIndex == nil, method != "PUT" { draft.headers.append(("Content-Type", type)) }
            } else if !parts.isEmpty {
                draft.body = .multipart(parts)
                // The boundary is another one.
                draft.headers.removeAll { $0.name.lowercased() == "content-type" }
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
            return draft
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
}
