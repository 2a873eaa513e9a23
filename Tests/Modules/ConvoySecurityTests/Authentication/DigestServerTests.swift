import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySecurity

/// Answers to challenges that Apache and Squid accept, and their responses.
@Suite struct DigestServerTests {
    private static let apacheHint: Comment = "not installed: \(ApacheServer.installHint)"
    private static let squidHint: Comment = "not installed: \(SquidProxy.installHint)"

    private static func challenge(_ answer: RawClient.Response, in field: String) throws -> DigestChallenge {
        let values = answer.headers.filter { $0.name == field }.map(\.value)
        return try #require(DigestChallenge.strongest(of: HTTPChallenge.parse(values)))
    }

    @Test(
        .enabled(if: ApacheServer.isInstalled, apacheHint),
        arguments: [("ada", "secret"), ("jäsøn", "päss:wörd"), (#"a"b\c"#, #"q"\"#)])
    func `Apache accepts the response and proves that it knows the password`(user: String, password: String) throws {
        let server = try ApacheServer(realm: "a realm, qop=none", users: [user: password])
        let client = try RawClient(port: server.port)
        let target = "/digest/small?a=1&b=%22"
        let nonce = DigestNonce(try Self.challenge(client.exchange("GET", target), in: "www-authenticate"))
        #expect(nonce.challenge.realm == "a realm, qop=none")
        for method in ["GET", "POST", "GET"] {
            let (count, cnonce) = (nonce.nextCount(), nonce.makeCnonce())
            let value = try #require(
                nonce.challenge.authorization(
                    user: user, password: password, method: method, uri: target, body: nil, count: count, cnonce: cnonce))
            let answer = try client.exchange(
                method, target, headers: ["Authorization: \(value)"], body: method == "POST" ? Data("body".utf8) : nil)
            #expect(answer.status == 200 && answer.text == "hello world", "\(server.log)")
            let info = try #require(answer["Authentication-Info"].flatMap { DigestAuthenticationInfo($0) })
            func verifies(_ password: String) -> Bool? {
                nonce.challenge.verifies(
                    info, user: user, password: password, uri: target, body: answer.body, count: count, cnonce: cnonce)
            }
            #expect(verifies(password) == true && verifies("other") == false)
        }
        server.stop()
    }

    @Test(.enabled(if: ApacheServer.isInstalled, apacheHint))
    func `Apache rejects a wrong password and a response to another request`() throws {
        let server = try ApacheServer()
        let client = try RawClient(port: server.port)
        let challenge = try Self.challenge(client.exchange("GET", "/digest/small"), in: "www-authenticate")
        func status(_ method: String, _ password: String, uri: String = "/digest/small") throws -> Int {
            let value = try #require(
                challenge.authorization(
                    user: "ada", password: password, method: method, uri: uri, body: nil, count: 1, cnonce: "c"))
            return try client.exchange("GET", "/digest/small", headers: ["Authorization: \(value)"]).status
        }
        #expect(try status("GET", "secret") == 200 && status("GET", "wrong") == 401 && status("POST", "secret") == 401)
        #expect(try status("GET", "secret", uri: "/digest/other") == 400)
    }

    @Test(.enabled(if: ApacheServer.isInstalled, apacheHint))
    func `Apache announces the next nonce and reports an old one as stale`() throws {
        let server = try ApacheServer(nonceLifetime: 0)
        let client = try RawClient(port: server.port)
        var challenge = try Self.challenge(client.exchange("GET", "/digest/small"), in: "www-authenticate")
        func answer(_ challenge: DigestChallenge) throws -> RawClient.Response {
            let value = try #require(
                challenge.authorization(
                    user: "ada", password: "secret", method: "GET", uri: "/digest/small", body: nil, count: 1,
                    cnonce: "c"))
            return try client.exchange("GET", "/digest/small", headers: ["Authorization: \(value)"])
        }
        let first = challenge
        for _ in 0..<3 {
            let accepted = try answer(challenge)
            #expect(accepted.status == 200)
            let info = try #require(accepted["Authentication-Info"].flatMap { DigestAuthenticationInfo($0) })
            let next = try #require(info.nextNonce)
            #expect(next != challenge.nonce)
            challenge = challenge.replacingNonce(with: next)
        }
        let refused = try answer(first)
        #expect(refused.status == 401)
        #expect(try Self.challenge(refused, in: "www-authenticate").isStale)
    }

    @Test(.enabled(if: SquidProxy.isInstalled, squidHint))
    func `Squid accepts the response, also for a tunnel`() throws {
        let proxy = try SquidProxy()
        for (method, target) in [("GET", "http://127.0.0.1:1/x"), ("CONNECT", "127.0.0.1:1")] {
            let client = try RawClient(port: proxy.port)
            let asked = try client.exchange(method, target)
            let challenge = try Self.challenge(asked, in: "proxy-authenticate")
            let value = try #require(
                challenge.authorization(
                    user: "ada", password: "secret", method: method, uri: target, body: nil, count: 1,
                    cnonce: DigestNonce(challenge).makeCnonce()))
            // No server listens at this port, which Squid detects after accepting the client.
            let answer = try client.exchange(method, target, headers: ["Proxy-Authorization: \(value)"])
            #expect(asked.status == 407 && answer.status == 503, "\(method): \(answer.statusLine)")
        }
    }
}
