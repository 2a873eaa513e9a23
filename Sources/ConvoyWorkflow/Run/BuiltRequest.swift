import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// A request of a plan with the values of a scope.
struct BuiltRequest {
    var request: URLRequest
    /// The path of its output, below the directory; nil if it has none.
    var output: String?
    /// What the request is made of, for the journal: equal for equal requests.
    var inputs: String
    /// What a `Basic` login is sent as, which is as secret as the password in it; nil for none.
    var login: String?
}

/// Puts the values of a scope into a request.
struct RequestBuilder {
    let plan: RequestPlan
    let baseURL: URL?
    let scope: ItemScope
    /// What a request has that names no agent itself.
    let userAgent: String?

    /// - Parameter page: a URL that replaces that of the plan: of the next page.
    func build(page: URL? = nil) throws(EvaluationError) -> BuiltRequest {
        let url = if let page { page } else { try self.url() }
        var serializer = HTTPRequestSerializer()
        if let userAgent { serializer.setValue(userAgent, forHTTPHeaderField: "User-Agent") }
        serializer.timeoutInterval = plan.timeout
        let method = HTTPMethod(plan.method)
        var (request, inputs) = try body(serializer, method, page == nil ? try with(query: url) : url)
        for header in plan.headers {
            request.setValue(try header.value.map(fieldValue), forHTTPHeaderField: header.name)
        }
        var login: String?
        switch plan.login {
        case .none: break
        case .bearer(let token):
            request.setValue("Bearer \(try fieldValue(token))", forHTTPHeaderField: "Authorization")
        case .basic(let user, let password):
            let pair = "\(try user.text(in: scope)):\(try password.text(in: scope))"
            let value = Data(pair.utf8).base64EncodedString()
            request.setValue("Basic \(value)", forHTTPHeaderField: "Authorization")
            login = value
        }
        let output = try plan.output.map { template throws(EvaluationError) in try OutputPath.path(of: template, in: scope) }
        // The file gets the bytes as they are stored, so that it can be continued.
        if output != nil, request.value(forHTTPHeaderField: "Accept-Encoding") == nil {
            request.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
        }
        let fields = (request.allHTTPHeaderFields ?? [:]).filter {
            $0.key != "Content-Type" || !inputs.hasPrefix("multipart")
        }
        let lines = fields.map { field in
            "\(field.key.lowercased()): \(login.map { field.value.replacing($0, with: "***") } ?? field.value)"
        }.sorted()
        inputs = ([plan.method, request.url?.absoluteString ?? ""] + lines + [output ?? "", inputs]).joined(separator: "\n")
        return BuiltRequest(request: request, output: output, inputs: inputs, login: login)
    }

    private func fieldValue(_ template: Template) throws(EvaluationError) -> String {
        try template.text(in: scope) { value, _ throws(EvaluationError) in try Escaping.header(value.json.text) }
    }

    // MARK: The URL

    private func url() throws(EvaluationError) -> URL {
        var isHostile = false
        let text: String
        if let reference = plan.url.wholeReference {
            // A whole URL, as a server has given it.
            text = try scope.value(of: reference).json.text
        } else {
            var isFirst = true
            text = try plan.url.text(in: scope) { value, reference in
                // What the user gives may be the begin of a URL.
                let isStart = isFirst && startsWithReference && !value.isHostile && reference.root != "item"
                isFirst = false
                if isStart { return value.json.text }
                isHostile = true
                return Escaping.url(value.json.text)
            }
        }
        guard !text.unicodeScalars.contains(where: { $0.value <= 0x20 || $0.value == 0x7F }) else {
            throw EvaluationError(message: "bad URL \(quoted(text, isCut: false)): it has a space or a control character")
        }
        if isHostile {
            let path = text.prefix { $0 != "?" && $0 != "#" }
            let hasDots = PathText.components(of: String(path)).contains { $0 == "." || $0 == ".." }
            guard !hasDots else {
                throw EvaluationError(message: "bad URL \(quoted(text, isCut: false)): a value leads to another directory")
            }
        }
        guard let url = resolve(text), Target(url) != nil else {
            throw EvaluationError(message: "bad URL \(quoted(text, isCut: false)): it must be an http or https URL")
        }
        return url
    }

    private var startsWithReference: Bool {
        if case .reference? = plan.url.pieces.first { true } else { false }
    }

    private func resolve(_ text: String) -> URL? {
        guard let base = baseURL, !text.hasScheme else { return URL(string: text) }
        // Below the path of the base, whether that ends with a slash or not.
        let directory =
            base.absoluteString.hasSuffix("/") || base.query != nil ? base : URL(string: base.absoluteString + "/")
        return URL(string: text, relativeTo: directory)?.absoluteURL
    }

    private func with(query url: URL) throws(EvaluationError) -> URL {
        guard !plan.query.isEmpty else { return url }
        let text = try items(plan.query)
        let (head, fragment) = url.absoluteString.split(at: "#")
        return URL(string: "\(head)\(head.contains("?") ? "&" : "?")\(text)\(fragment)") ?? url
    }

    /// Items of a query or of a form, encoded. A list has its name once for each element, null has none.
    private func items(_ items: [(name: String, value: TreeTemplate)]) throws(EvaluationError) -> String {
        var pairs: [String] = []
        for item in items {
            let name = Escaping.url(item.name)
            switch try item.value.value(in: scope).json {
            case .null: continue
            case .array(let values): pairs += values.map { "\(name)=\(Escaping.url($0.text))" }
            case let value: pairs.append("\(name)=\(Escaping.url(value.text))")
            }
        }
        return pairs.joined(separator: "&")
    }

    // MARK: The body

    private func body(
        _ serializer: HTTPRequestSerializer, _ method: HTTPMethod, _ url: URL
    ) throws(EvaluationError) -> (URLRequest, String) {
        do {
            var request = try serializer.request(method: method, url: url, parameters: nil, headers: [:])
            switch plan.body {
            case .none: return (request, "")
            case .json(let tree):
                let text = try tree.value(in: scope).json.description
                request.httpBody = Data(text.utf8)
                request.setValue("application/json", forHTTPHeaderField: "Content-Type")
                return (request, text)
            case .form(let pairs):
                let text = try items(pairs)
                request.httpBody = Data(text.utf8)
                request.setValue("application/x-www-form-urlencoded", forHTTPHeaderField: "Content-Type")
                return (request, text)
            case .text(let template):
                let text = try template.text(in: scope)
                request.httpBody = Data(text.utf8)
                request.setValue("text/plain; charset=utf-8", forHTTPHeaderField: "Content-Type")
                return (request, text)
            case .file(let template):
                let file = try readable(try template.text(in: scope))
                request = try HTTPRequestSerializer.request(request, sending: .file(file))
                request.httpMethod = plan.method
                return (request, Self.identity(of: file))
            case .multipart(let parts):
                var inputs = "multipart"
                let made = try serializer.multipartFormRequest(method: method, url: url) { form in
                    for part in parts { inputs += "\n" + (try append(part, to: &form)) }
                }
                return (made, inputs)
            }
        } catch let error as EvaluationError {
            throw error
        } catch {
            throw EvaluationError(message: FailureText.line(for: error))
        }
    }

    private func append(_ part: PartPlan, to form: inout MultipartFormData) throws -> String {
        let text = try part.value.text(in: scope)
        let name = try part.fileName.map { template throws(EvaluationError) in try template.text(in: scope) }
        if part.isFile {
            let file = try readable(text)
            if name != nil || part.type != nil {
                try form.appendPart(
                    fileURL: file, name: part.name, fileName: name ?? file.lastPathComponent,
                    mimeType: part.type ?? "application/octet-stream")
            } else {
                try form.appendPart(fileURL: file, name: part.name)
            }
            return "\(part.name): \(Self.identity(of: file))"
        }
        if name != nil || part.type != nil {
            form.appendPart(
                fileData: Data(text.utf8), name: part.name, fileName: name ?? part.name, mimeType: part.type ?? "text/plain")
        } else {
            form.appendPart(formData: Data(text.utf8), name: part.name)
        }
        return "\(part.name)=\(text)"
    }

    /// A file that can be sent. Of another the engine does not say which it is.
    private func readable(_ path: String) throws(EvaluationError) -> URL {
        var information = stat()
        if access(path, R_OK) != 0 || stat(path, &information) != 0 {
            throw EvaluationError(
                message: "cannot read \(quoted(path, isCut: false)): \(SystemError().text)", isAboutFile: true)
        }
        guard information.st_mode & S_IFMT != S_IFDIR else {
            throw EvaluationError(
                message: "cannot read \(quoted(path, isCut: false)): \(SystemError(code: EISDIR).text)", isAboutFile: true)
        }
        return URL(fileURLWithPath: path)
    }

    /// A file's path, length and time, for the journal.
    private static func identity(of file: URL) -> String {
        let attributes = try? FileManager.default.attributesOfItem(atPath: file.path)
        let time = (attributes?[.modificationDate] as? Date)?.timeIntervalSince1970 ?? 0
        return "\(file.path) \(attributes?[.size] ?? 0) \(time)"
    }
}

extension String {
    /// The text before a mark, and the rest with it.
    fileprivate func split(at mark: Character) -> (String, String) {
        let index = firstIndex(of: mark) ?? endIndex
        return (String(self[..<index]), String(self[index...]))
    }
}
