import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Authentication as verified by httpbin.
@Suite(.needsHttpbin) struct HttpbinAuthenticationTests {
    private func manager() throws -> HTTPRequestOperationManager {
        let manager = try Shared.manager()
        manager.credential = URLCredential(user: "ada", password: "p: ä,\"s", persistence: .forSession)
        manager.credentialStore = CredentialStore()
        return manager
    }

    private static let password = "p:%20%C3%A4,%22s"

    private struct Answer: Decodable { let authenticated: Bool }

    @Test func `Basic credentials are sent when requested`() async throws {
        let manager = try manager()
        let answer: Answer = try await manager.get("basic-auth/ada/\(Self.password)")
        #expect(answer.authenticated)
        // This endpoint does not request credentials.
        await #expect(throws: (any Error).self) { try await manager.get("hidden-basic-auth/ada/\(Self.password)") }
    }

    @Test(arguments: ["auth", "auth-int"], ["MD5", "SHA-256"])
    func `Digest agrees with httpbin`(protection: String, algorithm: String) async throws {
        let manager = try manager()
        manager.credential = URLCredential(user: "ada", password: "secret", persistence: .none)
        for _ in 0..<2 {
            let answer: Answer = try await manager.get("digest-auth/\(protection)/ada/secret/\(algorithm)")
            #expect(answer.authenticated)
        }
    }

    @Test func `a wrong password and an unknown algorithm result in a 401`() async throws {
        let manager = try manager()
        for path in ["digest-auth/auth/ada/other/MD5", "digest-auth/auth/ada/secret/SHA-512", "basic-auth/ada/other"] {
            let (refused, error) = try await manager.failure(.get, path)
            #expect(refused.statusCode == 401 && error != nil, "\(path)")
        }
    }

    @Test func `a bearer token from the handler answers the challenge`() async throws {
        let manager = try manager()
        manager.authenticationChallengeHandler = { _, challenge, answer in
            #expect(challenge.protectionSpace.method == .bearer && challenge.proposedCredential == nil)
            answer(.useToken("abc.DEF-123"))
        }
        struct Bearer: Decodable { let authenticated: Bool, token: String }
        let answer: Bearer = try await manager.get("bearer")
        #expect(answer.authenticated && answer.token == "abc.DEF-123")
    }
}
