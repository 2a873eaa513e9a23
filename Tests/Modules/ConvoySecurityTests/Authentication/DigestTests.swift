import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySecurity

/// The rules of RFC 7616 for a client's answer.
@Suite struct DigestTests {
    /// A response computed by another program, Python's hashlib, and the server's proof.
    struct Sample: Sendable, CustomTestStringConvertible {
        let algorithm, protection, response, proof: String
        var testDescription: String { "\(algorithm) \(protection)" }

        init(_ algorithm: String, _ protection: String, _ response: String, _ proof: String) {
            (self.algorithm, self.protection, self.response, self.proof) = (algorithm, protection, response, proof)
        }
    }

    static let samples = [
        Sample("MD5", "auth", "a79025fd0bc63777feec37328b2a2825", "d6f7e87b2d696621fa6060de464f23ce"),
        Sample("MD5", "auth-int", "55e449fc215f6fee43f484dd6cc36b8e", "4feeec3073091dba63e29b76945e65f8"),
        Sample("MD5", "", "1755ea5f7ec0d206b70fa3b2cb68c578", ""),
        Sample("MD5-sess", "auth", "3fda9efbd3e1222c4fb7fe15759ad44b", "7817e6e4d9ddb817f8d01bb8ebd7e05e"),
        Sample("MD5-sess", "auth-int", "238a54c9a52317bc0eb8b5975f5489c6", "c223373b3728b47bc5f0fa8d35fdbc99"),
        Sample(
            "SHA-256", "auth", "9051db6cc9df4b2f7e831643ef24393063d3d97bb67d12abd70befa8b998ae99",
            "8cd7a7f51f0f6b5acc7352fb50fb252ac8635720d872fb324a40433795c970c1"),
        Sample(
            "SHA-256", "auth-int", "01432ef7f1192feaf5248bb5da7f37a1b0f0f48e3cc7d5f6b9d496b20dd79b2e",
            "1d9789cfdfe6ef9b5a082b16fd38b52208c003f52728569cb774e097ca525c4e"),
        Sample(
            "SHA-256-sess", "auth", "afd1a81972679eba0812b9603df71094f0008dda340fb7fd4d2bb6d37cffef22",
            "cd60cbb178abdc85d99858ed14e3b5775652080fb39c8a6c5883137de29a7f5f"),
        Sample(
            "SHA-256-sess", "auth-int", "4d67a2778f996ed81684ab31b0cc39e143bfe2510e5178b2b23ed3e90cb968d0",
            "b769de7d6df38c3e45188ff7a6a7095cfa081cd6416ac070653b630047896f6f"),
        Sample(
            "SHA-512-256", "auth", "3c379cfae6422333384633c5450937e0705163aa283bf99e71cd6c17a4e79895",
            "389a16b9cf3dc823a0551103c5ec18793bd1a0fb22e702fa69a42819cd5a7a7d"),
        Sample(
            "SHA-512-256", "auth-int", "50a3bc0fb1b4c5bdf6c9fc97c66303f0728e24c207511437a6a2ca7e588b3905",
            "7d88c10f6d10a4b3eff5fb4b56d5f823e3c2edf8b7c3e6b761ed1e133ac23983"),
        Sample(
            "SHA-512-256-sess", "auth", "586c312695ec768c9e2ac1a402a1be1f3958dbdcb5ce3dd693899bf915a0713e",
            "517e0296decd1432752d59e1b58d830fd837baca1058645f195e6a5e9060ee21"),
        Sample(
            "SHA-512-256-sess", "auth-int", "b624b24b6ee190cc2b382889592827cad06a21c286603ce27a7ddd8f2041871f",
            "12735deb2780918609541d60f15b8a1be458f793b2e8f5471f44684ad979d97f"),
    ]

    private static let body = Data("hello world".utf8)

    private static func challenge(_ text: String) throws -> DigestChallenge {
        try #require(HTTPChallenge.parse(["Digest \(text)"]).first.flatMap { DigestChallenge($0) })
    }

    private static func challenge(of sample: Sample) throws -> DigestChallenge {
        let protection = sample.protection.isEmpty ? "" : ", qop=\"\(sample.protection)\""
        return try challenge(#"realm="a \"b\" \\c", nonce="N0nce/+=", algorithm=\#(sample.algorithm)"# + protection)
    }

    /// Returns the parameters of the answer, which has the same form as a challenge.
    private static func parameters(
        _ challenge: DigestChallenge, user: String = "Mufasa", uri: String = "/x?a=1", body: Data? = Data()
    ) throws -> [String: String] {
        let value = try #require(
            challenge.authorization(
                user: user, password: "Circle of Life", method: "POST", uri: uri, body: body, count: 10,
                cnonce: "0a4f113b"))
        let answer = try #require(HTTPChallenge.parse([value]).first)
        #expect(answer.scheme == "digest")
        return answer.parameters
    }

    @Test(arguments: samples) func `every algorithm and quality of protection matches other implementations`(
        sample: Sample
    ) throws {
        let answer = try Self.parameters(Self.challenge(of: sample), body: Self.body)
        #expect(answer["response"] == sample.response)
        #expect(answer["realm"] == #"a "b" \c"# && answer["nonce"] == "N0nce/+=" && answer["uri"] == "/x?a=1")
        #expect(answer["algorithm"] == sample.algorithm && answer["opaque"] == nil && answer["userhash"] == nil)
        let isOld = sample.protection.isEmpty
        #expect(answer["qop"] == (isOld ? nil : sample.protection) && answer["nc"] == (isOld ? nil : "0000000a"))
        #expect(answer["cnonce"] == (isOld ? nil : "0a4f113b"))
    }

    @Test(arguments: samples.filter { !$0.proof.isEmpty })
    func `only the proof of a server that knows the password is accepted`(sample: Sample) throws {
        let challenge = try Self.challenge(of: sample)
        func verifies(
            _ text: String, password: String = "Circle of Life", body: Data? = Self.body, count: UInt32 = 10
        ) throws -> Bool? {
            let info = try #require(DigestAuthenticationInfo(text))
            return challenge.verifies(
                info, user: "Mufasa", password: password, uri: "/x?a=1", body: body, count: count, cnonce: "0a4f113b")
        }
        let proof = #"qop=\#(sample.protection), rspauth="\#(sample.proof)""#
        #expect(try verifies(proof) == true)
        #expect(try verifies(proof + #", cnonce="0a4f113b", nc=0000000A"#) == true)
        #expect(try verifies(proof + #", cnonce="other""#) == false)
        #expect(try verifies(proof + ", nc=0000000b") == false)
        #expect(try verifies(proof, password: "Circle of Lice") == false)
        #expect(try verifies(proof, count: 11) == false)
        #expect(try verifies(proof, body: Data()) == (sample.protection == "auth"))
        #expect(try verifies(proof, body: nil) == (sample.protection == "auth" ? true : nil))
        #expect(try verifies(#"rspauth="""#) == nil)
        #expect(try verifies(#"qop=auth, rspauth="""#) == false)
        #expect(try verifies("nextnonce=x") == nil)
    }

    @Test func `the field Authentication-Info is parsed`() throws {
        let info = try #require(
            DigestAuthenticationInfo(#"nextnonce="a\"b" , qop=auth, rspauth="12", cnonce="c", nc=00000001,"#))
        #expect(info.nextNonce == #"a"b"# && info.protection == .auth && info.response == "12")
        #expect(info.cnonce == "c" && info.count == "00000001")
        #expect(DigestAuthenticationInfo("")?.nextNonce == nil)
        #expect(DigestAuthenticationInfo(#"nextnonce="""#)?.nextNonce == nil)
        for text in ["nextnonce", #"nextnonce="a"#, "=a", #"nextnonce="a"b"#, "nextnonce=\"a\u{1}\"", "@"] {
            #expect(DigestAuthenticationInfo(text) == nil, "\(text)")
        }
        #expect(DigestAuthenticationInfo("nextnonce=" + String(repeating: "a", count: 20_000)) == nil)
        let next = try Self.challenge("realm=r, nonce=old, qop=auth, opaque=o").replacingNonce(with: "new")
        #expect(next.nonce == "new" && next.realm == "r" && next.opaque == "o")
    }

    @Test(arguments: [
        "realm=x, qop=auth", #"realm=x, nonce="", qop=auth"#, "nonce=n, algorithm=SHA-1, qop=auth",
        "nonce=n, qop=auth-conf", "nonce=n, algorithm=SHA-256", "nonce=n, algorithm=MD5-sess",
        "nonce=n, algorithm=SHA-512-256-sess", #"nonce=n, algorithm="", qop=auth"#, "nonce=n, algorithm=SHA-512, qop=auth",
    ])
    func `an unanswerable challenge is ignored`(text: String) throws {
        let challenge = try #require(HTTPChallenge.parse(["Digest \(text)"]).first)
        #expect(DigestChallenge(challenge) == nil)
    }

    @Test func `a challenge of another scheme is ignored`() {
        #expect(DigestChallenge(HTTPChallenge(scheme: "basic", parameters: ["nonce": "n"])) == nil)
        #expect(DigestChallenge(HTTPChallenge(scheme: "digest", token68: "abc")) == nil)
    }

    @Test func `all parameters are parsed case-insensitively`() throws {
        let challenge = try Self.challenge(
            #"realm=r, nonce=n, algorithm=sha-256-SESS, qop="AUTH-INT foo,auth", userhash=TRUE, charset=utf-8, stale=True, "#
                + #"opaque="o", domain="/a  http://b/c""#)
        #expect(challenge.algorithm == .sha256Session && challenge.protections == [.auth, .authInt])
        #expect(challenge.hashesUser && challenge.isUTF8 && challenge.isStale && challenge.opaque == "o")
        #expect(challenge.domain == ["/a", "http://b/c"])
        let plain = try Self.challenge("nonce=n, userhash=false, stale=no, charset=latin1")
        #expect(plain.realm == "" && plain.algorithm == .md5 && plain.protections.isEmpty && plain.domain.isEmpty)
        #expect(!plain.hashesUser && !plain.isUTF8 && !plain.isStale && plain.opaque == nil)
    }

    @Test func `auth is preferred, and auth-int needs the body`() throws {
        let both = try Self.challenge(#"nonce=n, qop="auth-int,auth""#)
        #expect(try Self.parameters(both, body: Self.body)["qop"] == "auth")
        #expect(try Self.parameters(both, body: nil)["qop"] == "auth")
        let only = try Self.challenge("nonce=n, qop=auth-int")
        #expect(try Self.parameters(only, body: Self.body)["qop"] == "auth-int")
        #expect(
            only.authorization(user: "a", password: "b", method: "GET", uri: "/", body: nil, count: 1, cnonce: "c") == nil)
    }

    @Test func `parameters that the server did not send are not sent back`() throws {
        let answer = try Self.parameters(Self.challenge("nonce=n, qop=auth"))
        #expect(answer["algorithm"] == nil && answer["opaque"] == nil && answer["userhash"] == nil)
        let full = try Self.parameters(Self.challenge(#"nonce=n, qop=auth, algorithm=md5, opaque="a\"b""#))
        #expect(full["algorithm"] == "md5" && full["opaque"] == #"a"b"#)
    }

    @Test func `a user name is quoted`() throws {
        let answer = try Self.parameters(Self.challenge("nonce=n, qop=auth"), user: #"a"b\c, d="#)
        #expect(answer["username"] == #"a"b\c, d="#)
    }

    @Test func `a non-ASCII user name is encoded by RFC 8187 if the server accepts UTF-8`() throws {
        let utf8 = try Self.challenge("nonce=n, qop=auth, charset=UTF-8")
        let answer = try Self.parameters(utf8, user: "Jäsøn Doe*'%!")
        #expect(answer["username*"] == "UTF-8''J%C3%A4s%C3%B8n%20Doe%2A%27%25!" && answer["username"] == nil)
        // The letter and its accent become one character, as required by RFC 7616.
        #expect(try Self.parameters(utf8, user: "Ja\u{308}søn Doe*'%!") == answer)
        #expect(try Self.parameters(utf8, user: "Doe")["username"] == "Doe")
        let unknown = try Self.parameters(Self.challenge("nonce=n, qop=auth"), user: "Jäsøn")
        #expect(unknown["username"] == "Jäsøn" && unknown["username*"] == nil)
    }

    @Test func `a server that requests a hashed user name does not receive the name`() throws {
        let challenge = try Self.challenge("realm=r, nonce=n, qop=auth, userhash=true, algorithm=SHA-256, charset=UTF-8")
        let answer = try Self.parameters(challenge, user: "Jäsøn")
        #expect(answer["username"] == HashFunction.sha256.hexadecimalDigest(of: "Jäsøn:r") && answer["userhash"] == "true")
        #expect(answer["username*"] == nil)
    }

    @Test(arguments: ["a\nb", "a\rb", "a\u{0}b", "\u{7F}", "a\u{85}b", "\t"])
    func `a value that cannot be sent yields no response`(text: String) throws {
        let challenge = try Self.challenge("nonce=n, qop=auth")
        func answer(user: String = "u", password: String = "p", uri: String = "/", cnonce: String = "c") -> String? {
            challenge.authorization(
                user: user, password: password, method: "GET", uri: uri, body: nil, count: 1, cnonce: cnonce)
        }
        #expect(answer() != nil)
        #expect(answer(user: text) == nil && answer(password: text) == nil && answer(cnonce: "") == nil)
        guard text != "\t", !text.contains("\u{85}") else { return }
        #expect(answer(uri: text) == nil && answer(cnonce: text) == nil)
    }

    @Test func `the strongest algorithm is chosen, or the first of equal ones`() throws {
        func strongest(_ algorithms: String...) throws -> DigestAlgorithm? {
            let lines = algorithms.map { "Digest nonce=n, qop=auth, algorithm=\($0)" }
            return DigestChallenge.strongest(of: HTTPChallenge.parse(["Basic realm=x"] + lines))?.algorithm
        }
        #expect(try strongest() == nil && strongest("SHA-1") == nil)
        #expect(try strongest("MD5", "SHA-256", "SHA-512-256", "SHA-1") == .sha512Over256)
        #expect(try strongest("SHA-256", "MD5") == .sha256)
        #expect(try strongest("MD5", "SHA-256-sess", "SHA-256") == .sha256Session)
        #expect(try strongest("SHA-256", "SHA-256-sess") == .sha256)
    }

    @Test func `a nonce counts its requests across threads`() async throws {
        let nonce = DigestNonce(try Self.challenge("nonce=n, qop=auth"))
        let counts = await withTaskGroup(of: [UInt32].self) { group in
            for _ in 0..<8 { group.addTask { (0..<500).map { _ in nonce.nextCount() } } }
            return await group.reduce(into: Set<UInt32>()) { $0.formUnion($1) }
        }
        #expect(counts == Set(1...4_000))
    }

    @Test func `each request has its own cnonce, unless the cnonce is part of the key`() throws {
        let nonce = DigestNonce(try Self.challenge("nonce=n, qop=auth"))
        let numbers = (0..<100).map { _ in nonce.makeCnonce() }
        #expect(Set(numbers).count == 100)
        #expect(numbers.allSatisfy { $0.utf8.count == 32 && $0.utf8.allSatisfy(ASCII.isHexadecimal) })
        let kept = DigestNonce(try Self.challenge("nonce=n, qop=auth, algorithm=MD5-sess"))
        #expect(Set((0..<10).map { _ in kept.makeCnonce() }).count == 1)
        #expect(kept.makeCnonce() != DigestNonce(kept.challenge).makeCnonce())
    }
}
