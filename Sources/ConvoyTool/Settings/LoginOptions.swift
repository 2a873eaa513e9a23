import Convoy
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The options that say who the user is.
struct LoginOptions {
    private var credential: URLCredential?
    /// That of the server that the user is for.
    private var origin: Target?
    private let isForOneServer: Bool
    private let store = CredentialStore()

    init(_ options: Options) { isForOneServer = options.has("user") }

    /// Takes a URL for one of the server that the user is for.
    ///
    /// - Throws: a usage error if it is of another one.
    mutating func adopt(_ url: URL, _ options: Options) throws(ToolError) {
        guard isForOneServer, let target = Target(url) else { return }
        guard origin == nil || origin == target else {
            throw options.usage("--user is for one server, but the URLs name several")
        }
        origin = target
    }

    /// Takes the user and the file of logins. May ask for a password.
    mutating func ask(_ options: Options) throws(ToolError) {
        credential = try options.value("user").map { text throws(ToolError) in try Self.credential(text, options) }
        let named = options.value("netrc-file").map { UserPath.url($0) }
        guard let file = named ?? (options.has("netrc") ? Netrc.standardLocation : nil) else { return }
        do throws(NetrcError) {
            store.netrc = try Netrc(contentsOf: file)
        } catch {
            throw .usage("--netrc: \(Printable.line(error.description))")
        }
    }

    /// Lets an operation answer: as the user of `--user`, as that of the URL, or as one of the file of logins, which also
    /// has the password of a URL that has only a user.
    ///
    /// - Parameter login: what the URL itself says.
    func apply(to operation: URLConnectionOperation, _ login: Login?) {
        operation.credentialStore = store
        let target = operation.request.url.flatMap { Target($0) }
        if let credential, let origin, target == origin {
            operation.credential = credential
        } else if let login {
            let known =
                login.password == nil ? target.flatMap { store.netrc?.credential(forHost: $0.host, user: login.user) } : nil
            operation.credential = known ?? login.credential
        }
    }

    private static func credential(_ text: String, _ options: Options) throws(ToolError) -> URLCredential {
        guard !text.isEmpty else { throw options.usage("--user needs a name") }
        guard let colon = text.firstIndex(of: ":") else {
            let prompt = PassphrasePrompt(question: "Password for \(Printable.line(text)): ")
            do {
                return URLCredential(user: text, password: try prompt.ask(), persistence: .forSession)
            } catch {
                throw .usage("--user: \(ErrorText.line(for: error))")
            }
        }
        let password = String(text[text.index(after: colon)...])
        return URLCredential(user: String(text[..<colon]), password: password, persistence: .forSession)
    }
}
