import ConvoySupport

/// A challenge from a `WWW-Authenticate` or `Proxy-Authenticate` field (RFC 9110, section 11.3).
package struct HTTPChallenge: Sendable, Hashable {
    /// The scheme in lower case, known or unknown.
    package let scheme: String
    /// The text after the scheme, if it is not a list of parameters: for example a Kerberos message in Base64.
    package let token68: String?
    /// The parameter values, without quotes and escapes, by their lowercase names. If a name is repeated, the first
    /// value is used. Values contain no control characters.
    package let parameters: [String: String]

    package init(scheme: String, token68: String? = nil, parameters: [String: String] = [:]) {
        self.scheme = scheme
        self.token68 = token68
        self.parameters = parameters
    }

    /// The method; nil for an unknown scheme.
    package var method: AuthenticationMethod? { AuthenticationMethod(rawValue: scheme) }

    /// The realm; nil if the challenge has no realm, as with Negotiate.
    package var realm: String? { parameters["realm"] }

    /// The maximum number of bytes of a field value that are parsed.
    package static let fieldLimit = 16 << 10
    /// The maximum number of challenges in a response.
    package static let countLimit = 32
    /// The maximum number of parameters in a challenge.
    package static let parameterLimit = 64

    /// Parses the challenges of all lines of a field, in order.
    ///
    /// An invalid challenge is dropped, because the rest of it might specify a weaker algorithm than the server did.
    /// The following challenges are still parsed. Two common server errors are accepted: missing quotes around values,
    /// and a missing comma after a quoted value. An unterminated quoted string invalidates the rest of its line.
    ///
    /// - Returns: At most 32 challenges with at most 64 parameters each. Only the first 16 KiB of a line are parsed,
    ///   and a challenge that is cut off is dropped.
    package static func parse(_ fieldValues: [String]) -> [HTTPChallenge] {
        var challenges: [HTTPChallenge] = []
        for value in fieldValues {
            var parser = ChallengeParser(value)
            while challenges.count < countLimit, let challenge = parser.next() { challenges.append(challenge) }
        }
        return challenges
    }
}

/// A parser for the challenges of a field line, element by element (RFC 9110, sections 5.6.1 and 11.3).
///
/// Commas separate both challenges and the parameters of a challenge. An element starts a challenge if it is a single
/// word, or a word followed by spaces and anything except "=".
struct ChallengeParser {
    private var scanner: ParameterScanner
    /// The parts of the current challenge.
    private var scheme: String?
    private var token68: String?
    private var parameters: [String: String] = [:]
    private var isDamaged = false
    /// Whether the line is longer than the part that is parsed.
    private let isCut: Bool

    init(_ fieldValue: String) {
        let bytes = fieldValue.utf8.prefix(HTTPChallenge.fieldLimit + 1)
        isCut = bytes.count > HTTPChallenge.fieldLimit
        scanner = ParameterScanner(bytes.prefix(HTTPChallenge.fieldLimit))
    }

    /// Returns the next valid challenge, or nil at the end.
    mutating func next() -> HTTPChallenge? {
        while true {
            scanner.skipSeparators()
            guard !scanner.isAtEnd else { return isCut ? nil : finish() }
            guard let word = scanner.word() else {
                damage()
                continue
            }
            let hasSpace = scanner.skipSpaces()
            if scanner.isAtAssignment {
                add(word)
            } else if hasSpace || scanner.isAtSeparator {
                // Accept a `qop` list without quotes, although the specification requires them: `qop=auth,auth-int`.
                if scanner.isAtSeparator, parameters["qop"] != nil, Self.protections.contains(word) { continue }
                let last = finish()
                begin(word)
                if let last { return last }
            } else {
                damage()
            }
        }
    }

    /// The values of `qop`, to distinguish them from schemes.
    private static let protections: Set = ["auth", "auth-int"]

    private mutating func finish() -> HTTPChallenge? {
        defer {
            scheme = nil
            token68 = nil
            parameters = [:]
            isDamaged = false
        }
        guard let scheme, !isDamaged else { return nil }
        return HTTPChallenge(scheme: scheme, token68: token68, parameters: parameters)
    }

    private mutating func begin(_ word: String) {
        scheme = word
        guard !scanner.isAtSeparator else { return }
        if let token = scanner.token68() {
            token68 = token
        } else if let name = scanner.word() {
            scanner.skipSpaces()
            if scanner.isAtAssignment { add(name) } else { damage() }
        } else {
            damage()
        }
    }

    /// Reads the value of a parameter.
    private mutating func add(_ name: String) {
        var name = name
        while let value = scanner.value(of: name), token68 == nil {
            if parameters[name] == nil, parameters.count < HTTPChallenge.parameterLimit { parameters[name] = value }
            guard !scanner.isAtSeparator else { return }
            // The comma between parameters is missing. Accept a further parameter, but not a challenge, which must
            // follow a comma.
            guard let following = scanner.word() else { break }
            scanner.skipSpaces()
            guard scanner.isAtAssignment else { break }
            name = following
        }
        damage()
    }

    /// Drops the challenge that contains this element.
    private mutating func damage() {
        isDamaged = true
        scanner.skipElement()
    }
}

/// A scanner that reads words and parameters of a field value from left to right. Its methods return nil if the
/// requested syntax does not follow.
struct ParameterScanner {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: some Sequence<UInt8>) {
        rest = Array(bytes)[...]
    }

    var isAtEnd: Bool { rest.isEmpty }
    /// Whether the current list element ends here.
    var isAtSeparator: Bool { rest.isEmpty || rest.first == UInt8(ascii: ",") }
    var isAtAssignment: Bool { rest.first == UInt8(ascii: "=") }

    /// Skips spaces and tabs. Returns whether any were skipped.
    @discardableResult
    mutating func skipSpaces() -> Bool {
        let count = rest.count
        rest = rest.drop(while: HTTPSyntax.isOptionalWhitespace)
        return rest.count < count
    }

    /// Skips commas and the whitespace around them, including empty elements.
    mutating func skipSeparators() {
        rest = rest.drop { $0 == UInt8(ascii: ",") || HTTPSyntax.isOptionalWhitespace($0) }
    }

    /// Skips the rest of an element, up to a comma outside quoted strings.
    mutating func skipElement() {
        rest = rest[(HTTPSyntax.firstSeparator(",", in: rest) ?? rest.endIndex)...]
    }

    /// Reads a token (RFC 9110, section 5.6.2) and returns it in lower case.
    mutating func word() -> String? {
        let word = rest.prefix(while: HTTPSyntax.isTokenByte)
        guard !word.isEmpty else { return nil }
        rest = rest[word.endIndex...]
        return String(decoding: word.map(ASCII.lowercased), as: UTF8.self)
    }

    /// Reads the rest of an element if it has the form of a `token68` (RFC 9110, section 11.2).
    mutating func token68() -> String? {
        let letters = rest.prefix(while: BearerAuthorization.isTokenByte)
        guard !letters.isEmpty else { return nil }
        let end = rest[letters.endIndex...].drop { $0 == UInt8(ascii: "=") }.startIndex
        var after = self
        after.rest = rest[end...]
        after.skipSpaces()
        guard after.isAtSeparator else { return nil }
        let token = String(decoding: rest[rest.startIndex..<end], as: UTF8.self)
        self = after
        return token
    }

    /// Reads the value of a parameter, starting at its "=", and the spaces after it.
    ///
    /// - Returns: nil if the value is not a token where it must be one, contains control characters, or has no closing
    ///   quote.
    mutating func value(of name: String) -> String? {
        rest = rest.dropFirst()
        skipSpaces()
        let value = rest.first == UInt8(ascii: "\"") ? quotedString() : unquotedText(withSpaces: name == "realm")
        skipSpaces()
        return value
    }

    /// Reads a quoted string without quotes and escapes. Returns nil if it is unclosed or contains control characters.
    private mutating func quotedString() -> String? {
        let (text, isClosed) = HTTPSyntax.quotedString(&rest)
        return isClosed && HTTPSyntax.isFieldValue(text) ? String(decoding: text, as: UTF8.self) : nil
    }

    /// Reads an unquoted value. Many servers send values that are not tokens, for example Base64 nonces.
    private mutating func unquotedText(withSpaces: Bool) -> String? {
        let text = rest.prefix {
            $0 != UInt8(ascii: ",") && (withSpaces || !HTTPSyntax.isOptionalWhitespace($0))
        }
        guard HTTPSyntax.isFieldValue(text), !text.contains(UInt8(ascii: "\"")) else { return nil }
        rest = rest[text.endIndex...]
        return String(decoding: ASCII.trimmed(text, blank: HTTPSyntax.isOptionalWhitespace), as: UTF8.self)
    }

    /// Parses a field that consists only of parameters, for example `Authentication-Info`. Returns nil if a parameter
    /// is invalid.
    static func parameters(in fieldValue: String) -> [String: String]? {
        var scanner = ParameterScanner(fieldValue.utf8.prefix(HTTPChallenge.fieldLimit + 1))
        guard scanner.rest.count <= HTTPChallenge.fieldLimit else { return nil }
        var parameters: [String: String] = [:]
        scanner.skipSeparators()
        while !scanner.isAtEnd {
            guard let name = scanner.word() else { return nil }
            scanner.skipSpaces()
            guard scanner.isAtAssignment, let value = scanner.value(of: name), scanner.isAtSeparator else { return nil }
            if parameters[name] == nil, parameters.count < HTTPChallenge.parameterLimit { parameters[name] = value }
            scanner.skipSeparators()
        }
        return parameters
    }
}
