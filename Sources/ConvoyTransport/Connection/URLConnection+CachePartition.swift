import ConvoySecurity
import ConvoySupport
import Foundation

/// Whom stored responses are for.
extension URLConnection {
    /// The partition of the cache in which the responses to a request are: what somebody was given for his credentials, or
    /// by a server that another policy trusts, or by a server in place of another, or in the name of another host, is for
    /// nobody else. nil where that cannot be told.
    func partition(
        of cache: any ResponseCache, _ departure: Departure, _ authorization: Authorizations
    ) -> String? {
        var secrets: [String] = []
        if let identity = authorization.identity {
            secrets += ["credential", identity.user, identity.password]
        } else if departure.header.setsAuthorization {
            let own = departure.header.sentFields.first { ASCII.equalIgnoringCase($0.name.utf8, "authorization".utf8) }
            guard let own else { return nil }
            secrets += ["authorization", own.value]
        }
        if departure.isSecure {
            if let identity = configuration.clientIdentity, departure.tls === configuration.tls.context {
                guard let certificate = try? identity.certificates().first,
                    let digest = MessageDigest.sha256(certificate.derData)
                else { return nil }
                secrets += ["identity", digest.hexadecimalString]
            }
            if let policy = configuration.tls.policyDigest({ departure.target.host }) {
                secrets += ["policy", policy]
            }
        }
        if departure.header.setsHost {
            let host = departure.header.sentFields.first { ASCII.equalIgnoringCase($0.name.utf8, "host".utf8) }
            secrets += ["host", (host?.value ?? "").lowercased()]
        }
        if let socket = configuration.unixSocket {
            secrets += ["socket", socket]
        } else if let place = configuration.fixedAddress(for: departure.target) {
            secrets += ["address", place]
        }
        if secrets.isEmpty { return "" }
        // With their lengths, so that no two lists make the same text.
        let text = ([cache.salt] + secrets).map { "\($0.utf8.count):\($0)" }.joined()
        return MessageDigest.sha256(Data(text.utf8))?.hexadecimalString
    }
}
