import CCurl
import ConvoySecurity
import Foundation

/// Whom libcurl authenticates itself, by NTLM or Negotiate: several messages on one connection, which then belongs to the
/// user.
///
/// The connection is a new one, and is not used again: libcurl 7.88 may give one that Negotiate has authenticated to a
/// transfer of another user.
struct Negotiation: Equatable {
    /// A method, with the user that it is for; for Negotiate an empty one means the tickets that there are.
    struct Party: Equatable {
        let method: AuthenticationMethod
        let user: String
        let password: String

        var bits: Int { method == .ntlm ? 1 << 3 : 1 << 2 }
    }

    var server: Party?
    var proxy: Party?

    /// Says which of the methods libcurl has, once.
    static let announcement: Void = {
        let features = convoy_version()?.pointee.features ?? 0
        ConnectionAuthentication.setSupported(
            ntlm: features & CURL_VERSION_NTLM != 0, negotiate: features & CURL_VERSION_SPNEGO != 0)
    }()

    /// Sets the options of a handle, which is used for nothing else after it.
    func apply<Failure: Error>(
        _ check: (CURLcode) throws(Failure) -> Void, to easy: UnsafeMutableRawPointer
    ) throws(Failure) {
        try check(convoy_easy_set_long(easy, CURLOPT_FRESH_CONNECT, 1))
        try check(convoy_easy_set_long(easy, CURLOPT_FORBID_REUSE, 1))
        if let server {
            try check(convoy_easy_set_long(easy, CURLOPT_HTTPAUTH, server.bits))
            try check(convoy_easy_set_string(easy, CURLOPT_USERNAME, server.user))
            try check(convoy_easy_set_string(easy, CURLOPT_PASSWORD, server.password))
        }
        if let proxy {
            try check(convoy_easy_set_long(easy, CURLOPT_PROXYAUTH, proxy.bits))
            try check(convoy_easy_set_string(easy, CURLOPT_PROXYUSERNAME, proxy.user))
            try check(convoy_easy_set_string(easy, CURLOPT_PROXYPASSWORD, proxy.password))
        }
    }
}
