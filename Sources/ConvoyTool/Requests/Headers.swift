import Convoy
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The request headers that the options set.
struct Headers {
    private var serializer = HTTPRequestSerializer()
    private var fields: [String: String?] = [:]

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

    /// These headers, and further ones.
    func adding(_ texts: [String]) throws(ToolError) -> Headers {
        var headers = self
        for text in texts { try headers.add(text) }
        return headers
    }

    /// Checks the form of a header.
    static func check(_ text: String) throws(ToolError) {
        guard text.contains(":") else {
            throw .usage("a header is 'Name: value', not '\(Printable.line(text))'")
        }
        let (name, value) = parts(of: text)
        do {
            _ = try RequestHeader(fields: [name: value])
        } catch {
            throw .usage(ErrorText.line(for: error))
        }
    }

    private static func parts(of text: String) -> (name: String, value: String) {
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

    /// Sets the default headers: the program's name, but not the user's languages.
    static func setDefaults(_ serializer: inout HTTPRequestSerializer) {
        serializer.setValue(Program.userAgent, forHTTPHeaderField: "User-Agent")
        serializer.setValue(nil, forHTTPHeaderField: "Accept-Language")
    }

    /// Asks for an unencoded body, so that a file has exactly the bytes and length that the server announces, unless
    /// `Accept-Encoding` is set.
    static func askForIdentity(_ fields: inout [String: String?]) {
        if spelling(of: "Accept-Encoding", in: fields) == nil { fields["Accept-Encoding"] = "identity" }
    }

    /// The spelling of a name in the fields, ignoring case (RFC 9110, section 5.1).
    private static func spelling(of name: String, in fields: [String: String?]) -> String? {
        fields.keys.first { $0.lowercased() == name.lowercased() }
    }

    /// The separator with which the values of repeated fields are joined to a list (RFC 9110, section 5.3); nil for a
    /// field that is not a list.
    private static func separator(for name: String) -> String? {
        switch name.lowercased() {
        // RFC 6265, section 5.4.
        case "cookie": "; "
        case "authorization", "content-length", "content-location", "content-type", "date", "from", "host",
            "if-modified-since", "if-range", "if-unmodified-since", "max-forwards", "origin", "proxy-authorization",
            "range", "referer", "user-agent":
            nil
        default: ", "
        }
    }

    /// The headers whose values are not shown: all that the library does not know to be harmless.
    static func secrets(among names: some Sequence<String>) -> Set<String> {
        Set(names.filter { !SecretClassifier.isHarmless($0) })
    }

    var configuration: ConnectionConfiguration {
        ConnectionConfiguration(sensitiveHeaders: Self.secrets(among: fields.keys))
    }

    /// A GET of the URL, without the user name and password in it. A header that cannot be sent is a usage error.
    func request(for url: URL) throws(ToolError) -> URLRequest {
        let url = try Login.taken(from: url)?.url ?? url
        do {
            return try serializer.request(method: .get, url: url, parameters: nil, headers: fields)
        } catch {
            throw .usage(ErrorText.line(for: error))
        }
    }
}
