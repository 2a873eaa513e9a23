import ConvoySupport

/// Reads the challenges of one field line, element by element of its list (RFC 9110, sections 5.6.1 and 11.3).
///
/// The commas between challenges and those between the parameters of one challenge look the same. An element is the start
/// of a challenge if it is a word alone, or a word followed by spaces and anything but "=".
struct ChallengeParser {
    private var scanner: ParameterScanner
    /// The challenge that is being read.
    private var scheme: String?
    private var token68: String?
    private var parameters: [String: String] = [:]
    private var isDamaged = false
    /// Whether the line goes on after what is read of it.
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
                // Only its quotes are missing: `qop=auth,auth-int`.
                if scanner.isAtSeparator, parameters["qop"] != nil, Self.protections.contains(word) { continue }
                let last = finish()
                begin(word)
                if let last { return last }
            } else {
                damage()
            }
        }
    }

    /// The values of `qop`, which are no schemes.
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
            // A comma is missing. What follows can only be a parameter: a challenge begins an element.
            guard let following = scanner.word() else { break }
            scanner.skipSpaces()
            guard scanner.isAtAssignment else { break }
            name = following
        }
        damage()
    }

    /// Leaves out the challenge to which this element belongs.
    private mutating func damage() {
        isDamaged = true
        scanner.skipElement()
    }
}
