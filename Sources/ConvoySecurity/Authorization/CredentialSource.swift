import Foundation
import FoundationNetworking

/// Where the credentials of an operation come from.
package struct CredentialSource: Sendable {
    /// The operation's own, and the server that it is for.
    package var own: URLCredential?
    package var ownServer: AuthenticatingServer?
    /// Those of the configured proxy.
    package var ofProxy: URLCredential?
    package var proxy: AuthenticatingServer?
    package var store: CredentialStore?

    package init() {}

    func credential(for space: ProtectionSpace, of server: AuthenticatingServer) -> URLCredential? {
        if server.isProxy {
            if let ofProxy, server == proxy { return ofProxy }
        } else if let own, let ownServer, server.mayUseCredential(of: ownServer) {
            return own
        }
        return store?.credential(for: space)
    }
}
