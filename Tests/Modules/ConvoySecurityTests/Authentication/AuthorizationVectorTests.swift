import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySecurity

/// The examples of RFC 7616, RFC 2617 and RFC 7617.
@Suite(.enabled(if: ConformanceSuite.directory("auth") != nil, Comment(rawValue: ConformanceSuite.hint("auth"))))
struct AuthorizationVectorTests {
    private struct Vectors: Decodable {
        struct Digest: Decodable {
            let source, challenge, user, password, method, uri, nc, cnonce, qop, response: String
            let userhash: String?
        }
        struct Basic: Decodable { let source, user, password, authorization: String }
        let digest: [Digest]
        let basic: [Basic]
    }

    private static func vectors() throws -> Vectors {
        let directory = try #require(ConformanceSuite.directory("auth"))
        return try JSONDecoder().decode(Vectors.self, from: Data(contentsOf: directory.appendingPathComponent("rfc.json")))
    }

    @Test func `Digest reproduces the examples of the RFC`() throws {
        let vectors = try Self.vectors().digest
        #expect(vectors.count >= 4)
        for vector in vectors {
            let challenge = try #require(HTTPChallenge.parse([vector.challenge]).first.flatMap { DigestChallenge($0) })
            let count = try #require(UInt32(vector.nc, radix: 16))
            let value = try #require(
                challenge.authorization(
                    user: vector.user, password: vector.password, method: vector.method, uri: vector.uri, body: nil,
                    count: count, cnonce: vector.cnonce))
            let answer = try #require(HTTPChallenge.parse([value]).first?.parameters)
            #expect(answer["response"] == vector.response, "\(vector.source)")
            #expect(answer["nc"] == vector.nc && answer["qop"] == vector.qop, "\(vector.source)")
            #expect(answer["username"] == vector.userhash ?? vector.user, "\(vector.source)")
        }
    }

    @Test func `Basic reproduces the examples of the RFC`() throws {
        let vectors = try Self.vectors().basic
        #expect(vectors.count >= 2)
        for vector in vectors {
            let value = BasicAuthorization.value(user: vector.user, password: vector.password)
            #expect(value == vector.authorization, "\(vector.source)")
        }
    }
}
