import Convoy
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The options that say who the user is.
struct LoginOptions {
    static let known: [Options.Option] = [
        .value("user", "u"), .flag("netrc", "n"), .value("netrc-file"),
    ]

    /// Their lines in the help of a command.
    static let help = """
          -u, --user USER[:PW]   answer the server with this user and password when it asks (Basic, Digest, NTLM); without
                                 :PW it is asked for at the terminal, and a lone ":" stands for the tickets of Kerberos.
                                 All URLs must be of one server; a redirect to another leaves it behind
          -n, --netrc            take users and passwords from ~/.netrc, or from the file that NETRC names
              --netrc-file FILE  take them from this file
        """

    private let credential: URLCredential?
    private let origin: Origin?
    private let store = CredentialStore()

    /// May ask for a password.
    ///
    /// - Parameter urls: those of the server that the user is for.
    init(_ options: Options, for urls: [URL]) throws(ToolError) {
        origin = urls.first.map { Origin($0) }
        if options.has("user"), Set(urls.map { Origin($0) }).count > 1 {
            throw options.usage("--user is for one server, but the URLs name several")
        }
        credential = try options.value("user").map { text throws(ToolError) in try Self.credential(text, options) }
        let named = options.value("netrc-file").map { URL(fileURLWithPath: $0) }
        guard let file = named ?? (options.has("netrc") ? Netrc.standardLocation : nil) else { return }
        do throws(NetrcError) {
            store.netrc = try Netrc(contentsOf: file)
        } catch {
            throw .usage("--netrc: \(Printable.line(error.description))")
        }
    }

    /// Lets an operation answer.
    ///
    /// - Parameter login: what the URL itself says, which comes first.
    func apply(to operation: URLConnectionOperation, _ login: Login?) {
        operation.credentialStore = store
        let isForIt = operation.request.url.map { Origin($0) } == origin
        operation.credential = login?.credential ?? (isForIt ? credential : nil)
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
