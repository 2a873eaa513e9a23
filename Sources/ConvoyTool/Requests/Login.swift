import Convoy
import ConvoySupport
import Foundation
import FoundationNetworking

/// A user name and a password of a URL, for its origin only.
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

    var credential: URLCredential { URLCredential(user: user, password: password, persistence: .forSession) }
}
