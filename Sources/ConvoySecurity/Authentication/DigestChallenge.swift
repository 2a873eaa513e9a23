import ConvoySupport

/// A challenge of Digest authentication that can be answered (RFC 7616, section 3.3).
package struct DigestChallenge: Sendable, Hashable {
    /// What the hash covers besides the password and the nonces (`qop`, the quality of protection).
    package enum Protection: String, Sendable, Hashable, CaseIterable {
        /// The method and the target of the request.
        case auth
        /// The body of the request as well.
        case authInt = "auth-int"
    }

    /// The realm; empty if the server named none.
    package let realm: String
    /// The server's number, of which the hash is made.
    package internal(set) var nonce: String
    /// What the server wants to get back as it is.
    package let opaque: String?
    /// The algorithm; MD5 if the server named none.
    package let algorithm: DigestAlgorithm
    /// What the server offers of what is known here; empty for one that knows RFC 2069 only.
    package let protections: Set<Protection>
    /// Whether the server wants a hash in place of the user name.
    package let hashesUser: Bool
    /// Whether the server says that it reads UTF-8.
    package let isUTF8: Bool
    /// Whether user and password were right, and only the nonce was too old.
    package let isStale: Bool
    /// The URI references of the `domain` parameter: where else the answer is valid. It is empty for the whole server.
    package let domain: [String]
    /// The server's spelling of the algorithm, which some compare letter by letter.
    let algorithmName: String?

    /// Reads a challenge.
    ///
    /// - Returns: nil for another scheme, without a nonce, with an algorithm that is not known, if the server offers no
    ///   quality of protection that is known, and without any if the algorithm is not plain MD5, which alone RFC 2069
    ///   describes. Also with a control character in what would have to be sent back.
    package init?(_ challenge: HTTPChallenge) {
        let parameters = challenge.parameters
        guard challenge.method == .digest, let nonce = parameters["nonce"], !nonce.isEmpty,
            let algorithm = DigestAlgorithm(name: parameters["algorithm"] ?? "MD5")
        else { return nil }
        let offered = Self.words(parameters["qop"] ?? "") { $0 == UInt8(ascii: ",") }
        protections = Set(
            offered.compactMap { name in
                Protection.allCases.first { ASCII.equalIgnoringCase($0.rawValue.utf8, name.utf8) }
            })
        guard !protections.isEmpty || (offered.isEmpty && algorithm == .md5) else { return nil }
        let echoed = [nonce, parameters["realm"], parameters["opaque"]]
        guard echoed.allSatisfy({ $0.map { HTTPSyntax.isFieldValue($0) } ?? true }) else { return nil }
        self.nonce = nonce
        self.algorithm = algorithm
        algorithmName = parameters["algorithm"]
        realm = parameters["realm"] ?? ""
        opaque = parameters["opaque"]
        hashesUser = Self.isEqual(parameters["userhash"], "true")
        isUTF8 = Self.isEqual(parameters["charset"], "UTF-8")
        isStale = Self.isEqual(parameters["stale"], "true")
        domain = Self.words(parameters["domain"] ?? "")
    }

    /// 1 for MD5, 2 for SHA-256, 3 for SHA-512-256.
    package var strength: Int { algorithm.strength }

    /// The strongest of the challenges that can be answered; of two that are as strong, the one that the server named
    /// first (RFC 7616, section 3.7).
    package static func strongest(of challenges: [HTTPChallenge]) -> DigestChallenge? {
        challenges.compactMap { DigestChallenge($0) }.reduce(nil) { best, next in
            if let best, best.strength >= next.strength { best } else { next }
        }
    }

    private static func words(_ text: String, separator isSeparator: (UInt8) -> Bool = { _ in false }) -> [String] {
        text.utf8.split { ASCII.isWhitespace($0) || isSeparator($0) }.map { String(decoding: $0, as: UTF8.self) }
    }

    private static func isEqual(_ value: String?, _ name: String) -> Bool {
        value.map { ASCII.equalIgnoringCase($0.utf8, name.utf8) } ?? false
    }
}
