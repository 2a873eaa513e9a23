import ConvoyCache
import ConvoyOperations
import ConvoySecurity
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

/// Tests that servers that claim in `Authentication-Info` to know the password (RFC 7616, section 3.5) are accepted
/// only if their proof is correct.
@Suite struct DigestProofTests {
    /// A function that returns the server's `Authentication-Info` for the parameters of an accepted request.
    typealias Proof = @Sendable (_ parameters: [String: String]) -> String?

    private static func hash(_ text: String, _ algorithm: ChecksumAlgorithm) -> String {
        let digest = MessageDigest(algorithm)
        digest.update(Data(text.utf8))
        return digest.value()?.map { String(format: "%02x", $0) }.joined() ?? ""
    }

    /// Returns the parameters of `Authorization`, which contain no commas or escapes here.
    private static func parameters(_ field: String) -> [String: String] {
        let pairs = field.dropFirst("Digest ".count).split(separator: ", ").map { $0.split(separator: "=", maxSplits: 1) }
        return Dictionary(
            pairs.map { ("\($0[0])", $0[1].trimmingCharacters(in: CharacterSet(charactersIn: "\""))) }
        ) { $1 }
    }

    /// Returns the correct proof of a server that knows the password, as defined in RFC 7616.
    private static func rspauth(_ p: [String: String], password: String = "secret", qop: String = "auth") -> String {
        let name = p["algorithm"] ?? "MD5"
        let algorithm = name.hasPrefix("MD5") ? ChecksumAlgorithm.md5 : .sha256
        func get(_ name: String) -> String { p[name] ?? "" }
        var key = hash("\(get("username")):\(get("realm")):\(password)", algorithm)
        if name.hasSuffix("-sess") { key = hash("\(key):\(get("nonce")):\(get("cnonce"))", algorithm) }
        let target = hash(":\(get("uri"))" + (qop == "auth-int" ? ":" + hash("let in", algorithm) : ""), algorithm)
        return hash("\(key):\(get("nonce")):\(get("nc")):\(get("cnonce")):\(qop):\(target)", algorithm)
    }

    private static let right: Proof = { p in
        #"rspauth="\#(rspauth(p))", qop=auth, cnonce="\#(p["cnonce"] ?? "")", nc=\#(p["nc"] ?? "")"#
    }
    private static let wrong: Proof = { #"rspauth="\#(rspauth($0, password: "guess"))", qop=auth"# }

    private func server(_ challenge: String, _ proof: @escaping Proof) throws -> AskingServer {
        let asking = try AskingServer()
        asking.route("/*") { request, _ in
            guard let field = request.authorizations.first, field.hasPrefix("Digest ") else {
                return .asking("Digest realm=\"all\", nonce=\"abc\", \(challenge)")
            }
            if request.path == "/from" { return .redirect(to: "/to") }
            let response = TestServer.Response.text("let in")
            return proof(Self.parameters(field)).map { response.header("Authentication-Info", $0) } ?? response
        }
        return asking
    }

    private func failure(_ operation: HTTPRequestOperation) -> ResponseAuthenticationFailure? {
        (operation.error as? URLError)?.responseAuthenticationFailure
    }

    @Test(arguments: ["", ", algorithm=MD5-sess", ", algorithm=SHA-256", ", algorithm=SHA-256-sess"])
    func `a valid proof is accepted, and an invalid one fails the operation`(algorithm: String) async throws {
        let proves = try server("qop=\"auth\"\(algorithm)", Self.right)
        for path in ["/a?b=1", "/c", "/c", "/from"] {
            let operation = AskingServer.operation(proves.url(path))
            try await operation.finished()
            #expect(operation.responseString == "let in")
        }
        let lies = try server("qop=\"auth, auth-int\"\(algorithm)", Self.wrong)
        for path in ["/a", "/from", "/a"] {
            let operation = AskingServer.operation(lies.url(path))
            await #expect(throws: URLError.self) { try await operation.finished() }
            #expect((operation.error as? URLError)?.code == .badServerResponse)
            let failure = try #require(self.failure(operation))
            #expect(failure.realm == "all" && failure.host == "127.0.0.1")
            #expect(operation.responseData == nil && operation.responseObject == nil)
        }
    }

    @Test func `a proof for another request is not accepted`() async throws {
        let proofs: [Proof] = [
            // The nonce count and the client nonce must be those of the request.
            { #"rspauth="\#(Self.rspauth($0))", qop=auth, cnonce="other""# },
            { #"rspauth="\#(Self.rspauth($0))", qop=auth, nc=00000009"# },
            { #"rspauth="\#(Self.rspauth($0.merging(["uri": "/other"]) { $1 }))", qop=auth"# },
            { #"rspauth="\#(Self.rspauth($0.merging(["nc": "00000009"]) { $1 }))", qop=auth"# },
            { #"rspauth="\#(Self.rspauth($0.merging(["nonce": "xyz"]) { $1 }))", qop=auth"# },
            // Echoing the response is not a proof.
            { #"rspauth="\#($0["response"] ?? "")", qop=auth"# }, { _ in #"rspauth="", qop=auth"# },
        ]
        for (number, proof) in proofs.enumerated() {
            let asking = try server("qop=\"auth\"", proof)
            let operation = AskingServer.operation(asking.url("/"))
            try? await operation.finished()
            #expect(failure(operation) != nil, "number \(number)")
        }
    }

    @Test func `a missing or unverifiable proof is accepted`() async throws {
        let proofs: [Proof] = [
            { _ in nil }, { _ in "" }, { _ in "nextnonce=\"def\"" }, { _ in "damaged=\"" }, { _ in "@" },
            { #"rspauth="\#(Self.rspauth($0))""# },
            { #"rspauth="\#(Self.rspauth($0).uppercased())", qop=AUTH"# },
            // A proof that includes the body is not checked, because the body is not kept for hashing.
            { #"rspauth="\#(Self.rspauth($0, qop: "auth-int"))", qop=auth-int"# },
        ]
        for (number, proof) in proofs.enumerated() {
            let asking = try server("qop=\"auth\"", proof)
            for _ in 0..<2 {
                let operation = AskingServer.operation(asking.url("/"))
                try await operation.finished()
                #expect(operation.responseString == "let in", "number \(number)")
            }
        }
        // The proof is not compared for a challenge of RFC 2069, or if the hash includes the body.
        for challenge in ["opaque=\"x\"", "qop=\"auth-int\""] {
            let asking = try server(challenge) { _ in "rspauth=\"no\", qop=auth" }
            let operation = AskingServer.operation(asking.url("/"))
            try await operation.finished()
            #expect(operation.responseString == "let in")
        }
        // The proof is also not compared if no challenge was sent.
        let open = try AskingServer()
        open.route("/") { _, _ in .text("open").header("Authentication-Info", "rspauth=\"no\", qop=auth") }
        let operation = AskingServer.operation(open.url("/"))
        try await operation.finished()
        #expect(operation.responseString == "open")
    }

    @Test func `no body bytes are delivered, and the request is not retried`() async throws {
        let lies = try server("qop=\"auth\"", Self.wrong)
        let operation = AskingServer.operation(lies.url("/"))
        operation.retryPolicy = RetryPolicy(maximumRetryCount: 3)
        let output = OutputStream.toMemory()
        operation.outputStream = output
        try? await operation.finished()
        #expect(failure(operation) != nil)
        let written = output.property(forKey: .dataWrittenToMemoryStreamKey) as? Data
        #expect(written?.isEmpty != false)
        #expect(lies.server.requests.count == 2)
    }

    @Test func `a credential for a server without a valid proof is neither stored nor sent preemptively`() async throws {
        let lies = try server("qop=\"auth\"", Self.wrong)
        let store = CredentialStore()
        for _ in 0..<2 {
            let operation = AskingServer.operation(lies.url("/"), credential: nil)
            operation.credentialStore = store
            operation.authenticationChallengeHandler = { _, challenge, answer in
                #expect(challenge.proposedCredential == nil)
                answer(.useCredential(AskingServer.ada))
            }
            try? await operation.finished()
            #expect(failure(operation) != nil)
        }
        // Each operation began with a request without credentials.
        #expect(lies.authorizations("/").map { $0 == "none" } == [true, false, true, false])
    }

    @Test func `the proof in a cached response is not verified`() async throws {
        let asking = try AskingServer()
        asking.route("/") { request, _ in
            guard let field = request.authorizations.first, field.hasPrefix("Digest ") else {
                return .asking("Digest realm=\"all\", nonce=\"abc\", qop=\"auth\"")
            }
            if request.headers["If-None-Match"] != nil { return .status(304).header("ETag", "\"1\"") }
            return .text("let in").header("ETag", "\"1\"").header("Cache-Control", "private, no-cache")
                .header("Authentication-Info", Self.right(Self.parameters(field)) ?? "")
        }
        let cache = HTTPCache()
        for _ in 0..<3 {
            let operation = AskingServer.operation(asking.url("/"))
            operation.cache = cache
            try await operation.finished()
            #expect(operation.responseString == "let in")
        }
        #expect(asking.server.requests.contains { $0.headers["If-None-Match"] != nil })
    }
}
