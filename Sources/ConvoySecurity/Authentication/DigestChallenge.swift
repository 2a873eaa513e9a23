import COpenSSL
import ConvoySupport
import Foundation

/// A challenge of Digest authentication that this library can answer (RFC 7616, section 3.3).
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
    /// The server's nonce (RFC 7616, section 3.3).
    package internal(set) var nonce: String
    /// A value that the server wants sent back unchanged.
    package let opaque: String?
    /// The algorithm; MD5 if the server named none.
    package let algorithm: DigestAlgorithm
    /// The known qualities of protection that the server offers; empty for a server of RFC 2069.
    package let protections: Set<Protection>
    /// Whether the server requires a hash in place of the user name.
    package let hashesUser: Bool
    /// Whether the server announces `charset=UTF-8`.
    package let isUTF8: Bool
    /// Whether user and password were right, and only the nonce was stale.
    package let isStale: Bool
    /// The URI references of the `domain` parameter, where the answer is valid too; empty for the whole server.
    package let domain: [String]
    /// The server's spelling of the algorithm, which some servers compare exactly.
    let algorithmName: String?

    /// Parses a challenge.
    ///
    /// - Returns: nil for another scheme, a missing nonce, an unknown algorithm, only unknown qualities of protection,
    ///   no quality of protection with another algorithm than plain MD5 (RFC 2069 has only that), or a control
    ///   character in a value that must be sent back.
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

    /// The strongest of the challenges that this library can answer; of equally strong ones, the first (RFC 7616,
    /// section 3.7).
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

/// An algorithm of Digest authentication (RFC 7616, section 3.3): a hash function, and whether all requests with a
/// nonce share one key.
package enum DigestAlgorithm: String, Sendable, Hashable, CaseIterable {
    case md5 = "MD5"
    case md5Session = "MD5-sess"
    case sha256 = "SHA-256"
    case sha256Session = "SHA-256-sess"
    case sha512Over256 = "SHA-512-256"
    case sha512Over256Session = "SHA-512-256-sess"

    /// The algorithm of this name, in any case; nil for an unknown one.
    package init?(name: String) {
        guard let known = Self.allCases.first(where: { ASCII.equalIgnoringCase($0.rawValue.utf8, name.utf8) }) else {
            return nil
        }
        self = known
    }

    var function: HashFunction {
        switch self {
        case .md5, .md5Session: .md5
        case .sha256, .sha256Session: .sha256
        case .sha512Over256, .sha512Over256Session: .sha512Over256
        }
    }

    /// Whether it is a session algorithm, whose key includes the first nonces of server and client (the name ends in
    /// "-sess").
    package var keepsKey: Bool {
        switch self {
        case .md5Session, .sha256Session, .sha512Over256Session: true
        case .md5, .sha256, .sha512Over256: false
        }
    }

    /// 1 for MD5, 2 for SHA-256, 3 for SHA-512-256.
    package var strength: Int {
        switch function {
        case .md5: 1
        case .sha256: 2
        case .sha512Over256: 3
        }
    }
}

/// A hash function of Digest authentication (RFC 7616, section 6.1), computed by OpenSSL.
enum HashFunction: Sendable, Hashable {
    case md5
    case sha256
    /// SHA-512 with other initial values, cut to 256 bits (FIPS 180-4, section 5.3.6.2).
    case sha512Over256

    /// The hash of bytes as lowercase hexadecimal digits; nil if OpenSSL failed, for instance because a policy forbids
    /// MD5.
    func hexadecimalDigest(of bytes: [UInt8]) -> String? {
        let function =
            switch self {
            case .md5: EVP_md5()
            case .sha256: EVP_sha256()
            case .sha512Over256: EVP_sha512_256()
            }
        var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        guard EVP_Digest(bytes, bytes.count, &digest, &count, function, nil) == 1 else { return nil }
        return Data(digest[..<Int(count)]).hexadecimalString
    }

    /// The hash of a text in UTF-8.
    func hexadecimalDigest(of text: String) -> String? { hexadecimalDigest(of: Array(text.utf8)) }
}
