import ConvoySecurity
import Foundation

/// Who asks for credentials on the way of a request.
extension ConnectionConfiguration {
    /// The proxy that a request for a URL goes through, if it speaks HTTP.
    package func proxyServer(for url: URL) -> AuthenticatingServer? { nil }

    /// Adds the credential of the proxy.
    package func addProxyCredential(to source: inout CredentialSource, for url: URL?) {}
}

extension AuthenticationRecord {
    /// Whether a request needs a thread that may be blocked.
    package func mayBlock(_ request: TransferRequest, over configuration: ConnectionConfiguration) -> Bool {
        guard let address = request.address, let url = request.url, let server = AuthenticatingServer(url) else {
            return false
        }
        if mayBlock(at: RequestTarget(address).uri, of: server) { return true }
        return configuration.proxyServer(for: url).map { mayBlock(at: "", of: $0) } ?? false
    }
}
