import COpenSSL
import ConvoySupport
import Foundation

/// A Digest authentication challenge that can be answered (RFC 7616, section 3.3).
package struct DigestChallenge: Sendable, Hashable {
    /// The data that the hash covers in addition to the password and nonces (`qop`, the quality of protection).
    package enum Protection: String, Sendable, Hashable, CaseIterable {
        /// The request's method and target.
        case auth
        /// The request's method, target and body.
        case authInt = "auth-int"
    }

    /// The realm; empty if the server does not specify one.
    package let realm: String
    /// The server's nonce (RFC 7616, section 3.3).
    package internal(set) var nonce: String
    /// A value that the server expects back unchanged.
    package let opaque: String?
    /// The algorithm; MD5 if the server does not specify one.
    package let algorithm: DigestAlgorithm
    /// The known qualities of protection that the server offers; empty for an RFC 2069 server.
    package let protections: Set<Protection>
    /// Whether the server requires a hash instead of the user name.
    package let hashesUser: Bool
    /// Whether the server specifies `charset=UTF-8`.
    package let isUTF8: Bool
    /// Whether the user name and password were correct and only the nonce was stale.
    package let isStale: Bool
    /// The URI references of the `domain` parameter, at which the answer is also valid; empty for the entire server.
    package let domain: [String]
    /// The algorithm as spelled by the server. Some servers compare the spelling exactly.
    let algorithmName: String?

    /// Parses a challenge.
    ///
    /// - Returns: nil if the scheme is not Digest, if the nonce is missing, if the algorithm or all qualities of
    ///   protection are unknown, if the quality of protection is missing and the algorithm is not plain MD5 (the only
    ///   one in RFC 2069), or if a value to be sent back contains a control character.
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

    /// The strength of the algorithm: 1 for MD5, 2 for SHA-256, 3 for SHA-512-256.
    package var strength: Int { algorithm.strength }

    /// Returns the strongest challenge that can be answered, or the first of several equally strong ones (RFC 7616,
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

/// A Digest authentication algorithm (RFC 7616, section 3.3): a hash function, and whether all requests with the same
/// nonce share a key.
package enum DigestAlgorithm: String, Sendable, Hashable, CaseIterable {
    case md5 = "MD5"
    case md5Session = "MD5-sess"
    case sha256 = "SHA-256"
    case sha256Session = "SHA-256-sess"
    case sha512Over256 = "SHA-512-256"
    case sha512Over256Session = "SHA-512-256-sess"

    /// Creates an algorithm from its name, in any case. Returns nil if the name is unknown.
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

    /// Whether this is a session algorithm, whose key includes the first server and client nonces (the name ends in
    /// "-sess").
    package var keepsKey: Bool {
        switch self {
        case .md5Session, .sha256Session, .sha512Over256Session: true
        case .md5, .sha256, .sha512Over256: false
        }
    }

    /// The strength of the hash function: 1 for MD5, 2 for SHA-256, 3 for SHA-512-256.
    package var strength: Int {
        switch function {
        case .md5: 1
        case .sha256: 2
        case .sha512Over256: 3
        }
    }
}

/// A Digest authentication hash function (RFC 7616, section 6.1), computed by OpenSSL.
enum HashFunction: Sendable, Hashable {
    case md5
    case sha256
    /// SHA-512 with different initial values, truncated to 256 bits (FIPS 180-4, section 5.3.6.2).
    case sha512Over256

    /// Returns the hash of bytes in lowercase hexadecimal digits, or nil if OpenSSL fails, for example because a policy
    /// forbids MD5.
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

    /// Returns the hash of a string, encoded as UTF-8.
    func hexadecimalDigest(of text: String) -> String? { hexadecimalDigest(of: Array(text.utf8)) }
}
