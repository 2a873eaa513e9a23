import ConvoyCookies
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation

/// A received response, with its body in memory or in a file.
final class ReceivedResponse: Sendable {
    /// The maximum size of a file from which values are captured, in bytes.
    static let maximumLength = 256 << 20

    let status: Int?
    let fields: [(name: String, value: String)]
    /// The URL after redirects.
    let url: URL?
    let file: URL?
    let byteCount: Int64
    /// The time from the start of the operation to its end, in seconds.
    let seconds: Double
    private let cookies: CookieStore?
    /// The charset of the body that the server specifies, or nil.
    let label: String?
    let version: String
    /// The redirects that led to the response, in order.
    let redirects: [RedirectEvent]
    /// The address of the server or its proxy, or nil if it is not known.
    let address: String?
    private let body: Locked<Data?>
    private let tree = Locked<Result<JSON, EvaluationError>?>(nil)
    private let decoded = Locked<String?>(nil)

    init(
        status: Int?, fields: [(name: String, value: String)], url: URL?, body: Data?, file: URL?, byteCount: Int64,
        seconds: Double, cookies: CookieStore? = nil, label: String? = nil, version: String = "HTTP/1.1",
        redirects: [RedirectEvent] = [], address: String? = nil
    ) {
        self.status = status
        self.fields = fields
        self.url = url
        self.file = file
        self.byteCount = byteCount
        self.seconds = seconds
        self.cookies = cookies
        self.label = label
        self.version = version
        self.redirects = redirects
        self.address = address
        self.body = Locked(body)
    }

    /// The body, which may be empty.
    var data: Data {
        if let data = body.withLock({ $0 }) { return data }
        guard let file, byteCount <= Self.maximumLength, let data = try? Data(contentsOf: file, options: .mappedIfSafe)
        else {
            return Data()
        }
        body.withLock { $0 = data }
        return data
    }

    /// The body as JSON, or nil if it is not JSON.
    var json: JSON? { try? parsed.get() }

    /// Returns the body as JSON.
    ///
    /// - Throws: The reason why it is not JSON.
    func parsedJSON() throws(EvaluationError) -> JSON { try parsed.get() }

    /// The body as JSON, or the reason why it is not JSON.
    private var parsed: Result<JSON, EvaluationError> {
        if let known = tree.withLock({ $0 }) { return known }
        let result = Result { () throws(EvaluationError) in
            try checkLength()
            return try JSON(body: data, label: label)
        }
        tree.withLock { $0 = result }
        return result
    }

    /// Whether the body is in a file that is too large to examine.
    private var isTooLong: Bool { file != nil && byteCount > Self.maximumLength }

    private static let tooLong = EvaluationError(message: "the body is larger than \(maximumLength >> 20) MiB")

    /// Returns the value of a field, with repeated fields joined, or nil if the response does not contain the field.
    func field(_ name: String) -> String? {
        let values = values(ofField: name)
        return values.isEmpty ? nil : values.joined(separator: ", ")
    }

    /// Returns the values of all fields of a name.
    func values(ofField name: String) -> [String] {
        fields.filter { ASCII.equalIgnoringCase($0.name.utf8, name.utf8) }.map(\.value)
    }

    /// The media type without parameters, or nil.
    var mediaType: String? {
        field("Content-Type").map {
            $0.prefix { $0 != ";" && $0 != "," }.trimmingCharacters(in: .whitespaces).lowercased()
        }
    }

    /// The body as text. A body with bytes that are invalid in its charset is repaired as UTF-8.
    var text: String {
        if let known = decoded.withLock({ $0 }) { return known }
        let data = data
        let text = Charset.ofText(data, label: label).text(of: data) ?? String(decoding: data, as: UTF8.self)
        decoded.withLock { $0 = text }
        return text
    }

    /// Throws an error if the body is in a file that is too large to examine.
    func checkLength() throws(EvaluationError) { if isTooLong { throw Self.tooLong } }

    /// Returns the value of an XPath expression in the body.
    func value(ofXPath expression: String) throws(EvaluationError) -> ExpressionValue {
        try checkLength()
        return try XPath.value(of: expression, in: data, label: label, isHTML: isHTML)
    }

    /// Returns the target of the first `Link` field with a relation (RFC 8288, section 3).
    func link(_ relation: String) throws(EvaluationError) -> String? {
        let name = NSRegularExpression.escapedPattern(for: relation)
        let parameter = #"\s*;\s*[\w*!-]+(?:\s*=\s*(?:"[^"]*"|[^",;\s]*))?"#
        let value = #"(?:"(?:[^"]*\s)?\#(name)(?:\s[^"]*)?"|\#(name)(?=[\s,;]|$))"#
        return try Pattern.firstMatch(
            of: "(?i)<([^>]*)>(?:\(parameter))*?\\s*;\\s*rel\\s*=\\s*\(value)", group: 1, in: field("Link") ?? "")
    }

    var isHTML: Bool {
        if let type = mediaType { return type == "text/html" }
        let start = String(decoding: data.prefix(256), as: UTF8.self).lowercased()
        return start.contains("<!doctype html") || start.contains("<html")
    }

    /// Returns the value of a cookie, set by the response or stored, or nil if it does not exist.
    func cookie(_ name: String) -> String? {
        let set = setCookies.last { $0.name == name }?.value
        return set ?? url.flatMap { cookies?.cookies(for: $0).first { $0.name == name }?.value }
    }

    /// The cookies that the response sets.
    private var setCookies: [SetCookie] { values(ofField: "Set-Cookie").compactMap(SetCookie.init) }

    /// Returns the value of a cookie, or an attribute of a cookie that the response sets; nil if it does not exist. Without
    /// a name, returns all cookies that the response sets.
    func cookie(at path: [String]) -> JSON? {
        guard let name = path.first else {
            var object = JSONObject()
            for cookie in setCookies { object[cookie.name] = .string(cookie.value) }
            return .object(object)
        }
        if path.count == 1 { return cookie(name).map { .string($0) } }
        guard path.count == 2, let cookie = setCookies.last(where: { $0.name == name }) else { return nil }
        return path[1] == "value" ? .string(cookie.value) : cookie.attributes[path[1].lowercased()]
    }
}

/// A cookie as a `Set-Cookie` field spells it.
private struct SetCookie {
    let name: String
    let value: String
    /// The attributes by their names in lower case. Attributes without a value are true, and `Max-Age` is a number.
    var attributes: [String: JSON] = [:]

    init?(_ field: String) {
        var parts = field.split(separator: ";" as Character, omittingEmptySubsequences: false).map {
            $0.split(separator: "=" as Character, maxSplits: 1, omittingEmptySubsequences: false).map {
                $0.trimmingCharacters(in: .whitespaces)
            }
        }
        let pair = parts.removeFirst()
        guard pair.count == 2 else { return nil }
        name = pair[0]
        value = pair[1]
        for part in parts where !part[0].isEmpty {
            let name = part[0].lowercased(), text = part.count > 1 ? part[1] : ""
            attributes[name] =
                part.count == 1
                ? true : name == "max-age" ? JSONNumber(text).map { .number($0) } ?? .string(text) : .string(text)
        }
    }
}
