import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// As whom requests are made.
extension ConnectionConfiguration {
    /// The identity of a request: the only place where it is made.
    ///
    /// - Parameters:
    ///   - target: where it leads; nil where that is no http or https URL.
    ///   - header: what the request says of itself that is secret.
    ///   - credential: for whom an `Authorization` speaks that was added on the way; nil if there is none.
    ///   - tls: the settings under which TLS is spoken with the server; nil for plain text.
    func identity(
        at target: Target?, _ header: SecretHeader, credential: (user: String, password: String)?, tls: TLSContext?
    ) -> Identity {
        var place: Identity.Place?
        if let unixSocket {
            place = .socket(unixSocket)
        } else if let fixed = target.flatMap(fixedAddress) {
            place = .address(fixed)
        }
        // What was added may be another text for each request.
        let secrets = credential == nil ? header.fields : header.fields.filter { !KnownSecret.isAuthorization($0.name) }
        return Identity(
            name: routing.settings.identity, credential: credential, secrets: secrets,
            cookieStore: header.sendsStoredCookies ? cookies?.keeper.identity : nil, certificate: tls?.clientCertificate,
            policy: tls.flatMap { _ in self.tls.policyDigest { target?.host ?? "" } }, host: header.host,
            place: place)
    }

    /// The identity of a request that nobody has authorized yet, and that has the cookies of the store, if there are any.
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
    /// Where in a cache the responses to requests of the identity are: what one was given is for no other. nil where it
    /// cannot be told.
    func partition(salt: @autoclosure () -> String) -> String? {
        // What is for everybody needs no digest.
        isEmpty ? "" : MessageDigest.sha256(Data("\(salt()):".utf8 + bytes))?.hexadecimalString
    }
}
