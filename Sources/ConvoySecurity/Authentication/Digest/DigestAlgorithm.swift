import ConvoySupport

/// An algorithm of Digest authentication (RFC 7616, section 3.3): a hash function, and whether the key is made once for
/// all requests with a nonce.
package enum DigestAlgorithm: String, Sendable, Hashable, CaseIterable {
    case md5 = "MD5"
    case md5Session = "MD5-sess"
    case sha256 = "SHA-256"
    case sha256Session = "SHA-256-sess"
    case sha512Over256 = "SHA-512-256"
    case sha512Over256Session = "SHA-512-256-sess"

    /// The algorithm of this name, in any case; nil for one that is not known.
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

    /// Whether the key includes the first nonces of the server and the client (the name ends in "-sess").
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
