import ConvoySerialization
import ConvoySupport
import Foundation

/// A reader for the files of Hurl, which writes each request as a request of a manifest. The requests keep their order.
///
/// Anything that a manifest cannot express becomes a note.
package struct HurlReader {
    /// A mistake in a file.
    package struct Problem: Error, Sendable, CustomStringConvertible {
        /// The number of the line, from 1.
        package let line: Int
        let message: String
        /// The line and the mistake.
        package var description: String { "line \(line): \(message)" }
    }

    private static let methodRule = #"^[A-Z]+[ \t]+\S"#
    private static let responseRule = #"^HTTP(/[0-9.]+)?[ \t]+(\*|[0-9]{3})\s*(#.*)?$"#
    private static let sections: Set<String> = [
        "Query", "QueryStringParams", "Form", "FormParams", "Multipart", "MultipartFormData", "Cookies", "BasicAuth",
        "Options", "Captures", "Asserts",
    ]

    private let lines: [String]
    private var index = 0
    private var drafts: [RequestDraft] = []
    private var names: [String] = []
    /// The request that precedes the next one.
    private var previous: String?
    /// The manifest's expression for each variable of Hurl that is known so far.
    private var variables = ImportedVariables(functions: ["newUuid": "uuid()", "newDate": "now()"])

    /// Returns a manifest for a file.
    ///
    /// - Throws: The first line that is not Hurl.
    package static func manifest(_ data: Data) throws(Problem) -> String {
        guard let text = String(validating: data, as: UTF8.self) else { throw Problem(line: 1, message: "not UTF-8") }
        var reader = HurlReader(text)
        try reader.read()
        let requests = zip(reader.names, reader.drafts).map { (name: $0, draft: $1) }
        return RequestDraft.manifest(requests, variables: reader.variables.needed)
    }

    private init(_ text: String) {
        lines = text.replacing("\r\n", with: "\n").split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }

    // MARK: Lines

    private var line: String? { index < lines.count ? lines[index] : nil }

    private func problem(_ message: String) -> Problem { Problem(line: index + 1, message: message) }

    private static func matches(_ rule: String, _ line: String) -> Bool {
        line.range(of: rule, options: .regularExpression) != nil
    }

    /// Skips blank lines and comments.
    private mutating func skipBlank() {
        while let line, line.allSatisfy(\.isWhitespace) || line.drop(while: \.isWhitespace).first == "#" { index += 1 }
    }

    /// The name of the section that begins at the line, or nil.
    private var section: String? {
        guard let line, line.hasPrefix("["), let end = line.firstIndex(of: "]") else { return nil }
        let name = String(line[line.index(after: line.startIndex)..<end])
        return Self.sections.contains(name) ? name : nil
    }

    private var isResponse: Bool { line.map { Self.matches(Self.responseRule, $0) } ?? false }
    private var isRequest: Bool { line.map { Self.matches(Self.methodRule, $0) && !$0.hasPrefix("HTTP") } ?? false }

    /// Returns the lines of a section or of header fields, as pairs of a name and a value.
    private mutating func pairs(isHeader: Bool = false) throws(Problem) -> [(name: String, value: String)] {
        var pairs: [(name: String, value: String)] = []
        while true {
            skipBlank()
            guard let line, section == nil, !isResponse, !isRequest, !Self.startsBody(line) else { return pairs }
            guard let colon = Self.colon(of: line) else {
                if isHeader { return pairs }
                throw problem("expected NAME: VALUE")
            }
            let name = line[..<colon].trimmingCharacters(in: .whitespaces)
            var value = String(line[line.index(after: colon)...])
            if let comment = value.range(of: " #") { value = String(value[..<comment.lowerBound]) }
            pairs.append((HurlText.unescaped(name), value.trimmingCharacters(in: .whitespaces)))
            index += 1
        }
    }

    /// Returns the colon behind a name, which may contain templates and escapes.
    private static func colon(of line: String) -> String.Index? {
        var depth = 0, isEscaped = false
        for place in line.indices {
            if line[place] == "{" { depth += 1 }
            if line[place] == "}" { depth -= 1 }
            if line[place] == ":", depth == 0, !isEscaped { return place }
            isEscaped = !isEscaped && line[place] == "\\"
        }
        return nil
    }

    private static func startsBody(_ line: String) -> Bool {
        let text = line.drop(while: \.isWhitespace)
        guard let first = text.first else { return false }
        return "{[\"`<".contains(first) && !text.hasPrefix("{{")
            || ["base64,", "hex,", "file,"].contains(where: text.hasPrefix)
    }

    // MARK: Entries

    private mutating func read() throws(Problem) {
        skipBlank()
        while line != nil {
            try readEntry()
            skipBlank()
        }
        guard !drafts.isEmpty else { throw Problem(line: 1, message: "no requests") }
    }

    private mutating func readEntry() throws(Problem) {
        guard let line, isRequest else { throw problem("expected a method and a URL") }
        let words = line.split(maxSplits: 1) { $0 == " " || $0 == "\t" }.map(String.init)
        var url = (words.count > 1 ? words[1] : "").trimmingCharacters(in: .whitespaces)
        if let comment = url.range(of: " #") { url = String(url[..<comment.lowerBound]) }
        index += 1
        var draft = RequestDraft(method: words[0], url: "")
        draft.url = variables.text(url, &draft)
        var entry = HurlEntry(draft: draft, name: name(for: draft))
        for header in try pairs(isHeader: true) { entry.addHeader(header, &variables) }
        while let section {
            index += 1
            let pairs = try pairs()
            entry.add(section, pairs, &variables)
            skipBlank()
        }
        skipBlank()
        if let line = self.line, !isResponse, !isRequest, Self.startsBody(line) {
            entry.setBody(try body(), &variables)
        }
        try readResponse(&entry)
        finish(entry)
    }

    private mutating func readResponse(_ entry: inout HurlEntry) throws(Problem) {
        skipBlank()
        guard let line, isResponse else {
            entry.checks.append("status >= 100")
            return
        }
        let words = line.split { $0 == " " || $0 == "\t" }.map(String.init)
        index += 1
        if words[0] != "HTTP" { entry.checks.append("version == '\(words[0])'") }
        if words[1] == "*" { entry.checks.append("status >= 100") } else { entry.status = Int(words[1]) }
        for header in try pairs(isHeader: true) { entry.expectHeader(header, &variables) }
        while let section {
            index += 1
            while true {
                skipBlank()
                guard let line = self.line, self.section == nil, !isResponse, !isRequest, !Self.startsBody(line) else {
                    break
                }
                index += 1
                if section == "Captures" {
                    entry.addCapture(line, &variables)
                } else {
                    entry.addAssert(line, &variables)
                }
            }
        }
        skipBlank()
        if let line = self.line, !isResponse, !isRequest, Self.startsBody(line) { entry.expectBody(try body(), &variables) }
    }

    /// Returns a name that no other request has.
    private func name(for draft: RequestDraft) -> String {
        // A placeholder is not a part of a name.
        var plain = draft
        plain.url = draft.url.split(separator: "\0" as Character).last.map(String.init) ?? ""
        let base = plain.suggestedName
        var name = base, number = 1
        while names.contains(name) {
            number += 1
            name = "\(base)-\(number)"
        }
        return name
    }

    private mutating func finish(_ entry: HurlEntry) {
        var draft = entry.draft
        if let signature = draft.signature {
            let isKnown = signature.contains("\0") || SignatureScope(signature) != nil
            let isMultipart = if case .multipart? = draft.body { true } else { false }
            if !isKnown || draft.login == nil || isMultipart {
                draft.notes.append("not expressed: aws-sigv4: \(signature)")
                draft.signature = nil
                // Without the signature, the secret key would be sent.
                draft.login = nil
            }
        }
        if let previous { draft.others["after"] = [.string(previous)] }
        if !entry.followsRedirects, draft.others["max-redirs"] == nil { draft.others["max-redirs"] = 0 }
        draft.others["expect"] = entry.expectation
        names.append(entry.name)
        // Nothing follows a request that is not sent.
        if draft.others["when"] == nil { previous = entry.name }
        drafts.append(draft)
    }

    // MARK: Bodies

    private mutating func body() throws(Problem) -> HurlBody {
        guard let line else { throw problem("expected a body") }
        let text = line.trimmingCharacters(in: .whitespaces)
        for (prefix, kind) in [("base64,", HurlBody.Notation.base64), ("hex,", .hex), ("file,", .file)]
        where text.hasPrefix(prefix) {
            var content = String(text.dropFirst(prefix.count))
            while !content.contains(";"), index + 1 < lines.count {
                index += 1
                content += lines[index]
            }
            index += 1
            return HurlBody(kind: kind, text: content.prefix { $0 != ";" }.filter { !$0.isWhitespace || kind == .file })
        }
        if text.hasPrefix("```") { return try multiline(String(text.dropFirst(3))) }
        if text.hasPrefix("`") {
            index += 1
            return HurlBody(kind: .text, text: HurlText.unescaped(String(text.dropFirst().prefix { $0 != "`" })))
        }
        return text.hasPrefix("<") ? xml() : try json()
    }

    private mutating func multiline(_ head: String) throws(Problem) -> HurlBody {
        let start = index
        index += 1
        if head.hasSuffix("```") { return HurlBody(kind: .text, text: String(head.dropLast(3))) }
        var content: [String] = []
        while let line, line.trimmingCharacters(in: .whitespaces) != "```" {
            content.append(line)
            index += 1
        }
        guard line != nil else { throw Problem(line: start + 1, message: "the closing ``` is missing") }
        index += 1
        let text = content.map { $0 + "\n" }.joined(), kind = head.prefix { $0 != "," }
        return HurlBody(kind: .text, text: text, language: String(kind).trimmingCharacters(in: .whitespaces))
    }

    private mutating func xml() -> HurlBody {
        var content: [String] = []
        while let line, section == nil, !isResponse, !isRequest {
            content.append(line)
            index += 1
        }
        while content.last?.allSatisfy(\.isWhitespace) == true { content.removeLast() }
        return HurlBody(kind: .text, text: content.joined(separator: "\n"), language: "xml")
    }

    /// Reads JSON up to the bracket that closes it. Templates outside strings are values.
    private mutating func json() throws(Problem) -> HurlBody {
        let start = index
        var content = "", depth = 0, isString = false, isEscaped = false
        while let line {
            for character in line {
                if isString {
                    if character == "\"", !isEscaped { isString = false }
                    isEscaped = !isEscaped && character == "\\"
                } else if character == "\"" {
                    isString = true
                } else if "{[".contains(character) {
                    depth += 1
                } else if "}]".contains(character) {
                    depth -= 1
                }
            }
            content += line + "\n"
            index += 1
            if depth <= 0 { return HurlBody(kind: .json, text: content) }
        }
        throw Problem(line: start + 1, message: "the JSON is not complete")
    }
}

/// A body in a file of Hurl.
struct HurlBody {
    enum Notation {
        case json, text, base64, hex, file
    }

    let kind: Notation
    let text: String
    /// The language of a text, for example `xml` or `graphql`.
    var language = ""
}
