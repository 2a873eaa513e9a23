import ConvoySerialization
import Foundation

/// A reader for collections of Postman (formats 2.0 and 2.1), which writes each request as a request of a manifest. The
/// requests keep their order, and folders are left out.
///
/// Anything that a manifest cannot express becomes a note.
package struct PostmanReader {
    /// A mistake in a file.
    package struct Problem: Error, Sendable, CustomStringConvertible {
        /// The mistake.
        package let description: String
    }

    private static let functions = [
        "$guid": "uuid()", "$randomUUID": "uuid()", "$timestamp": "now() | format('%s')", "$isoTimestamp": "now()",
        "$randomInt": "random(0, 1000)",
    ]

    /// The settings that a folder passes to its requests.
    private struct Folder {
        var login: JSON?
        var scripts: [String] = []
        var preparations: [String] = []
        var depth = 0
    }

    private var imported: ImportedRequests

    /// Returns a manifest for a collection.
    ///
    /// - Throws: The reason why the file is not a collection.
    package static func manifest(_ data: Data) throws(Problem) -> String {
        let json: JSON
        do throws(JSONSyntaxError) {
            json = try JSON(parsing: data, maximumDepth: 200)
        } catch {
            throw Problem(description: "line \(error.position.line): \(error.reason)")
        }
        // The API of Postman returns a collection as a member.
        let root = json[["collection"]] ?? json
        guard case .array? = root[["item"]] else { throw Problem(description: "not a collection of Postman: no \"item\"") }
        var reader = PostmanReader(
            imported: ImportedRequests(
                ImportedVariables(functions: functions), usedIn: String(decoding: data, as: UTF8.self)))
        for variable in root.list("variable") where variable[["disabled"]] != true {
            guard let name = variable.string("key") ?? variable.string("id"), !name.isEmpty else { continue }
            let value = reader.imported.variables.templated(variable[["value"]] ?? .null)
            // A variable without a value is declared where it is used.
            if value != .null, value != "" { reader.imported.variables.set(name, to: value) }
        }
        reader.read(root, in: Folder())
        guard !reader.imported.requests.isEmpty else { throw Problem(description: "the collection has no requests") }
        return reader.imported.manifest
    }

    private init(imported: ImportedRequests) { self.imported = imported }

    private mutating func read(_ json: JSON, in folder: Folder) {
        var folder = folder
        folder.depth += 1
        if let login = json[["auth"]], login != .null { folder.login = login }
        folder.scripts += Self.scripts("test", of: json)
        folder.preparations += Self.scripts("prerequest", of: json)
        for item in json.list("item") {
            if item[["item"]] != nil {
                if folder.depth < ImportedRequests.maximumDepth { read(item, in: folder) }
            } else if let request = item[["request"]] {
                add(request, item, in: folder)
            }
        }
    }

    private static func scripts(_ kind: String, of json: JSON) -> [String] {
        json.list("event").filter { $0.string("listen") == kind && $0[["disabled"]] != true }.compactMap { event in
            switch event[["script", "exec"]] {
            case .array(let lines)?: lines.map(\.text).joined(separator: "\n")
            case .string(let text)?: text
            default: nil
            }
        }
    }

    // MARK: Requests

    private mutating func add(_ request: JSON, _ item: JSON, in folder: Folder) {
        let title = item.string("name") ?? ""
        var draft = RequestDraft(method: request.string("method")?.uppercased() ?? "GET", url: "")
        let name = imported.name(for: title)
        if !title.isEmpty, title != name { draft.notes.append(title) }
        // The values that a script sets before the request are known to it.
        for script in folder.preparations + Self.scripts("prerequest", of: item) {
            let reader = ScriptReader(script, imported.variables)
            for constant in reader.constants { imported.variables.setOnce(constant.name, to: constant.value, or: &draft) }
            draft.notes += (reader.others + reader.checks).map { "not expressed, before the request: \($0)" }
        }
        draft.url = url(request.isText ? request : request[["url"]] ?? "", &draft)
        for header in request.list("header") where header[["disabled"]] != true {
            guard let key = header.string("key"), !key.isEmpty else { continue }
            guard !key.contains("{{") else {
                draft.notes.append("not expressed: the header \(key)")
                continue
            }
            draft.headers.append((key, text(header.string("value") ?? "", &draft)))
        }
        setBody(request[["body"]] ?? .null, &draft)
        let own = request[["auth"]]
        setLogin((own == nil || own == .null ? folder.login : own) ?? .null, &draft)
        if item[["protocolProfileBehavior", "followRedirects"]] == false { draft.others["max-redirs"] = 0 }
        if item[["protocolProfileBehavior", "strictSSL"]] == false { draft.others["insecure"] = true }
        imported.add(draft, named: name, folder.scripts + Self.scripts("test", of: item))
    }

    private mutating func text(_ text: String, _ draft: inout RequestDraft) -> String {
        imported.variables.text(text, &draft)
    }

    private mutating func url(_ json: JSON, _ draft: inout RequestDraft) -> String {
        guard case .object = json else { return text(json.text, &draft) }
        var raw = json.string("raw") ?? ""
        if raw.isEmpty {
            func joined(_ key: String, _ separator: String) -> String {
                let parts = json.list(key).map { $0.isText ? $0.text : $0.string("value") ?? "" }
                return parts.isEmpty ? json.string(key) ?? "" : parts.joined(separator: separator)
            }
            raw = (json.string("protocol").map { "\($0)://" } ?? "") + joined("host", ".") + "/" + joined("path", "/")
            for item in json.list("query") where item[["disabled"]] != true {
                draft.query.append((text(item.string("key") ?? "", &draft), text(item.string("value") ?? "", &draft)))
            }
        }
        // A segment :name stands for a variable of the path.
        let end = raw.firstIndex { $0 == "?" || $0 == "#" } ?? raw.endIndex
        var segments = raw[..<end].split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        for variable in json.list("variable") {
            guard let key = variable.string("key") else { continue }
            for index in segments.indices where segments[index] == ":\(key)" {
                segments[index] = variable[["value"]]?.text ?? ""
            }
        }
        let address = segments.joined(separator: "/") + raw[end...]
        // Postman sends http if the URL has no scheme.
        let needsScheme = !address.hasPrefix("{{") && !address.contains("://")
        return text(needsScheme ? "http://\(address)" : address, &draft)
    }

    // MARK: Bodies

    private mutating func setBody(_ body: JSON, _ draft: inout RequestDraft) {
        guard body[["disabled"]] != true else { return }
        switch body.string("mode") {
        case "raw"?:
            let raw = body.string("raw") ?? ""
            guard !raw.isEmpty else { return }
            let hasType = draft.headers.contains { $0.name.lowercased() == "content-type" }
            let language = body[["options", "raw", "language"]]?.text
            if language == "json" || (language == nil && raw.hasPrefix("{")), let json = draft.json(raw, &imported.variables)
            {
                draft.body = .json(json)
                return
            }
            draft.body = .text(text(raw, &draft))
            let types = [
                "json": "application/json", "xml": "application/xml", "html": "text/html",
                "javascript": "application/javascript",
            ]
            if !hasType { draft.headers.append(("Content-Type", types[language ?? ""] ?? "text/plain")) }
        case "urlencoded"?:
            draft.body = .form(
                body.list("urlencoded").filter { $0[["disabled"]] != true }.map { item in
                    (text(item.string("key") ?? "", &draft), text(item.string("value") ?? "", &draft))
                })
        case "formdata"?:
            var parts: [RequestDraft.Part] = []
            for item in body.list("formdata") where item[["disabled"]] != true {
                let name = text(item.string("key") ?? "", &draft)
                guard item.string("type") == "file" else {
                    parts.append(
                        RequestDraft.Part(name: name, value: text(item.string("value") ?? "", &draft), isFile: false))
                    parts[parts.count - 1].type = item.string("contentType")
                    continue
                }
                let files = item.list("src").map(\.text) + (item.string("src").map { [$0] } ?? [])
                if files.isEmpty { draft.notes.append("not expressed: the part \(name) has no file") }
                for file in files { parts.append(RequestDraft.Part(name: name, value: text(file, &draft), isFile: true)) }
            }
            draft.body = .multipart(parts)
        case "file"?:
            guard let path = body[["file", "src"]]?.text ?? body.string("file"), !path.isEmpty else {
                return draft.notes.append("not expressed: a body without a file")
            }
            draft.body = .file(text(path, &draft))
        case "graphql"?:
            var object = JSONObject()
            object["query"] = .string(text(body[["graphql", "query"]]?.text ?? "", &draft))
            let variables = body[["graphql", "variables"]]?.text ?? ""
            if let json = draft.json(variables, &imported.variables) { object["variables"] = json }
            draft.body = .json(.object(object))
        default: break
        }
    }

    // MARK: Logins

    private mutating func setLogin(_ login: JSON, _ draft: inout RequestDraft) {
        guard let kind = login.string("type") else { return }
        func value(_ key: String) -> String? {
            if case .object? = login[[kind]] { return login[[kind, key]]?.text }
            return login.list(kind).first { $0.string("key") == key }?[["value"]]?.text
        }
        switch kind {
        case "noauth": break
        case "basic", "digest":
            draft.login = (text(value("username") ?? "", &draft), text(value("password") ?? "", &draft))
            draft.isLoginChallenged = kind == "digest"
        case "bearer": draft.setBearer(text(value("token") ?? "", &draft))
        case "oauth2" where value("accessToken")?.isEmpty == false:
            draft.setBearer(text(value("accessToken") ?? "", &draft))
        case "apikey":
            guard let key = value("key"), !key.isEmpty else { return }
            let content = text(value("value") ?? "", &draft)
            if value("in") == "query" {
                draft.query.append((text(key, &draft), content))
            } else {
                draft.headers.append((key, content))
            }
        default: draft.notes.append("not expressed: the login \(kind)")
        }
    }
}

extension RequestDraft {
    mutating func setBearer(_ token: String) { others["bearer"] = templated(.string(token)) }
}

extension JSON {
    fileprivate var isText: Bool { if case .string = self { true } else { false } }

    /// Returns the elements of a member that is a list, or none.
    fileprivate func list(_ key: String) -> [JSON] { if case .array(let values)? = self[[key]] { values } else { [] } }

    /// Returns a member that is a string, a number or a boolean.
    fileprivate func string(_ key: String) -> String? {
        switch self[[key]] {
        case .string(let text)?: text
        case .number(let number)?: number.text
        case .bool(let value)?: "\(value)"
        default: nil
        }
    }
}
