import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// A request of a plan with the values of a scope.
struct BuiltRequest {
    var request: URLRequest
    /// The path of the output below the output directory, or nil.
    var output: String?
    /// A description of the contents, for the journal. Equal requests have equal descriptions.
    var inputs: String
    /// The encoded `Basic` login, which is as secret as its password, or nil.
    var login: String?
    /// The user and the password of the URL, which are not part of the request, or nil.
    var urlLogin: URLLogin?
    /// Whether the server may receive the logins of the manifest.
    var receivesSecrets = true
    /// The file that is the body, or nil.
    var file: URL?
}

/// The user and the password of a URL.
struct URLLogin: Sendable {
    let user: String
    /// The password, or nil if the URL has only a user.
    let password: String?
    /// The URL without user and password.
    let url: URL

    /// Splits a URL. Returns nil if it has no user, or if the user or the password is not UTF-8.
    init?(_ address: URL) {
        guard let parts = URLUserInfo.parts(of: address.absoluteString),
            let user = String(validating: parts.user, as: UTF8.self),
            let url = URL(string: URLUserInfo.removed(from: address.absoluteString))
        else { return nil }
        self.user = user
        self.url = url
        password = parts.password.map { String(decoding: $0, as: UTF8.self) }
    }

    /// Sets the login of an operation, unless it has one. A netrc file may supply the password.
    func apply(to operation: HTTPRequestOperation) {
        guard operation.credential == nil else { return }
        let host = Target(url)?.host ?? ""
        let known = password == nil ? operation.credentialStore.netrc?.credential(forHost: host, user: user) : nil
        operation.credential =
            known ?? URLCredential(user: user, password: password ?? "", persistence: .forSession)
    }
}

/// A builder that applies the values of a scope to a request.
struct RequestBuilder {
    let plan: RequestPlan
    let baseURL: URL?
    let scope: ItemScope
    let servers: SecretServers
    /// The default `User-Agent`.
    let userAgent: String?

    /// - Parameter page: The URL of the next page, which replaces that of the plan.
    func build(page: URL? = nil) throws(EvaluationError) -> BuiltRequest {
        var source: String?
        let address = if let page { page } else { try self.url(namedBy: &source) }
        let urlLogin = URLLogin(address)
        let url = urlLogin?.url ?? address
        if urlLogin != nil, page != nil || source != nil {
            throw badURL(address.absoluteString, "a response must not set a user or a password")
        }
        let isForeign = (page != nil || source != nil) && !servers.contains(url)
        if isForeign { try checkSecrets(for: url, page: page != nil, source) }
        var serializer = HTTPRequestSerializer()
        if let userAgent { serializer.setValue(userAgent, forHTTPHeaderField: "User-Agent") }
        serializer.timeoutInterval = plan.timeout
        let method = HTTPMethod(plan.method)
        var file: URL?
        var (request, inputs) = try body(serializer, method, page == nil ? try with(query: url) : url, &file)
        for header in plan.headers where header.isDefault {
            request.setValue(try header.value.map(fieldValue), forHTTPHeaderField: header.name)
        }
        if isForeign { servers.removeSecrets(of: &request) }
        for header in plan.headers where !header.isDefault {
            request.setValue(try header.value.map(fieldValue), forHTTPHeaderField: header.name)
        }
        if isForeign, page != nil { servers.removeSecrets(of: &request) }
        var login: String?
        switch plan.login {
        case _ where isForeign && (page != nil || plan.hasDefaultLogin): break
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
        // The file must receive the bytes as they are stored, so that the download can be resumed.
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
        return BuiltRequest(
            request: request, output: output, inputs: inputs, login: login, urlLogin: urlLogin,
            receivesSecrets: !isForeign, file: file)
    }

    /// Rejects a request that would send its own secrets to a server that only a response has named.
    private func checkSecrets(for url: URL, page isPage: Bool, _ source: String?) throws(EvaluationError) {
        if isPage {
            // The fields are removed, as after a redirect to this server. A body cannot be removed.
            guard case .none = plan.body else { throw Self.refusal("the body", url) }
            return
        }
        guard let value = SecretServers.ownSecret(of: plan, in: scope, from: source ?? "") else { return }
        throw Self.refusal(value.title, url)
    }

    private static func refusal(_ secret: String, _ url: URL) -> EvaluationError {
        let server = Target(url).map { "\($0)" } ?? ""
        return EvaluationError(
            message: "\(secret) was not sent to \(server), which is named only by a response; "
                + "to allow this, add the server to secrets-for")
    }

    private func fieldValue(_ template: Template) throws(EvaluationError) -> String {
        try template.text(in: scope) { value, _ throws(EvaluationError) in try Escaping.header(value.json.text) }
    }

    // MARK: The URL

    /// - Parameter source: Set to the request whose response has named the server, or to `item`.
    private func url(namedBy source: inout String?) throws(EvaluationError) -> URL {
        var isHostile = false
        let text: String
        if let piece = plan.url.wholeValue {
            // The whole URL is one value, as sent by a server.
            let value = try piece.value(in: scope)
            if value.isHostile { source = piece.source(in: scope).root }
            text = value.json.text
        } else {
            var isFirst = true
            text = try plan.url.text(in: scope) { value, reference in
                // A value given by the user may be the start of a URL.
                let isStart = isFirst && startsWithReference && !value.isHostile && reference.root != "item"
                isFirst = false
                if isStart { return value.json.text }
                if value.isHostile { source = source ?? reference.root }
                isHostile = true
                return Escaping.url(value.json.text)
            }
        }
        guard !Escaping.hasControls(text), !text.contains("\t") else {
            throw badURL(text, "it contains a control character")
        }
        if isHostile {
            // The manifest's own dot segments are intended if they are sent as written.
            let own = plan.connection.keepsDotSegments ? try plan.url.text(in: scope) { _, _ in "v" } : ""
            guard Self.dotSegmentCount(of: text) <= Self.dotSegmentCount(of: own) else {
                throw badURL(text, "a value leads to another directory")
            }
        }
        guard let url = resolve(text), Target(url) != nil else {
            throw badURL(text, "it must be an http or https URL")
        }
        return url
    }

    private static func dotSegmentCount(of text: String) -> Int {
        let path = text.prefix { $0 != "?" && $0 != "#" }
        return PathText.components(of: String(path)).count { $0 == "." || $0 == ".." }
    }

    private func badURL(_ text: String, _ reason: String) -> EvaluationError {
        EvaluationError(message: "invalid URL \(quoted(Redaction.url(text), isCut: false)): \(reason)")
    }

    private var startsWithReference: Bool {
        switch plan.url.pieces.first {
        case .reference?, .expression?: true
        case .literal?, nil: false
        }
    }

    private func resolve(_ text: String) -> URL? {
        let keepsDots = plan.connection.keepsDotSegments
        guard let base = baseURL, !text.hasScheme else { return URLReference.url(text, keepingDotSegments: keepsDots) }
        if text.isEmpty { return base }
        // Resolve the reference below the path of the base URL, whether or not that path ends with a slash.
        let directory =
            base.absoluteString.hasSuffix("/") || base.query != nil ? base : URL(string: base.absoluteString + "/")
        return URLReference.url(text, relativeTo: directory, keepingDotSegments: keepsDots)
    }

    private func with(query url: URL) throws(EvaluationError) -> URL {
        guard !plan.query.isEmpty else { return url }
        let text = try items(plan.query)
        let (head, fragment) = url.absoluteString.split(at: "#")
        return URL(string: "\(head)\(head.contains("?") ? "&" : "?")\(text)\(fragment)") ?? url
    }

    /// Encodes the items of a query or form. A list repeats its name for each element. Null values are omitted.
    private func items(_ items: [(name: Template, value: TreeTemplate)]) throws(EvaluationError) -> String {
        var pairs: [String] = []
        for item in items {
            let name = Escaping.url(try item.name.text(in: scope))
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
        _ serializer: HTTPRequestSerializer, _ method: HTTPMethod, _ url: URL, _ sent: inout URL?
    ) throws(EvaluationError) -> (URLRequest, String) {
        do {
            var request = try serializer.request(method: method, url: url, parameters: nil, headers: [:])
            // Remove the empty form that the serializer has created.
            request.setValue(nil, forHTTPHeaderField: "Content-Type")
            request.httpBody = nil
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
                let file = try SentFile(template, in: scope, reads: !scope.hidesSecrets)
                switch file.contents {
                case .file(let url):
                    request = try HTTPRequestSerializer.request(request, sending: .file(url))
                    sent = url
                case .data(let data):
                    let type = MIMEType.unknown
                    request = try HTTPRequestSerializer.request(request, sending: .data(data, contentType: type))
                }
                request.httpMethod = plan.method
                return (request, file.identity)
            case .multipart(let parts):
                var inputs = "multipart"
                var made = try serializer.multipartFormRequest(method: .post, url: url) { form in
                    for part in parts { inputs += "\n" + (try append(part, to: &form)) }
                }
                made.httpMethod = plan.method
                return (made, inputs)
            }
        } catch let error as EvaluationError {
            throw error
        } catch {
            throw EvaluationError(message: FailureText.line(for: error))
        }
    }

    private func append(_ part: PartPlan, to form: inout MultipartFormData) throws -> String {
        let fileName = try part.fileName.map { template throws(EvaluationError) in try template.text(in: scope) }
        let name = try part.name.text(in: scope)
        guard !part.isFile else { return try append(file: part, name, named: fileName, to: &form) }
        let text = try part.value.text(in: scope), data = Data(text.utf8)
        if let fileName {
            form.appendPart(fileData: data, name: name, fileName: fileName, mimeType: part.type ?? "text/plain")
        } else if let type = part.type {
            // A field without a file name is not a file (RFC 7578, section 4.2).
            let escaped = name.replacing("\"", with: "%22").replacing("\r", with: "%0D").replacing("\n", with: "%0A")
            form.appendPart(
                headers: ["Content-Disposition": "form-data; name=\"\(escaped)\"", "Content-Type": type], body: data)
        } else {
            form.appendPart(formData: data, name: name)
        }
        return "\(name)=\(text)"
    }

    private func append(
        file part: PartPlan, _ name: String, named fileName: String?, to form: inout MultipartFormData
    ) throws -> String {
        let file = try SentFile(part.value, in: scope, reads: !scope.hidesSecrets)
        let type = part.type ?? MIMEType.type(forPathExtension: (file.name as NSString).pathExtension)
        switch file.contents {
        case .file(let url):
            try form.appendPart(fileURL: url, name: name, fileName: fileName ?? file.name, mimeType: type)
        case .data(let data):
            form.appendPart(fileData: data, name: name, fileName: fileName ?? file.name, mimeType: type)
        }
        return "\(name): \(file.identity)"
    }
}

extension String {
    /// Returns the text before a mark, and the rest including the mark.
    fileprivate func split(at mark: Character) -> (String, String) {
        let index = firstIndex(of: mark) ?? endIndex
        return (String(self[..<index]), String(self[index...]))
    }
}
