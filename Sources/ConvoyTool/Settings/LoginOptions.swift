import Convoy
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The options that say who the user is.
struct LoginOptions {
    private let credential: URLCredential?
    private let origin: Target?
    private let store = CredentialStore()

    /// May ask for a password.
    ///
    /// - Parameter urls: those of the server that the user is for.
    init(_ options: Options, for urls: [URL]) throws(ToolError) {
        origin = urls.first.flatMap { Target($0) }
        if options.has("user"), Set(urls.map { Target($0) }).count > 1 {
            throw options.usage("--user is for one server, but the URLs name several")
        }
        credential = try options.value("user").map { text throws(ToolError) in try Self.credential(text, options) }
        let named = options.value("netrc-file").map { UserPath.url($0) }
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
        let isForIt = origin != nil && operation.request.url.flatMap { Target($0) } == origin
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
