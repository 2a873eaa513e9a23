import ConvoyOperations
import ConvoySecurity
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// Request bodies, no part of which is sent to an untrusted server.
@Suite struct RequestBodyTests {
    @Test(arguments: [TestServer.TLS.Version.tls12, .tls13])
    func `neither credentials nor a body are sent before the server is trusted`(
        version: TestServer.TLS.Version
    ) async throws {
        let certificate = try TestCertificate.root().issue(.server("localhost"))
        var tls = TestServer.TLS(certificate)
        (tls.minimumVersion, tls.maximumVersion) = (version, version)
        let server = try TestServer(tls: tls)
        server.echo(at: "/")
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates([try Certificate(certificate.root)])
        var pinned = policy
        pinned.pinningMode = .publicKey
        pinned.publicKeyPins = [try PublicKeyPin(TestCertificate.root().publicKeyPin)]
        for (policy, isTrusted) in [(pinned, false), (.default, false), (policy, true)] {
            var request = URLRequest(url: server.url("/", host: "localhost"))
            request.httpMethod = "POST"
            request.httpBody = Data(count: 1 << 20)
            request.setValue("Bearer secret", forHTTPHeaderField: "Authorization")
            let operation = HTTPRequestOperation(request: request)
            operation.securityPolicy = policy
            try? await operation.finished()
            let error = operation.error as? URLError
            #expect((error == nil) == isTrusted, "\(error as Any)")
            #expect((server.statistics.plaintextByteCount > 0) == isTrusted)
            #expect(isTrusted || error?.serverTrustFailure != nil && operation.response == nil)
        }
        #expect(server.requests.count == 1 && server.requests.first?.body.count == 1 << 20)
    }
}
