import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// The identity of requests.
extension ConnectionConfiguration {
    /// Creates the identity of a request. All identities are created here.
    ///
    /// - Parameters:
    ///   - target: The server that receives the request; nil for a URL that is neither http nor https.
    ///   - header: The secrets in the request's own header.
    ///   - credential: The credential of an `Authorization` field added during sending; nil for none.
    ///   - tls: The TLS settings for the server; nil for plain text.
    func identity(
        at target: Target?, _ header: SecretHeader, credential: (user: String, password: String)?, tls: TLSContext?
    ) -> Identity {
        var place: Identity.Place?
        if let unixSocket {
            place = .socket(unixSocket)
        } else if let fixed = target.flatMap(fixedAddress) {
            place = .address(fixed)
        }
        // An added field may change with each request, so the credential represents it.
        let secrets = credential == nil ? header.fields : header.fields.filter { !KnownSecret.isAuthorization($0.name) }
        return Identity(
            name: routing.settings.identity, credential: credential, secrets: secrets,
            cookieStore: header.sendsStoredCookies ? cookies?.keeper.identity : nil, certificate: tls?.clientCertificate,
            policy: tls.flatMap { _ in self.tls.policyDigest { target?.host ?? "" } }, host: header.host,
            place: place)
    }

    /// Returns the identity of a request before authorization, including the cookies from the store.
    package func identity(of request: URLRequest) -> Identity {
        let sent = (request.allHTTPHeaderFields ?? [:]).map { (name: $0.key, value: $0.value) }
        let hasCookie = sent.contains { KnownSecret.isCookie($0.name) }
        var header = SecretHeader(
            sent, secrets, hasStoredCookies: false)
        header.sendsStoredCookies = !hasCookie && request.httpShouldHandleCookies && cookies?.keeper.isEmpty == false
        let target = request.url.flatMap { Target($0) }
        return identity(at: target, header, credential: nil, tls: target?.isSecure == true ? tls.context : nil)
    }
}

extension Identity {
    /// Returns the cache partition for the identity, whose responses are served to no other identity; nil if it cannot
    /// be computed.
    func partition(salt: @autoclosure () -> String) -> String? {
        // An anonymous identity needs no digest.
        isEmpty ? "" : MessageDigest.sha256(Data("\(salt()):".utf8 + bytes))?.hexadecimalString
    }
}
