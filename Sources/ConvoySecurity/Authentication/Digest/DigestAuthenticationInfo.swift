import ConvoySupport
import Foundation

/// What a server says after a successful Digest authentication, in `Authentication-Info` or, for a proxy, in
/// `Proxy-Authentication-Info` (RFC 7616, section 3.5).
package struct DigestAuthenticationInfo: Sendable, Hashable {
    /// The nonce to use from the next request on.
    package let nextNonce: String?
    /// What the server's own hash covers; nil if it does not say.
    package let protection: DigestChallenge.Protection?
    /// The server's own hash, by which it proves that it knows the password.
    package let response: String?
    /// The client's number, sent back.
    package let cnonce: String?
    /// The count of the request, sent back: eight hexadecimal digits.
    package let count: String?

    /// Reads the value of the field.
    ///
    /// - Returns: nil if it is no list of parameters, or longer than 16 KiB.
    package init?(_ fieldValue: String) {
        guard let parameters = ParameterScanner.parameters(in: fieldValue) else { return nil }
        nextNonce = parameters["nextnonce"].flatMap { $0.isEmpty || !HTTPSyntax.isFieldValue($0) ? nil : $0 }
        protection = parameters["qop"].flatMap { DigestChallenge.Protection(rawValue: $0.lowercased()) }
        response = parameters["rspauth"]
        cnonce = parameters["cnonce"]
        count = parameters["nc"]
    }
}

extension DigestChallenge {
    /// The challenge with another nonce, after `nextnonce`. Counting begins anew.
    package func replacingNonce(with nonce: String) -> DigestChallenge {
        var challenge = self
        challenge.nonce = nonce
        return challenge
    }

    /// Whether a server has proved that it knows the password (`rspauth`).
    ///
    /// - Parameters:
    ///   - uri: the target, `count` the count, and `cnonce` the number of the request that was answered.
    ///   - body: the body of the response, for a server that hashes it; nil if it was not kept.
    /// - Returns: false if the proof is of something else; nil if there is none, or if it cannot be verified because it
    ///   covers a body that was not kept.
    package func verifies(
        _ info: DigestAuthenticationInfo, user: String, password: String, uri: String, body: Data?, count: UInt32,
        cnonce: String
    ) -> Bool? {
        guard let proof = info.response, let protection = info.protection else { return nil }
        if protection == .authInt, body == nil { return nil }
        let use = Use(protection: protection, count: count, cnonce: cnonce)
        if let sent = info.cnonce, sent != cnonce { return false }
        if let sent = info.count, !ASCII.equalIgnoringCase(sent.utf8, use.countText.utf8) { return false }
        guard
            let expected = response(
                user: user, password: password, request: ":\(uri)", body: body ?? Data(), use: use)
        else { return nil }
        return ASCII.equalIgnoringCase(proof.utf8, expected.utf8)
    }
}

/// A server that has let a request in by Digest, and has proved with its response (`rspauth`, RFC 7616, section 3.5) that it
/// does not know the password: something else is in its place.
///
/// The underlying error of a `URLError.badServerResponse`. Nothing of the body was handed on.
public struct ResponseAuthenticationFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// The host of the server.
    public let host: String
    /// The realm that it asked for.
    public let realm: String

    /// The failure in a sentence.
    public var description: String {
        "The response of \(host) is not from a server that knows the password for \(realm.debugDescription): its proof (rspauth) is wrong."
    }
}

extension ResponseAuthenticationFailure: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}
