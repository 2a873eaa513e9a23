import ConvoySupport
import Foundation

extension DigestChallenge {
    /// Returns the value of the `Authorization` or `Proxy-Authorization` field (RFC 7616, section 3.4).
    ///
    /// - Parameters:
    ///   - method: The method of the request, case-sensitive.
    ///   - uri: The request target as it is sent: path and query; host and port for CONNECT; or the entire URL for
    ///     other requests to a proxy.
    ///   - body: The body, which may be empty; nil if it cannot be hashed because it is a stream. A server that offers
    ///     `qop=auth` does not require the body.
    ///   - count: The number of requests with this nonce, including this request.
    ///   - cnonce: The client nonce. It must not be empty or contain quotes or control characters. See ``DigestNonce``.
    /// - Returns: nil if the server requires a hash of the body and the body is nil, if the user name or another value
    ///   contains control characters, or if OpenSSL rejects the hash function.
    package func authorization(
        user: String, password: String, method: String, uri: String, body: Data?, count: UInt32, cnonce: String
    ) -> String? {
        guard BasicAuthorization.isSendable(user), BasicAuthorization.isSendable(password),
            HTTPSyntax.isFieldValue(uri), HTTPSyntax.isFieldValue(cnonce), !cnonce.isEmpty
        else { return nil }
        let protection: Protection? =
            protections.contains(.auth) ? .auth : protections.contains(.authInt) ? .authInt : nil
        guard protection != .authInt || body != nil, let name = sentName(of: user) else { return nil }
        let use = Use(protection: protection, count: count, cnonce: cnonce)
        guard
            let response = response(
                user: user, password: password, request: "\(method):\(uri)", body: body ?? Data(), use: use)
        else { return nil }
        var parameters = [
            name, "realm=\(Self.quoted(realm))", "nonce=\(Self.quoted(nonce))", "uri=\(Self.quoted(uri))",
            "response=\"\(response)\"",
        ]
        if let protection {
            parameters += ["cnonce=\(Self.quoted(cnonce))", "nc=\(use.countText)", "qop=\(protection.rawValue)"]
        }
        if let opaque { parameters.append("opaque=\(Self.quoted(opaque))") }
        if let algorithmName { parameters.append("algorithm=\(algorithmName)") }
        if hashesUser { parameters.append("userhash=true") }
        return "Digest " + parameters.joined(separator: ", ")
    }

    /// The parts of the hash that depend on how the nonce is used.
    struct Use {
        /// The quality of protection; nil for RFC 2069.
        let protection: Protection?
        let count: UInt32
        let cnonce: String

        /// The count as eight hexadecimal digits.
        var countText: String {
            let digits = String(count, radix: 16)
            return String(repeating: "0", count: 8 - digits.count) + digits
        }
    }

    /// Returns the hash that proves knowledge of the password (RFC 7616, sections 3.4.1 to 3.4.3).
    ///
    /// - Parameter request: The method, a colon and the target; for the server's proof, without the method.
    func response(user: String, password: String, request: String, body: Data, use: Use) -> String? {
        let function = algorithm.function
        guard
            var key = function.hexadecimalDigest(of: "\(normalized(user)):\(realm):\(normalized(password))")
        else { return nil }
        if algorithm.keepsKey {
            guard let lasting = function.hexadecimalDigest(of: "\(key):\(nonce):\(use.cnonce)") else { return nil }
            key = lasting
        }
        var contents = request
        if use.protection == .authInt {
            guard let hash = function.hexadecimalDigest(of: Array(body)) else { return nil }
            contents += ":\(hash)"
        }
        guard let contentsHash = function.hexadecimalDigest(of: contents) else { return nil }
        guard let protection = use.protection else {
            return function.hexadecimalDigest(of: "\(key):\(nonce):\(contentsHash)")
        }
        let middle = "\(nonce):\(use.countText):\(use.cnonce):\(protection.rawValue)"
        return function.hexadecimalDigest(of: "\(key):\(middle):\(contentsHash)")
    }

    /// Returns the string to hash, in normalization form C if the server uses UTF-8 (`charset`, RFC 7616, section 4).
    private func normalized(_ text: String) -> String { isUTF8 ? text.precomposedStringWithCanonicalMapping : text }

    /// Returns the parameter that contains the user name: hashed, encoded as in RFC 8187, or quoted.
    private func sentName(of user: String) -> String? {
        let user = normalized(user)
        if hashesUser {
            return algorithm.function.hexadecimalDigest(of: "\(user):\(realm)").map { "username=\"\($0)\"" }
        }
        guard isUTF8, !user.utf8.allSatisfy({ $0 < 0x80 }) else { return "username=\(Self.quoted(user))" }
        return "username*=UTF-8''\(Self.percentEncoded(user))"
    }

    /// Percent-encodes a string by RFC 8187, section 3.2.1.
    private static func percentEncoded(_ text: String) -> String {
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            // RFC 8187 allows all token characters except "*", "'" and "%".
            if HTTPSyntax.isTokenByte(byte), !"*'%".utf8.contains(byte) {
                bytes.append(byte)
            } else {
                bytes += [
                    UInt8(ascii: "%"), ASCII.hexadecimalDigit(byte >> 4, uppercase: true),
                    ASCII.hexadecimalDigit(byte & 15, uppercase: true),
                ]
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Returns a string as a quoted string (RFC 9110, section 5.6.4).
    private static func quoted(_ text: String) -> String {
        var bytes = [UInt8(ascii: "\"")]
        for byte in text.utf8 {
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { bytes.append(UInt8(ascii: "\\")) }
            bytes.append(byte)
        }
        bytes.append(UInt8(ascii: "\""))
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// A server's nonce in use. Counts the requests that use it, and creates client nonces.
///
/// All requests with the nonce share one object, on any thread, because a server rejects counts that it has already
/// seen.
package final class DigestNonce: Sendable {
    /// The challenge with the nonce.
    package let challenge: DigestChallenge
    private let uses = Locked<UInt32>(0)
    /// The first client nonce, which is part of the key if a session algorithm is used.
    private let firstCnonce = DigestNonce.randomText()

    /// Creates a nonce that has not been used yet.
    package init(_ challenge: DigestChallenge) {
        self.challenge = challenge
    }

    /// Returns the count for the next request (`nc`), starting at 1. After 2³² - 1 it restarts at 1, which the server
    /// rejects with a new nonce.
    package func nextCount() -> UInt32 {
        uses.withLock {
            $0 = $0 == .max ? 1 : $0 + 1
            return $0
        }
    }

    /// Returns the client nonce for a request: 32 random hexadecimal digits, different for each request. With a session
    /// algorithm, the client nonce is always the same.
    package func makeCnonce() -> String { challenge.algorithm.keepsKey ? firstCnonce : Self.randomText() }

    /// Returns 128 random bits from the system, as hexadecimal digits. With a predictable nonce, a server could compute
    /// tables of passwords in advance.
    private static func randomText() -> String {
        var generator = SystemRandomNumberGenerator()
        return [generator.next() as UInt64, generator.next()].map { number in
            let digits = String(number, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }
}

/// The content of `Authentication-Info` or `Proxy-Authentication-Info`, which a server or a proxy sends after a
/// successful Digest authentication (RFC 7616, section 3.5).
package struct DigestAuthenticationInfo: Sendable, Hashable {
    /// The nonce to use for the next requests.
    package let nextNonce: String?
    /// The quality of protection of the server's hash; nil if it is not specified.
    package let protection: DigestChallenge.Protection?
    /// The server's hash, which proves that it knows the password.
    package let response: String?
    /// The client nonce, as returned by the server.
    package let cnonce: String?
    /// The nonce count of the request, as returned by the server: eight hexadecimal digits.
    package let count: String?

    /// Parses the value of the field.
    ///
    /// - Returns: nil if the value is not a list of parameters, or is longer than 16 KiB.
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
    /// Returns the challenge with the nonce from `nextnonce`. The nonce count restarts.
    package func replacingNonce(with nonce: String) -> DigestChallenge {
        var challenge = self
        challenge.nonce = nonce
        return challenge
    }

    /// Returns whether the server has proved that it knows the password (`rspauth`).
    ///
    /// - Parameters:
    ///   - uri: The request target. Like `count` and `cnonce`, it must be the same as in the request's authorization.
    ///   - body: The body of the response, for a server that hashes it; nil if it was not kept.
    /// - Returns: False if the proof is wrong; nil if it is missing, or if it covers a body that was not kept.
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

/// An error for a server that accepted a Digest authentication, but whose own proof (`rspauth`, RFC 7616, section 3.5)
/// shows that it does not know the password. The response comes from a different server.
///
/// This is the underlying error of a `URLError.badServerResponse`. No part of the body has been delivered.
public struct ResponseAuthenticationFailure: Error, Sendable, Hashable, SelfDescribingError {
    /// The host of the server.
    public let host: String
    /// The realm of the challenge.
    public let realm: String

    /// A sentence that describes the failure.
    public var description: String {
        "The server at \(host) does not know the password for \(realm.debugDescription): its proof (rspauth) is wrong."
    }
}
