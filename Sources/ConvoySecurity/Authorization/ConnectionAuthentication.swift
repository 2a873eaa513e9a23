import Foundation
import Synchronization

/// The methods that authenticate a connection, which libcurl has or has not.
package enum ConnectionAuthentication {
    private static let methods = Atomic<UInt8>(0)

    /// Told by the transport, before its first request.
    package static func setSupported(ntlm: Bool, negotiate: Bool) {
        methods.store((ntlm ? 1 : 0) | (negotiate ? 2 : 0), ordering: .relaxed)
    }

    static func isSupported(_ method: AuthenticationMethod) -> Bool {
        let methods = methods.load(ordering: .relaxed)
        return method == .ntlm ? methods & 1 != 0 : method == .negotiate && methods & 2 != 0
    }
}
