import ConvoySupport

/// One challenge of a `WWW-Authenticate` or `Proxy-Authenticate` field (RFC 9110, section 11.3).
package struct HTTPChallenge: Sendable, Hashable {
    /// The name of the scheme in lower case; it may be unknown.
    package let scheme: String
    /// The text after the scheme, if it is not a list of parameters: for instance a Kerberos message in base64.
    package let token68: String?
    /// The values of the parameters, without quotes and escapes, by their names in lower case. The first value of a
    /// repeated name counts. No value contains control characters.
    package let parameters: [String: String]

    package init(scheme: String, token68: String? = nil, parameters: [String: String] = [:]) {
        self.scheme = scheme
        self.token68 = token68
        self.parameters = parameters
    }

    /// The method; nil for an unknown scheme.
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
    /// A damaged challenge is dropped, as half of one might ask for a weaker algorithm than the server did; those after
    /// it are read. Two common errors of servers are accepted: values without the quotes that they need, and no comma
    /// after a quoted value. An unterminated quoted string damages the rest of its line.
    ///
    /// - Returns: at most 32 challenges of at most 64 parameters each. Only the first 16 KiB of a line are read,
    ///   without the challenge that is cut.
    package static func parse(_ fieldValues: [String]) -> [HTTPChallenge] {
        var challenges: [HTTPChallenge] = []
        for value in fieldValues {
            var parser = ChallengeParser(value)
            while challenges.count < countLimit, let challenge = parser.next() { challenges.append(challenge) }
        }
        return challenges
    }
}

/// Parses the challenges of one field line, element by element (RFC 9110, sections 5.6.1 and 11.3).
///
/// The commas between challenges and those between the parameters of one challenge look the same. An element is the start
/// of a challenge if it is a word alone, or a word followed by spaces and anything but "=".
struct ChallengeParser {
    private var scanner: ParameterScanner
    /// The parts of the current challenge.
    private var scheme: String?
    private var token68: String?
    private var parameters: [String: String] = [:]
    private var isDamaged = false
    /// Whether the line is longer than what is read of it.
    private let isCut: Bool

    init(_ fieldValue: String) {
        let bytes = fieldValue.utf8.prefix(HTTPChallenge.fieldLimit + 1)
        isCut = bytes.count > HTTPChallenge.fieldLimit
        scanner = ParameterScanner(bytes.prefix(HTTPChallenge.fieldLimit))
    }

    /// The next challenge that is not damaged; nil at the end.
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
                // A list in `qop` without the quotes that it needs: `qop=auth,auth-int`.
                if scanner.isAtSeparator, parameters["qop"] != nil, Self.protections.contains(word) { continue }
                let last = finish()
                begin(word)
                if let last { return last }
            } else {
                damage()
            }
        }
    }

    /// The values of `qop`, to tell them from schemes.
    private static let protections: Set = ["auth", "auth-int"]

    private mutating func finish() -> HTTPChallenge? {
        defer { (scheme, token68, parameters, isDamaged) = (nil, nil, [:], false) }
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
            // A comma is missing. A parameter must follow, as a challenge would begin an element.
            guard let following = scanner.word() else { break }
            scanner.skipSpaces()
            guard scanner.isAtAssignment else { break }
            name = following
        }
        damage()
    }

    /// Drops the challenge to which this element belongs.
    private mutating func damage() {
        isDamaged = true
        scanner.skipElement()
    }
}

/// Reads the words and parameters of a field value from left to right. Methods return nil for what is not there.
struct ParameterScanner {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: some Sequence<UInt8>) {
        rest = Array(bytes)[...]
    }

    var isAtEnd: Bool { rest.isEmpty }
    /// Whether an element of the list ends here.
    var isAtSeparator: Bool { rest.isEmpty || rest.first == UInt8(ascii: ",") }
    var isAtAssignment: Bool { rest.first == UInt8(ascii: "=") }

    /// Skips spaces and tabs; returns whether there were any.
    @discardableResult
    mutating func skipSpaces() -> Bool {
        let count = rest.count
        rest = rest.drop(while: HTTPSyntax.isOptionalWhitespace)
        return rest.count < count
    }

    /// Skips commas and the space around them, and with them empty elements.
    mutating func skipSeparators() {
        rest = rest.drop { $0 == UInt8(ascii: ",") || HTTPSyntax.isOptionalWhitespace($0) }
    }

    /// Skips the rest of an element, to a comma outside quoted strings.
    mutating func skipElement() {
        rest = rest[(HTTPSyntax.firstSeparator(",", in: rest) ?? rest.endIndex)...]
    }

    /// A token (RFC 9110, section 5.6.2) in lower case.
    mutating func word() -> String? {
        let word = rest.prefix(while: HTTPSyntax.isTokenByte)
        guard !word.isEmpty else { return nil }
        rest = rest[word.endIndex...]
        return String(decoding: word.map(ASCII.lowercased), as: UTF8.self)
    }

    /// The rest of an element, if it has the form of a `token68` (RFC 9110, section 11.2).
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

    /// The value of a parameter whose "=" comes next, and the spaces after it.
    ///
    /// - Returns: nil for a value that is not a token where it must be one, or that has control characters or no
    ///   closing quote.
    mutating func value(of name: String) -> String? {
        rest = rest.dropFirst()
        skipSpaces()
        let value = rest.first == UInt8(ascii: "\"") ? quotedString() : unquotedText(withSpaces: name == "realm")
        skipSpaces()
        return value
    }

    /// A quoted string without its quotes and escapes; nil if it is not closed, or contains control characters.
    private mutating func quotedString() -> String? {
        let (text, isClosed) = HTTPSyntax.quotedString(&rest)
        return isClosed && HTTPSyntax.isFieldValue(text) ? String(decoding: text, as: UTF8.self) : nil
    }

    /// A value without quotes. Many servers send values that are not tokens, such as a nonce in base64.
    private mutating func unquotedText(withSpaces: Bool) -> String? {
        let text = rest.prefix {
            $0 != UInt8(ascii: ",") && (withSpaces || !HTTPSyntax.isOptionalWhitespace($0))
        }
        guard HTTPSyntax.isFieldValue(text), !text.contains(UInt8(ascii: "\"")) else { return nil }
        rest = rest[text.endIndex...]
        return String(decoding: ASCII.trimmed(text, blank: HTTPSyntax.isOptionalWhitespace), as: UTF8.self)
    }

    /// The parameters of a field that is only a list of parameters, such as `Authentication-Info`; nil if one is
    /// damaged.
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
