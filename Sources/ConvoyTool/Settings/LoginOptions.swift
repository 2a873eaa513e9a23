import Convoy
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The logins from `--user`, URLs and netrc files, each for its own server.
struct LoginOptions {
    /// The login of `--user`, with the password that was typed.
    private(set) var credential: URLCredential?
    /// The server for which the login of `--user` is intended.
    private var origin: Target?
    private let isForOneServer: Bool
    private let store = CredentialStore()

    init(_ options: Options) { isForOneServer = options.has("user") }

    /// Adds a URL, which must be on the server for which the login is intended.
    ///
    /// - Throws: A usage error if the URL is on a different server.
    mutating func adopt(_ url: URL, _ options: Options) throws(ToolError) {
        guard isForOneServer, let target = Target(url) else { return }
        guard origin == nil || origin == target else {
            throw options.usage("--user applies to one server, but the URLs name several")
        }
        origin = target
    }

    /// Reads the login and the netrc file. May prompt for a password.
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

    /// Sets the store with the logins of the netrc file.
    func apply(to operation: URLConnectionOperation) { operation.credentialStore = store }

    /// Returns the login for a request: that of `--user` or of the URL; nil if only the netrc file may have one. The file
    /// also supplies the password for a URL with only a user name.
    ///
    /// - Parameter login: The login in the URL itself.
    func credential(for url: URL?, _ login: Login?) -> URLCredential? {
        guard credential != nil || login != nil else { return nil }
        let target = url.flatMap { Target($0) }
        if let credential, SecretScope(of: origin).mayReceiveSecrets(target) { return credential }
        guard let login else { return nil }
        let known =
            login.password == nil ? target.flatMap { store.netrc?.credential(forHost: $0.host, user: login.user) } : nil
        return known ?? login.credential
    }

    /// Returns the login of an option. Prompts for the password if it is missing.
    static func credential(
        _ text: String, _ options: Options, option: String = "user"
    ) throws(ToolError) -> URLCredential {
        guard !text.isEmpty else { throw options.usage("--\(option) needs a name") }
        guard let colon = text.firstIndex(of: ":") else {
            let prompt = PassphrasePrompt(question: "Password for \(Printable.line(text)): ")
            do {
                return URLCredential(user: text, password: try prompt.ask(), persistence: .forSession)
            } catch {
                throw .usage("--\(option): \(ErrorText.line(for: error))")
            }
        }
        let password = String(text[text.index(after: colon)...])
        return URLCredential(user: String(text[..<colon]), password: password, persistence: .forSession)
    }
}
