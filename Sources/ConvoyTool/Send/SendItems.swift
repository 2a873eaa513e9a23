import Convoy
import ConvoySupport
import ConvoyWorkflow
import Foundation
import FoundationNetworking

/// The arguments of `convoy send`, which are those of HTTPie.
enum SendItems {
    private enum Kind { case text, json, file, query, header }

    /// An item, split at its separator.
    private struct RequestItem {
        let name: String
        /// The name in which escaped backslashes are still escaped.
        let key: String
        let kind: Kind
        let value: String
        /// Whether the value is the path of a file with the value: `text=@FILE`.
        var isPath = false
    }

    /// The parsed arguments. The method defaults to GET, or to POST if there is a body, as in HTTPie.
    struct Arguments {
        let method: String
        let url: String
        let items: ArraySlice<String>
    }

    /// Parses the arguments. Returns nil if the URL is missing.
    static func target(_ options: Options) -> Arguments? {
        guard let first = options.arguments.first else { return nil }
        let rest = options.arguments.dropFirst()
        if first.contains(where: { "/:.".contains($0) }) || first == "localhost" {
            let hasBody =
                options.has("body") || rest.contains { item($0).map { ![.query, .header].contains($0.kind) } ?? false }
            return Arguments(method: hasBody ? "POST" : "GET", url: url(first), items: rest)
        }
        guard let address = rest.first else { return nil }
        return Arguments(method: first.uppercased(), url: url(address), items: rest.dropFirst())
    }

    /// Returns a URL of this machine for `:3000/path` and `:/path`.
    private static func url(_ text: String) -> String {
        guard text.hasPrefix(":") else { return text }
        let port = text.dropFirst().prefix { $0.isASCII && $0.isNumber }, rest = text.dropFirst(port.count + 1)
        guard rest.isEmpty || "/?#".contains(rest.first ?? "/") else { return text }
        return "http://localhost\(port.isEmpty ? "" : ":\(port)")\(rest)"
    }

    static func draft(_ options: Options, _ target: Arguments) throws(ToolError) -> RequestDraft {
        var draft = RequestDraft(method: target.method, url: try options.url(target.url).absoluteString)
        if options.keepsDotSegments { draft.others["path-as-is"] = true }
        var fields: [String] = [], body: JSON?
        var pairs: [(name: String, value: String)] = [], parts: [RequestDraft.Part] = []
        for argument in target.items {
            guard let item = item(argument) else {
                throw options.usage(
                    "invalid item '\(Printable.line(argument))': use NAME=VALUE, NAME:=JSON, NAME@FILE, NAME==VALUE or Header:Value"
                )
            }
            let value = item.isPath ? try text(ofFile: item.value, argument, options) : item.value
            switch item.kind {
            case .header where item.value.isEmpty && argument.hasSuffix(":"): draft.removedHeaders.append(item.name)
            case .header:
                fields.append("\(item.name): \(item.isPath ? value.trimmingSuffix(while: \.isNewline) : value[...])")
            case .query: draft.query.append((item.name, value))
            case .text:
                body = try setting(.string(value), item, in: body, argument, options)
                pairs.append((item.name, value))
                parts.append(RequestDraft.Part(name: item.name, value: value, isFile: false))
            case .json:
                guard let json = try? JSON(parsing: Data(value.utf8)) else {
                    throw options.usage("invalid JSON in '\(Printable.line(argument))'")
                }
                body = try setting(json, item, in: body, argument, options)
                pairs.append((item.name, json.description))
                parts.append(RequestDraft.Part(name: item.name, value: json.description, isFile: false))
            case .file where options.has("multipart") || options.has("form"):
                parts.append(RequestDraft.Part(name: item.name, value: value, isFile: true))
            case .file:
                let text = try text(ofFile: value, argument, options)
                body = try setting(.string(text), item, in: body, argument, options)
                pairs.append((item.name, text))
            }
        }
        if let field = try authorization(options) { fields.append("Authorization: \(field)") }
        draft.headers = try Headers(options).adding(fields).list
        draft.body = try self.body(body, pairs, parts, options)
        return draft
    }

    /// Returns the login that is sent at once, or nil.
    private static func authorization(_ options: Options) throws(ToolError) -> String? {
        if let token = options.value("bearer") {
            guard !token.isEmpty else { throw options.usage("--bearer needs a token") }
            return "Bearer \(token)"
        }
        guard let text = options.value("auth") else { return nil }
        let login = try LoginOptions.credential(text, options, option: "auth")
        return "Basic \(Data("\(login.user ?? ""):\(login.password ?? "")".utf8).base64EncodedString())"
    }

    /// Sets a value in the JSON body, unless the body is a form.
    private static func setting(
        _ value: JSON, _ item: RequestItem, in body: JSON?, _ argument: String, _ options: Options
    ) throws(ToolError) -> JSON? {
        guard !options.has("form"), !options.has("multipart") else { return nil }
        let shown = Printable.line(argument)
        guard let key = NestedKey(item.key) else { throw options.usage("'\(shown)': the brackets do not match") }
        guard let result = key.setting(value, in: body) else {
            throw options.usage("'\(shown)': the place is within a value of another type")
        }
        return result
    }

    private static func text(
        ofFile path: String, _ argument: String, _ options: Options
    ) throws(ToolError) -> String {
        let data = try InputFile.contents(of: path, called: Printable.line(path), limit: DownloadList.maximumLength)
        guard let text = String(validating: data, as: UTF8.self) else {
            let file = Printable.line(path)
            throw options.usage("'\(Printable.line(argument))': \(file) is not UTF-8; use --multipart or --body to send it")
        }
        return text
    }

    private static func body(
        _ json: JSON?, _ pairs: [(name: String, value: String)], _ parts: [RequestDraft.Part], _ options: Options
    ) throws(ToolError) -> RequestDraft.Body? {
        if let file = options.value("body") {
            guard parts.isEmpty, pairs.isEmpty else { throw options.usage("--body cannot be combined with body items") }
            if file != "-" { return .file(file) }
            let data = try InputFile.contents(of: "-", called: "standard input", limit: DownloadList.maximumLength)
            if let text = String(validating: data, as: UTF8.self) { return .text(text) }
            guard !options.has("save") else {
                throw options.usage("standard input is not text and cannot be saved; use --body FILE")
            }
            return .file(try TemporaryBytes.path(of: data))
        }
        guard !parts.isEmpty || !pairs.isEmpty else { return nil }
        // A form with a file is sent in parts, as by a browser.
        if options.has("multipart") || options.has("form") && parts.contains(where: \.isFile) { return .multipart(parts) }
        return options.has("form") ? .form(pairs) : json.map { .json($0) }
    }

    /// Splits an item at its first separator without a preceding backslash.
    private static func item(_ text: String) -> RequestItem? {
        var name = "", key = "", rest = text[...]
        while let next = rest.first, !":=@;".contains(next) || next == ";" && rest.count > 1 {
            rest.removeFirst()
            // As in HTTPie, `dc\:title=x` has a colon in its name.
            guard next == "\\", let escaped = rest.first, ":=@\\".contains(escaped) else {
                name.append(next)
                key.append(next)
                continue
            }
            rest.removeFirst()
            name.append(escaped)
            key += escaped == "\\" ? "\\\\" : String(escaped)
        }
        guard !name.isEmpty else { return nil }
        // An empty field: `Name;`.
        if rest == ";" { return RequestItem(name: name, key: key, kind: .header, value: "") }
        let separators: [(String, Kind, Bool)] = [
            (":=@", .json, true), ("==@", .query, true), ("=@", .text, true), (":@", .header, true), (":=", .json, false),
            ("==", .query, false), ("=", .text, false), ("@", .file, false), (":", .header, false),
        ]
        for (separator, kind, isPath) in separators where rest.hasPrefix(separator) {
            let value = String(rest.dropFirst(separator.count))
            return RequestItem(name: name, key: key, kind: kind, value: value, isPath: isPath)
        }
        return nil
    }
}

extension String {
    fileprivate func trimmingSuffix(while isTrimmed: (Character) -> Bool) -> Substring {
        var text = self[...]
        while let last = text.last, isTrimmed(last) { text.removeLast() }
        return text
    }
}
