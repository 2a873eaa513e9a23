import Convoy
import ConvoySupport
import Foundation
import FoundationNetworking

/// A user name and a password, sent as Basic `Authorization` (RFC 7617) to the origin of one URL only: the rules for
/// redirects remove the field.
struct Login {
    let user: String
    let password: String

    /// The login in a URL, and the URL without it, which is what may be requested; nil for a URL without one.
    ///
    /// - Throws: a usage error for text that is not UTF-8.
    static func taken(from url: URL) throws(ToolError) -> (login: Login, url: URL)? {
        let address = url.absoluteString
        guard let parts = URLUserInfo.parts(of: address) else { return nil }
        guard let user = String(validating: parts.user, as: UTF8.self),
            let password = String(validating: parts.password ?? [], as: UTF8.self),
            let rest = URL(string: URLUserInfo.removed(from: address))
        else { throw .usage("bad URL '\(url.forPeople)': its user name or password is not UTF-8") }
        return (Login(user: user, password: password), rest)
    }

    /// The login of `--user`: a user name, a colon and a password, which is asked for where there is no colon.
    ///
    /// - Throws: a usage error, also if there is no terminal to ask at.
    init(asking text: String, _ options: Options) throws(ToolError) {
        guard !text.isEmpty else { throw options.usage("--user needs a user name") }
        if let colon = text.unicodeScalars.firstIndex(of: ":") {
            self.init(
                user: String(text.unicodeScalars[..<colon]),
                password: String(text.unicodeScalars[text.unicodeScalars.index(after: colon)...]))
            return
        }
        let password: String
        do {
            password = try PassphrasePrompt(question: "Password for \(Printable.line(text)): ").ask()
        } catch {
            throw .usage("--user: \(ErrorText.line(for: error))")
        }
        self.init(user: text, password: password)
    }

    init(user: String, password: String) {
        self.user = user
        self.password = password
    }

    /// The requests with the login, those that go to the origin and have none yet.
    ///
    /// - Parameter base: a URL of the origin; nil for that of the requests.
    /// - Throws: a usage error if they have several.
    func applied(
        to requests: [URLRequest], base: URL? = nil, _ options: Options
    ) throws(ToolError) -> [URLRequest] {
        guard let first = base ?? requests.first?.url else { return requests }
        let origin = Origin(first)
        if base == nil, requests.contains(where: { $0.url.map(Origin.init) != origin }) {
            throw options.usage("--user is for one server, but the URLs name several")
        }
        var serializer = HTTPRequestSerializer()
        apply(to: &serializer)
        let value = serializer.value(forHTTPHeaderField: "Authorization")
        return requests.map { request in
            var request = request
            if request.url.map(Origin.init) == origin, request.value(forHTTPHeaderField: "Authorization") == nil {
                request.setValue(value, forHTTPHeaderField: "Authorization")
            }
            return request
        }
    }

    func apply(to serializer: inout HTTPRequestSerializer) {
        serializer.setAuthorizationHeader(username: user, password: password)
    }
}
