import Convoy
import Foundation
import FoundationNetworking

/// The request headers that the options ask for.
struct Headers {
    private var serializer = HTTPRequestSerializer()
    private var fields: [String: String?] = [:]

    init(_ options: Options) throws(ToolError) {
        serializer.setValue(Program.userAgent, forHTTPHeaderField: "User-Agent")
        serializer.timeoutInterval = try options.seconds("timeout")
        for text in options.all("header") {
            guard let colon = text.firstIndex(of: ":") else {
                throw options.usage("--header takes 'Name: value', not '\(Printable.line(text))'")
            }
            let name = String(text[..<colon]).trimmingCharacters(in: .whitespaces)
            let value = String(text[text.index(after: colon)...]).trimmingCharacters(in: [" ", "\t"])
            let other = fields.keys.first { $0.caseInsensitiveCompare(name) == .orderedSame }
            // Fields of one name are one list (RFC 9110, section 5.3).
            if let other, let earlier = fields[other] ?? nil {
                fields[other] = "\(earlier), \(value)"
            } else {
                fields[name] = value
            }
        }
        if let agent = options.value("user-agent") { fields["User-Agent"] = agent }
        // A file is as many bytes as the server says, and the same bytes.
        if !fields.keys.contains(where: { $0.lowercased() == "accept-encoding" }) {
            fields["Accept-Encoding"] = "identity"
        }
    }

    /// A header may hold a secret: all but the harmless stay behind when a redirect leads elsewhere.
    static func secrets(among names: some Sequence<String>) -> Set<String> {
        Set(names.filter { !$0.lowercased().hasPrefix("accept") && $0.lowercased() != "user-agent" })
    }

    var configuration: ConnectionConfiguration {
        ConnectionConfiguration(sensitiveHeaders: Self.secrets(among: fields.keys))
    }

    /// A GET of the URL. A header that cannot be sent is wrong usage.
    func request(for url: URL) throws(ToolError) -> URLRequest {
        do {
            return try serializer.request(method: .get, url: url, parameters: nil, headers: fields)
        } catch {
            throw .usage(ErrorText.line(for: error))
        }
    }
}
