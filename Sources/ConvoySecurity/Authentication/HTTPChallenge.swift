import ConvoySupport

/// One challenge of a `WWW-Authenticate` or `Proxy-Authenticate` field (RFC 9110, section 11.3).
package struct HTTPChallenge: Sendable, Hashable {
    /// The name of the scheme in lower case, also of one that is not known.
    package let scheme: String
    /// What follows the scheme, where it is not a list of parameters: for instance a message of Kerberos in base64.
    package let token68: String?
    /// The values of the parameters, without quotes and escapes, by their names in lower case. If a name comes twice, its
    /// first value counts. There is no control character in a value.
    package let parameters: [String: String]

    package init(scheme: String, token68: String? = nil, parameters: [String: String] = [:]) {
        self.scheme = scheme
        self.token68 = token68
        self.parameters = parameters
    }

    /// The method; nil for a scheme that is not known.
    package var method: AuthenticationMethod? { AuthenticationMethod(rawValue: scheme) }

    /// The realm; nil if there is none, as for Negotiate.
    package var realm: String? { parameters["realm"] }

    /// The longest part of a field value that is read, in bytes.
    package static let fieldLimit = 16 << 10
    /// The largest number of challenges in one answer.
    package static let countLimit = 32
    /// The largest number of parameters of one challenge.
    package static let parameterLimit = 64

    /// Reads the challenges of all lines of a field, in their order.
    ///
    /// A challenge that is damaged is left out, and those after it are read: half of one might ask for a weaker algorithm
    /// than the server did. What servers are known to write is read though no RFC allows it: values without quotes that
    /// need them, and no comma after a quoted value. An unterminated quoted string damages the rest of its line.
    ///
    /// - Returns: at most 32 challenges of at most 64 parameters each. Of a line only the first 16 KiB are read, without
    ///   the challenge that is cut.
    package static func parse(_ fieldValues: [String]) -> [HTTPChallenge] {
        var challenges: [HTTPChallenge] = []
        for value in fieldValues {
            var parser = ChallengeParser(value)
            while challenges.count < countLimit, let challenge = parser.next() { challenges.append(challenge) }
            if challenges.count == countLimit { break }
        }
        return challenges
    }
}
