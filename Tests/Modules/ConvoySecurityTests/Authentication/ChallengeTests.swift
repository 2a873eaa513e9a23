import ConvoySupport
import ConvoyTestSupport
import Testing

@testable import ConvoySecurity

/// Well-formed and malformed challenges from servers.
@Suite struct ChallengeTests {
    /// A field line, and the expected challenges.
    struct Line: Sendable, CustomTestStringConvertible {
        let text: String
        let challenges: [HTTPChallenge]
        var testDescription: String { text }

        init(_ text: String, _ challenges: HTTPChallenge...) {
            self.text = text
            self.challenges = challenges
        }
    }

    private static func basic(_ realm: String) -> HTTPChallenge {
        HTTPChallenge(scheme: "basic", parameters: ["realm": realm])
    }

    static let good = [
        Line(#"Basic realm="WallyWorld""#, basic("WallyWorld")),
        // The example of RFC 9110, section 11.6.1.
        Line(
            #"Basic realm="simple", Newauth realm="apps", type=1, title="Login to \"apps\"""#, basic("simple"),
            HTTPChallenge(
                scheme: "newauth", parameters: ["realm": "apps", "type": "1", "title": #"Login to "apps""#])),
        Line("Negotiate", HTTPChallenge(scheme: "negotiate")),
        Line("NTLM, Negotiate", HTTPChallenge(scheme: "ntlm"), HTTPChallenge(scheme: "negotiate")),
        Line("NTLM TlRMTVNTUAACAAAA==", HTTPChallenge(scheme: "ntlm", token68: "TlRMTVNTUAACAAAA==")),
        Line(
            "Negotiate YII+/x-._~= , Basic realm=a", HTTPChallenge(scheme: "negotiate", token68: "YII+/x-._~="),
            basic("a")),
        Line(#"bAsIc REALM="x""#, basic("x")),
        Line(#",, Basic realm="x" ,\#t, Negotiate,"#, basic("x"), HTTPChallenge(scheme: "negotiate")),
        Line(#"Basic   realm  =\#t"x""#, basic("x")),
        Line(#"Basic realm="a, b", Basic realm="Digest x=\"y\"""#, basic("a, b"), basic(#"Digest x="y""#)),
        Line(#"Basic realm="a\\b\c""#, basic(#"a\bc"#)),
        Line(#"Basic realm="""#, basic("")),
        Line(#"Basic realm="first", realm="second""#, basic("first")),
        Line(#"Basic realm="Bücher 書""#, basic("Bücher 書")),
        Line(
            #"Basic realm="x", charset="UTF-8""#,
            HTTPChallenge(scheme: "basic", parameters: ["realm": "x", "charset": "UTF-8"])),
        Line(
            #"Bearer error="invalid_token", error_description="expired""#,
            HTTPChallenge(scheme: "bearer", parameters: ["error": "invalid_token", "error_description": "expired"])),
        Line(""), Line("  "), Line(",,,"),
    ]

    @Test(arguments: good) func `a field line is parsed by RFC 9110`(line: Line) {
        #expect(HTTPChallenge.parse([line.text]) == line.challenges)
    }

    static let lenient = [
        Line("Basic realm=My Books", basic("My Books")),
        Line("Basic realm=My Books, Negotiate", basic("My Books"), HTTPChallenge(scheme: "negotiate")),
        Line("Basic realm='x'", basic("'x'")),
        Line("Basic realm=http://example.com/a b", basic("http://example.com/a b")),
        Line(
            "Digest realm=a, nonce=N0nce/+==, qop=auth",
            HTTPChallenge(scheme: "digest", parameters: ["realm": "a", "nonce": "N0nce/+==", "qop": "auth"])),
        Line(
            #"Digest realm="a" nonce="b"\#tqop=auth, opaque="c""#,
            HTTPChallenge(scheme: "digest", parameters: ["realm": "a", "nonce": "b", "qop": "auth", "opaque": "c"])),
        Line(
            #"Digest realm="a", qop=auth,auth-int, nonce="b""#,
            HTTPChallenge(scheme: "digest", parameters: ["realm": "a", "qop": "auth", "nonce": "b"])),
    ]

    @Test(arguments: lenient) func `challenges of real servers are parsed`(line: Line) {
        #expect(HTTPChallenge.parse([line.text]) == line.challenges)
    }

    static let bad = [
        #"Digest realm="x", nonce="a"#, #"Digest realm="x", =5, nonce="a""#, #"Digest realm="x"y, nonce="a""#,
        #"Digest realm="x" Basic realm="y""#, #"Digest realm="x"Basic"#, #"Digest "x""#, #"Digest @, nonce="a""#,
        #"Digest realm="x", nonce=a"b", qop=auth"#, #"Digest realm="x", nonce="a\"#, "Digest realm=\"a\u{1}b\"",
        "Digest realm=\"a\r\nX: y\"", "Digest realm=a\u{0}b", "Digest abc==, realm=x", #"Digest realm x="y""#,
        #"Digest realm="x", nonce=a b"#, #"realm="x""#, #"="x""#, #""Basic""#, "@@@", "Digest/x y=z", "\u{7F}",
        "Bäsic realm=x",
    ]

    @Test(arguments: bad) func `an invalid challenge is skipped, and the next one is parsed`(text: String) {
        #expect(HTTPChallenge.parse([text]).filter { $0.scheme == "digest" } == [])
        #expect(HTTPChallenge.parse([text, #"Basic realm="x""#]).last == Self.basic("x"))
        // Append a challenge to the same line, unless a quoted string is left open.
        guard !text.hasSuffix(#"nonce="a"#), !text.hasSuffix(#"\"#) else { return }
        let challenges = HTTPChallenge.parse([#"Negotiate, \#(text), Basic realm="y""#])
        #expect(challenges.last == Self.basic("y"))
        #expect(challenges.filter { $0.scheme == "digest" } == [])
    }

    @Test func `field lines are parsed in order and separately`() {
        let challenges = HTTPChallenge.parse(["Digest realm=x", #"nonce="y", Basic realm="z""#, "NTLM"])
        #expect(challenges.map(\.scheme) == ["digest", "basic", "ntlm"])
        #expect(challenges.first?.parameters == ["realm": "x"])
    }

    @Test func `the name of a method is case-insensitive`() {
        let lines = ["BASIC a=b", "bearer a=b", "Digest a=b", "NTLM", "Negotiate", "Hawk"]
        #expect(HTTPChallenge.parse(lines).map(\.method) == [.basic, .bearer, .digest, .ntlm, .negotiate, nil])
    }

    @Test func `at most 32 challenges are parsed`() {
        let many = Array(repeating: "Basic realm=x, Negotiate", count: 40)
        #expect(HTTPChallenge.parse(many).count == 32)
        #expect(HTTPChallenge.parse([many.joined(separator: ",")]).count == 32)
    }

    @Test func `a challenge has at most 64 parameters`() {
        let names = (0..<100).map { "p\($0)=v" }.joined(separator: ",")
        let challenges = HTTPChallenge.parse(["Basic \(names), Negotiate"])
        #expect(challenges.map(\.scheme) == ["basic", "negotiate"])
        #expect(challenges.first?.parameters.count == 64 && challenges.first?.parameters["p63"] == "v")
    }

    @Test func `a line is truncated at 16 KiB, and the truncated challenge is skipped`() {
        let space = String(repeating: " ", count: (16 << 10) - "Basic realm=x,Digest nonce=12".utf8.count)
        let whole = HTTPChallenge.parse(["Basic realm=x,\(space)Digest nonce=12", "NTLM"])
        #expect(whole.map(\.scheme) == ["basic", "digest", "ntlm"])
        let cut = HTTPChallenge.parse(["Basic realm=x,\(space)Digest nonce=123", "NTLM"])
        #expect(cut.map(\.scheme) == ["basic", "ntlm"])
    }

    @Test func `any text yields bounded challenges without control characters`() {
        var generator = SplitMix64.printingSeed()
        let pieces = [
            "Basic", "Digest", "NTLM", " ", " ", ",", "=", "\"", "\\", "realm", "nonce", "qop", "auth-int", "a", "==", "\t",
            "\u{0}", "\r\n", "é", "\u{7F}", "/", "realm=\"x\"", "algorithm=MD5",
        ]
        for _ in 0..<PropertyBudget.rounds(2_000) {
            let lines = (0..<Int.random(in: 0...3, using: &generator)).map { _ in
                (0..<Int.random(in: 0...20, using: &generator)).map { _ in pieces.randomElement(using: &generator) ?? "" }
                    .joined()
            }
            let challenges = HTTPChallenge.parse(lines)
            #expect(challenges.count <= HTTPChallenge.countLimit)
            for challenge in challenges {
                #expect(HTTPSyntax.isToken(challenge.scheme) && challenge.scheme == challenge.scheme.lowercased())
                #expect(challenge.parameters.count <= HTTPChallenge.parameterLimit)
                #expect(challenge.parameters.values.allSatisfy { HTTPSyntax.isFieldValue($0) })
                #expect(challenge.token68 == nil || challenge.parameters.isEmpty)
                _ = DigestChallenge(challenge)
            }
            // A valid challenge in its own line is always found.
            #expect(HTTPChallenge.parse(lines + [#"Negotiate"#]).last?.scheme == "negotiate")
        }
    }
}
