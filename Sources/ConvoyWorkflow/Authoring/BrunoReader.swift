import ConvoySerialization
import Foundation

/// A reader for collections of Bruno, which writes each request as a request of a manifest.
///
/// Anything that a manifest cannot express becomes a note.
package struct BrunoReader {
    /// A mistake in a file.
    package struct Problem: Error, Sendable, CustomStringConvertible {
        /// The mistake.
        package let description: String
    }

    /// A file of a collection.
    package struct Source: Sendable {
        /// The path within the collection: `users/create.bru`.
        package let path: String
        /// The contents of the file.
        package let contents: Data

        /// Creates a source.
        package init(path: String, contents: Data) {
            self.path = path
            self.contents = contents
        }
    }

    private static let functions = [
        "$guid": "uuid()", "$randomUUID": "uuid()", "$timestamp": "now() | format('%s')", "$isoTimestamp": "now()",
        "$randomInt": "random(0, 1000)",
    ]
    private static let methods = ["get", "post", "put", "delete", "patch", "options", "head", "connect", "trace"]

    private struct Parsed {
        let path: String
        let file: BrunoFile
        /// The directory, which is empty for the collection itself.
        var directory: String { path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "" }
        var name: String { String(path[(path.lastIndex(of: "/").map { path.index(after: $0) } ?? path.startIndex)...]) }
        var sequence: Double { file.first("meta")?.value("seq").flatMap { Double($0) } ?? .infinity }
    }

    private var imported: ImportedRequests
    /// The settings of the collection and of its folders.
    private let folders: [Parsed]

    /// Returns a manifest for the files of a collection.
    ///
    /// - Parameter sources: The files with the extension `bru`: requests, `collection.bru`, `folder.bru` and environments, of
    ///   which the first one sets variables.
    /// - Throws: The first mistake, with its file and line.
    package static func manifest(_ sources: [Source]) throws(Problem) -> String {
        var files: [Parsed] = []
        for source in sources {
            guard let text = String(validating: source.contents, as: UTF8.self) else {
                throw Problem(description: "\(source.path): not UTF-8")
            }
            do throws(Problem) {
                files.append(Parsed(path: source.path, file: try BrunoFile(text)))
            } catch {
                throw Problem(description: "\(source.path): \(error.description)")
            }
        }
        let settings = files.filter { ["collection.bru", "folder.bru"].contains($0.name) }
        let environments = files.filter { $0.directory == "environments" || $0.directory.hasSuffix("/environments") }
        let texts = sources.map { String(decoding: $0.contents, as: UTF8.self) }.joined(separator: "\n")
        var reader = BrunoReader(
            imported: ImportedRequests(ImportedVariables(functions: functions), usedIn: texts), folders: settings)
        for block in [environments.first?.file.first("vars")] + settings.map({ $0.file.first("vars:pre-request") }) {
            for pair in block?.pairs ?? [] { reader.set(pair.name, pair.value) }
        }
        let requests = files.filter { file in methods.contains { file.file.first($0) != nil } }
        let ordered = requests.enumerated().sorted { one, other in
            let (first, second) = (one.element, other.element)
            if first.directory != second.directory { return first.directory < second.directory }
            return (first.sequence, one.offset) < (second.sequence, other.offset)
        }
        for (_, file) in ordered { reader.add(file) }
        guard !reader.imported.requests.isEmpty else { throw Problem(description: "the collection has no requests") }
        return reader.imported.manifest
    }

    private init(imported: ImportedRequests, folders: [Parsed]) {
        self.imported = imported
        self.folders = folders
    }

    private mutating func set(_ name: String, _ value: String) {
        imported.variables.set(name, to: imported.variables.templated(WorkflowInputs.value(of: value)))
    }

    private mutating func text(_ text: String, _ draft: inout RequestDraft) -> String {
        imported.variables.text(text, &draft)
    }

    // MARK: Requests

    private mutating func add(_ file: Parsed) {
        let content = file.file
        guard let block = Self.methods.lazy.compactMap({ content.first($0) }).first else { return }
        // The settings of the collection come first, then those of the folders.
        let outer = folders.filter { $0.directory.isEmpty || "\(file.directory)/".hasPrefix("\($0.directory)/") }
            .sorted { $0.directory.utf8.count < $1.directory.utf8.count }.map(\.file)
        let title = content.first("meta")?.value("name") ?? file.name
        let name = imported.name(for: title)
        var draft = RequestDraft(method: block.name.uppercased(), url: "")
        if title != name { draft.notes.append(title) }
        for pair in content.first("vars:pre-request")?.pairs ?? [] {
            imported.variables.setOnce(pair.name, to: WorkflowInputs.value(of: pair.value), or: &draft)
        }
        for script in (outer + [content]).flatMap({ $0.texts("script:pre-request") }) {
            let reader = ScriptReader(script, imported.variables)
            for constant in reader.constants { imported.variables.setOnce(constant.name, to: constant.value, or: &draft) }
            draft.notes += (reader.others + reader.checks).map { "not expressed, before the request: \($0)" }
        }
        var address = block.value("url") ?? ""
        for pair in content.first("params:path")?.pairs ?? [] {
            address = address.split(separator: "/", omittingEmptySubsequences: false)
                .map {
                    $0.prefix { $0 != "?" } == ":\(pair.name)" ? pair.value + $0.dropFirst(pair.name.count + 1) : String($0)
                }
                .joined(separator: "/")
        }
        // The URL of the file contains the enabled items of the query.
        if !address.contains("?") {
            for pair in (content.first("params:query") ?? content.first("query"))?.pairs ?? [] {
                draft.query.append((text(pair.name, &draft), text(pair.value, &draft)))
            }
        }
        draft.url = text(address.hasPrefix("{{") || address.contains("://") ? address : "http://\(address)", &draft)
        for pair in (outer + [content]).flatMap({ $0.first("headers")?.pairs ?? [] }) {
            draft.headers.removeAll { $0.name.lowercased() == pair.name.lowercased() }
            draft.headers.append((pair.name, text(pair.value, &draft)))
        }
        setBody(block.value("body") ?? "none", content, &draft)
        let mode = block.value("auth") ?? "none"
        if mode == "inherit" {
            let owner = outer.last { $0.first("auth") != nil && $0.first("auth")?.value("mode") != "inherit" }
            if let owner { setLogin(owner.first("auth")?.value("mode") ?? "none", owner, &draft) }
        } else {
            setLogin(mode, content, &draft)
        }
        if content.first("settings")?.value("followRedirects") == "false" { draft.others["max-redirs"] = 0 }
        if let seconds = content.first("settings")?.value("timeout").flatMap({ JSONNumber($0)?.double }), seconds > 0 {
            draft.others["max-time"] = JSONNumber(seconds / 1000).map { .number($0) } ?? .null
        }
        for pair in (outer + [content]).flatMap({ $0.first("vars:post-response")?.pairs ?? [] }) {
            if let source = ScriptReader.value(of: pair.value)?.capture {
                imported.addCapture(pair.name, source, to: &draft, of: name)
            } else {
                draft.notes.append("not expressed: \(pair.name): \(pair.value)")
            }
        }
        var checks: [String] = []
        for pair in content.first("assert")?.pairs ?? [] {
            if let check = BrunoAssert.expression(pair.name, pair.value, &imported.variables) {
                checks.append(check)
            } else {
                draft.notes.append("not expressed: \(pair.name): \(pair.value)")
            }
        }
        let scripts = (outer + [content]).flatMap { $0.texts("script:post-response") + $0.texts("tests") }
        imported.add(draft, named: name, scripts, checks: checks)
    }

    // MARK: Bodies

    private mutating func setBody(_ mode: String, _ file: BrunoFile, _ draft: inout RequestDraft) {
        let hasType = draft.headers.contains { $0.name.lowercased() == "content-type" }
        switch mode {
        case "none": break
        case "json":
            let content = file.first("body:json")?.text ?? file.first("body")?.text ?? ""
            if let json = draft.json(content, &imported.variables) {
                draft.body = .json(json)
            } else {
                draft.body = .text(text(content, &draft))
                if !hasType { draft.headers.append(("Content-Type", "application/json")) }
            }
        case "text", "xml", "sparql":
            draft.body = .text(text(file.first("body:\(mode)")?.text ?? "", &draft))
            let types = ["text": "text/plain", "xml": "application/xml", "sparql": "application/sparql-query"]
            if !hasType, let type = types[mode] { draft.headers.append(("Content-Type", type)) }
        case "graphql":
            var object = JSONObject()
            object["query"] = .string(text(file.first("body:graphql")?.text ?? "", &draft))
            if let values = file.first("body:graphql:vars")?.text, let json = draft.json(values, &imported.variables) {
                object["variables"] = json
            }
            draft.body = .json(.object(object))
        case "form-urlencoded", "formUrlEncoded":
            let pairs = file.first("body:form-urlencoded")?.pairs ?? []
            draft.body = .form(pairs.map { (text($0.name, &draft), text($0.value, &draft)) })
        case "multipart-form", "multipartForm":
            var parts: [RequestDraft.Part] = []
            for pair in file.first("body:multipart-form")?.pairs ?? [] {
                let name = text(pair.name, &draft)
                guard let (paths, type) = Self.files(pair.value) else {
                    parts.append(RequestDraft.Part(name: name, value: text(pair.value, &draft), isFile: false))
                    continue
                }
                for path in paths {
                    parts.append(RequestDraft.Part(name: name, value: text(path, &draft), isFile: true))
                    parts[parts.count - 1].type = type
                }
            }
            draft.body = .multipart(parts)
        case "file":
            guard let value = file.first("body:file")?.value("file"), let (paths, type) = Self.files(value),
                let path = paths.first
            else { return draft.notes.append("not expressed: a body without a file") }
            draft.body = .file(text(path, &draft))
            if let type, !hasType { draft.headers.append(("Content-Type", type)) }
        default: draft.notes.append("not expressed: the body \(mode)")
        }
    }

    /// Returns the paths and the media type of `@file(a|b) @contentType(c)`.
    private static func files(_ value: String) -> (paths: [String], type: String?)? {
        guard value.hasPrefix("@file("), let end = value.firstIndex(of: ")") else { return nil }
        let paths = value[..<end].dropFirst(6).split(separator: "|").map(String.init)
        guard let start = value.range(of: "@contentType("), let close = value[start.upperBound...].firstIndex(of: ")") else {
            return (paths, nil)
        }
        let type = String(value[start.upperBound..<close])
        return (paths, type.isEmpty ? nil : type)
    }

    // MARK: Logins

    private mutating func setLogin(_ mode: String, _ file: BrunoFile, _ draft: inout RequestDraft) {
        let block = file.first("auth:\(mode)")
        func value(_ key: String) -> String { block?.value(key) ?? "" }
        switch mode {
        case "none": break
        case "basic", "digest":
            draft.login = (text(value("username"), &draft), text(value("password"), &draft))
            draft.isLoginChallenged = mode == "digest"
        case "bearer": draft.setBearer(text(value("token"), &draft))
        case "apikey":
            let content = text(value("value"), &draft)
            if value("placement") == "queryparams" {
                draft.query.append((text(value("key"), &draft), content))
            } else {
                draft.headers.append((value("key"), content))
            }
        default: draft.notes.append("not expressed: the login \(mode)")
        }
    }
}
