import Convoy
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The request headers that the options set.
struct Headers {
    private var serializer = HTTPRequestSerializer()
    private var fields: [String: String?] = [:]
    /// The fields and the timeout of a request with these headers, which all requests share.
    private var model = Model()

    private final class Model: Sendable {
        let values = Locked<(fields: [String: String]?, timeout: TimeInterval)?>(nil)
    }

    init(_ options: Options) throws(ToolError) {
        Self.setDefaults(&serializer)
        serializer.timeoutInterval = try options.seconds("timeout")
        do throws(ToolError) {
            for text in options.all("header") { try add(text) }
        } catch {
            throw options.usage(error.text)
        }
        if let agent = options.value("user-agent") {
            fields[Self.spelling(of: "User-Agent", in: fields) ?? "User-Agent"] = agent
        }
    }

    /// Returns these headers with further headers added.
    func adding(_ texts: [String]) throws(ToolError) -> Headers {
        if texts.isEmpty { return self }
        var headers = self
        headers.model = Model()
        for text in texts { try headers.add(text) }
        return headers
    }

    /// The fields that the options set, each once.
    var list: [(name: String, value: String)] {
        fields.compactMap { field in field.value.map { (field.key, $0) } }.sorted { $0.name < $1.name }
    }

    /// Checks the syntax of a header.
    static func check(_ text: String) throws(ToolError) {
        guard text.contains(":") else {
            throw .usage("invalid header '\(Printable.line(text))': use 'Name: value'")
        }
        let (name, value) = parts(of: text)
        do {
            _ = try RequestHeader(fields: [name: value])
        } catch {
            throw .usage(ErrorText.line(for: error))
        }
    }

    static func parts(of text: String) -> (name: String, value: String) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let value = parts.count > 1 ? String(parts[1]) : ""
        return (String(parts[0]).trimmingCharacters(in: .whitespaces), value.trimmingCharacters(in: [" ", "\t"]))
    }

    private mutating func add(_ text: String) throws(ToolError) {
        try Self.check(text)
        let (name, value) = Self.parts(of: text)
        guard let other = Self.spelling(of: name, in: fields), let earlier = fields[other] ?? nil else {
            fields[name] = value
            return
        }
        guard let separator = Self.separator(for: name) else {
            throw .usage("the header '\(Printable.line(name))' is given twice, but is allowed only once")
        }
        fields[other] = earlier + separator + value
    }

    /// Sets the default headers. They include the program's name, but not the user's languages.
    static func setDefaults(_ serializer: inout HTTPRequestSerializer) {
        serializer.setValue(Program.userAgent, forHTTPHeaderField: "User-Agent")
        serializer.setValue(nil, forHTTPHeaderField: "Accept-Language")
    }

    /// Requests an unencoded body, unless `Accept-Encoding` is set, so that a file has exactly the bytes and length that the
    /// server announces.
    static func askForIdentity(_ fields: inout [String: String?]) {
        if spelling(of: "Accept-Encoding", in: fields) == nil { fields["Accept-Encoding"] = "identity" }
    }

    /// Returns the spelling of a name in the fields, ignoring case (RFC 9110, section 5.1).
    private static func spelling(of name: String, in fields: [String: String?]) -> String? {
        fields.keys.first { $0.lowercased() == name.lowercased() }
    }

    /// Returns the separator that joins the values of repeated fields to a list (RFC 9110, section 5.3), or nil for a field
    /// that is not a list.
    private static func separator(for name: String) -> String? {
        switch name.lowercased() {
        // Cookies are separated by semicolons (RFC 6265, section 5.4).
        case "cookie": "; "
        case "authorization", "content-length", "content-location", "content-type", "date", "from", "host",
            "if-modified-since", "if-range", "if-unmodified-since", "max-forwards", "origin", "proxy-authorization",
            "range", "referer", "user-agent":
            nil
        default: ", "
        }
    }

    /// Returns a GET request for the URL, without its user name and password. A header that cannot be sent is a usage error.
    func request(for url: URL) throws(ToolError) -> URLRequest {
        let url = try Login.taken(from: url)?.url ?? url
        // Setting all fields at once takes a third of the time of a serializer.
        if let values = model.values.withLock({ $0 }) {
            var request = URLRequest(url: url, timeoutInterval: values.timeout)
            request.allHTTPHeaderFields = values.fields
            return request
        }
        do {
            let request = try serializer.request(method: .get, url: url, parameters: nil, headers: fields)
            model.values.withLock { $0 = (request.allHTTPHeaderFields, request.timeoutInterval) }
            return request
        } catch {
            throw .usage(ErrorText.line(for: error))
        }
    }
}

/// The user name and password of a URL, which are sent to its origin only.
struct Login {
    let user: String
    /// The password, or nil if the URL has only a user name.
    let password: String?

    /// Splits a URL into its login and the URL without the login, which can be requested. Returns nil if the URL has no
    /// login.
    ///
    /// - Throws: A usage error if the login is not UTF-8.
    static func taken(from url: URL) throws(ToolError) -> (login: Login, url: URL)? {
        let address = url.absoluteString
        guard let parts = URLUserInfo.parts(of: address) else { return nil }
        guard let user = String(validating: parts.user, as: UTF8.self),
            let rest = URL(string: URLUserInfo.removed(from: address))
        else { throw .usage("invalid URL '\(url.forPeople)': its user name or password is not UTF-8") }
        let password = try parts.password.map { bytes throws(ToolError) in
            guard let text = String(validating: bytes, as: UTF8.self) else {
                throw .usage("invalid URL '\(url.forPeople)': its user name or password is not UTF-8")
            }
            return text
        }
        return (Login(user: user, password: password), rest)
    }

    var credential: URLCredential { URLCredential(user: user, password: password ?? "", persistence: .forSession) }
}
