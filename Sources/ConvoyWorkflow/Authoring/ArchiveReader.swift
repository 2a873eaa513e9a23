import ConvoySerialization
import ConvoySupport
import Foundation

/// A reader for HTTP Archives (HAR 1.2), as browsers save them.
package enum ArchiveReader {
    /// Returns the requests of an archive, each of which runs after the previous one, or nil if the data is not an
    /// archive. The notes of a request list what a manifest cannot express, and the omitted entries before the request.
    ///
    /// The fields of a single connection, `Accept-Encoding`, and the cookies that earlier responses in the archive have
    /// set are omitted, because the run sets them itself. A redirect is the expected response, and its target is the
    /// next request.
    package static func drafts(_ data: Data) -> [(name: String, draft: RequestDraft)]? {
        guard let archive = try? JSON(parsing: data), case .array(let entries)? = archive[["log", "entries"]] else {
            return nil
        }
        var drafts: [RequestDraft] = [], notes: [String] = [], cookies: [String: Set<String>] = [:]
        for entry in entries {
            let reader = EntryReader(entry: entry, cookies: cookies)
            let shown = "\(reader.method) \(Redaction.url(reader.url).prefix(200))"
            let host = URLReference.url(reader.url)?.host ?? ""
            if var draft = reader.draft() {
                if let reason = draft.failure {
                    notes.append("\(shown): left out; \(reason)")
                } else {
                    draft.notes = notes + draft.notes
                    notes = []
                    drafts.append(draft)
                }
            } else {
                notes.append("\(shown): left out; it is not a request of http or https")
            }
            cookies[host, default: []].formUnion(reader.newCookies)
        }
        if !drafts.isEmpty { drafts[drafts.count - 1].notes += notes }
        var named = RequestDraft.named(drafts)
        for index in named.indices.dropFirst() { named[index].draft.others["after"] = [.string(named[index - 1].name)] }
        return named
    }
}

/// A reader for one entry of an archive.
private struct EntryReader {
    let entry: JSON
    /// The names of the cookies that earlier responses have set, by host.
    let cookies: [String: Set<String>]

    /// The fields that the engine sets itself, or that apply to a single connection.
    private static let ownFields: Set<String> = [
        "host", "content-length", "connection", "accept-encoding", "keep-alive", "transfer-encoding", "te", "upgrade",
        "proxy-connection", "http2-settings",
    ]

    private static let conditions: Set<String> = ["if-none-match", "if-modified-since"]

    var method: String { string("request", "method") ?? "" }
    var url: String { string("request", "url") ?? "" }

    private func string(_ path: String...) -> String? {
        if case .string(let text)? = entry[JSONPointer(tokens: path)] { text } else { nil }
    }

    /// Returns the names and values of a list in the entry.
    private func pairs(_ path: String...) -> [(name: String, value: String)] {
        guard case .array(let elements)? = entry[JSONPointer(tokens: path)] else { return [] }
        return elements.compactMap { element in
            guard case .string(let name)? = element[["name"]], case .string(let value)? = element[["value"]] else {
                return nil
            }
            return (name, value)
        }
    }

    /// The names of the cookies that the response sets.
    var newCookies: [String] {
        let fields = pairs("response", "headers").filter { $0.name.lowercased() == "set-cookie" }
        // Browsers record several fields as lines of a single field.
        let lines = fields.flatMap { $0.value.split(whereSeparator: \.isNewline) }
        return pairs("response", "cookies").map(\.name)
            + lines.map { $0.prefix { $0 != "=" && $0 != ";" }.trimmingCharacters(in: .whitespaces) }
    }

    func draft() -> RequestDraft? {
        guard let address = URLReference.url(String(url.prefix { $0 != "#" })), Target(address) != nil,
            HTTPSyntax.isToken(method), method != "CONNECT"
        else { return nil }
        var draft = RequestDraft(method: method, url: address.absoluteString)
        addHeaders(to: &draft)
        addBody(to: &draft)
        addExpectation(to: &draft)
        return draft
    }

    private func addHeaders(to draft: inout RequestDraft) {
        for (name, value) in pairs("request", "headers") {
            let key = name.lowercased()
            guard !Self.ownFields.contains(key), !key.hasPrefix(":"), key != "cookie" else { continue }
            guard HTTPSyntax.isToken(name), !Escaping.hasControls(value) else {
                draft.notes.append("The header field \(name.prefix(40)): left out; it cannot be sent")
                continue
            }
            if let index = draft.headers.firstIndex(where: { $0.name.lowercased() == key }) {
                draft.headers[index].value += ", \(value)"
            } else {
                draft.headers.append((name, value))
            }
        }
        if draft.headers.contains(where: { $0.name.lowercased() == "authorization" }) {
            draft.url = URLUserInfo.removed(from: draft.url)
        }
        addCookies(to: &draft)
    }

    /// Adds the cookies of the request, unless earlier responses have set all of them.
    private func addCookies(to draft: inout RequestDraft) {
        let fields = pairs("request", "headers").filter { $0.name.lowercased() == "cookie" }.map(\.value)
        let sent = fields.isEmpty ? pairs("request", "cookies").map { "\($0.name)=\($0.value)" } : fields
        guard !sent.isEmpty else { return }
        let text = sent.joined(separator: "; ")
        let names = text.split(separator: ";" as Character).map {
            $0.prefix { $0 != "=" }.trimmingCharacters(in: .whitespaces)
        }
        let known = cookies[URLReference.url(url)?.host ?? ""] ?? []
        if names.allSatisfy(known.contains) { return }
        draft.headers.append(("Cookie", text))
        if names.contains(where: known.contains) {
            draft.notes.append("Cookie: the recorded values are sent, also those of cookies that the run sets itself")
        }
    }

    private func addBody(to draft: inout RequestDraft) {
        guard case .object? = entry[["request", "postData"]] else { return }
        let mimeType = string("request", "postData", "mimeType") ?? ""
        let type =
            draft.headers.first { $0.name.lowercased() == "content-type" }?.value ?? (mimeType.isEmpty ? nil : mimeType)
        let params = parts
        var text = string("request", "postData", "text") ?? ""
        guard !text.isEmpty || !params.isEmpty else { return }
        if string("request", "postData", "encoding")?.lowercased() == "base64" {
            guard let data = Data(base64Encoded: text), let decoded = String(validating: data, as: UTF8.self) else {
                return draft.notes.append("The body is left out; it is not text. Give it as file:")
            }
            text = decoded
        }
        if text.contains("\u{FFFD}") { draft.notes.append("The body has bytes that the archive does not contain") }
        guard text.isEmpty else { return draft.setBody(text, type: type) }
        if type?.lowercased().hasPrefix("multipart/") == true {
            draft.body = .multipart(params)
            // The new body has a different boundary.
            draft.headers.removeAll { $0.name.lowercased() == "content-type" }
            let names = params.filter { $0.fileName != nil && $0.value.isEmpty }.map(\.name)
            if !names.isEmpty {
                draft.notes.append("The archive does not contain the files of \(names.joined(separator: ", "))")
            }
        } else {
            let form = params.map { "\(Escaping.url($0.name))=\(Escaping.url($0.value))" }.joined(separator: "&")
            draft.setBody(form, type: type ?? "application/x-www-form-urlencoded")
        }
    }

    /// The parts of a form, which an archive can record instead of the text.
    private var parts: [RequestDraft.Part] {
        guard case .array(let elements)? = entry[["request", "postData", "params"]] else { return [] }
        return elements.compactMap { element in
            guard case .string(let name)? = element[["name"]] else { return nil }
            func text(_ key: String) -> String? { if case .string(let text)? = element[key] { text } else { nil } }
            var part = RequestDraft.Part(name: name, value: text("value") ?? "", isFile: false)
            part.fileName = text("fileName")
            part.type = text("contentType").flatMap { $0.isEmpty || Escaping.hasControls($0) ? nil : $0 }
            return part
        }
    }

    private func addExpectation(to draft: inout RequestDraft) {
        guard case .number(let number)? = entry[["response", "status"]], let status: Int = number.integer() else { return }
        let isConditional = draft.headers.contains { Self.conditions.contains($0.name.lowercased()) }
        switch status {
        case 304 where isConditional, 200...299 where isConditional:
            // The resource may or may not have changed since the recording.
            draft.expectations["status"] = ["200-299", 304]
        case 200...299, 100...199: break
        case 300...399:
            draft.others["max-redirs"] = 0
            draft.expectations["status"] = .number(JSONNumber(status))
        case 400...599: draft.expectations["status"] = .number(JSONNumber(status))
        default: break
        }
    }
}
