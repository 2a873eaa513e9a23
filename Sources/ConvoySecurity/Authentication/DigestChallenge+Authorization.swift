import ConvoySupport
import Foundation

extension DigestChallenge {
    /// The value of the `Authorization` or `Proxy-Authorization` field (RFC 7616, section 3.4).
    ///
    /// - Parameters:
    ///   - method: the method of the request, in its letters.
    ///   - uri: the target of the request as it is sent: a path with its query, for CONNECT host and port, to a proxy
    ///     otherwise the whole URL.
    ///   - body: the body, empty for none; nil if it cannot be hashed because it is a stream. It is not needed where the
    ///     server offers `qop=auth`.
    ///   - count: how many requests with this nonce there are, this one among them.
    ///   - cnonce: the client's number: not empty, without quotes and control characters. See ``DigestNonce``.
    /// - Returns: nil if the server wants the body in the hash and there is none, if the user's name or another text cannot
    ///   be sent because of control characters in it, and if OpenSSL refuses the hash function.
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

    /// What of a request, beside its contents, is in the hash.
    struct Use {
        /// nil for RFC 2069.
        let protection: Protection?
        let count: UInt32
        let cnonce: String

        /// Eight hexadecimal digits.
        var countText: String {
            let digits = String(count, radix: 16)
            return String(repeating: "0", count: 8 - digits.count) + digits
        }
    }

    /// The hash that proves the password (RFC 7616, sections 3.4.1 to 3.4.3).
    ///
    /// - Parameter request: the method, a colon and the target; without the method for what a server proves.
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

    /// A text as it is hashed: a server that says that it reads UTF-8 expects it in the normalization form C (RFC 7616,
    /// section 4).
    private func normalized(_ text: String) -> String { isUTF8 ? text.precomposedStringWithCanonicalMapping : text }

    /// The parameter with the user name: as a hash, in the form of RFC 8187, or in quotes.
    private func sentName(of user: String) -> String? {
        let user = normalized(user)
        if hashesUser {
            return algorithm.function.hexadecimalDigest(of: "\(user):\(realm)").map { "username=\"\($0)\"" }
        }
        guard isUTF8, !user.utf8.allSatisfy({ $0 < 0x80 }) else { return "username=\(Self.quoted(user))" }
        return "username*=UTF-8''\(Self.percentEncoded(user))"
    }

    /// RFC 8187, section 3.2.1.
    private static func percentEncoded(_ text: String) -> String {
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            // All characters of tokens but "*", "'" and "%".
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

    /// A quoted string (RFC 9110, section 5.6.4).
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
