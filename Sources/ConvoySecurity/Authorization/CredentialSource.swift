import Foundation
import FoundationNetworking

/// Where the credentials of an operation come from.
package struct CredentialSource: Sendable {
    /// The operation's own, and the server that it is for.
    package var own: URLCredential?
    package var ownServer: AuthenticatingServer?
    /// Those of the configured proxies.
    package var ofProxies: [AuthenticatingServer: URLCredential] = [:]
    package var store: CredentialStore?

    package init() {}

    func credential(for space: ProtectionSpace, of server: AuthenticatingServer) -> URLCredential? {
        if server.isProxy {
            if let known = ofProxies[server] { return known }
        } else if let own, let ownServer, server.mayUseCredential(of: ownServer) {
            return own
        }
        return store?.credential(for: space)
    }
}
