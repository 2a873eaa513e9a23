import ConvoySecurity
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyTransport

/// Files that are read before connecting: authorities, and the client certificate with its passphrase.
@Suite struct PreparationTests {
    /// Returns an identity whose key has the passphrase "secret".
    private func encrypted(
        _ certificate: TestCertificate, passphrase: @escaping ClientIdentity.Passphrase
    ) throws -> ClientIdentity {
        ClientIdentity(
            certificatePEM: Data(certificate.chainPEM.utf8),
            keyPEM: Data(try certificate.privateKeyPEM(passphrase: "secret").utf8), passphrase: passphrase)
    }

    @Test func `a passphrase is requested once, off the network thread, without delaying others`() throws {
        let trusted = try TrustedServer { $0.clientCertificates = .requested }
        let ada = try trusted.root.issue(.client("ada"))
        let asked = Atomic<Int>(0)
        let (isAsked, answer) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let identity = try encrypted(ada) {
            asked.add(1, ordering: .relaxed)
            isAsked.signal()
            answer.wait()
            return "secret"
        }
        var configuration = ConnectionConfiguration()
        configuration.securityPolicy = try trusted.policy()
        configuration.clientIdentity = identity
        let collectors = (0..<8).map { _ in Collector() }
        for collector in collectors {
            RequestChain(
                request: URLRequest(url: trusted.url), configuration: configuration, delegate: collector,
                thread: trusted.thread
            ).start()
        }
        #expect(isAsked.wait(timeout: .now() + 30) == .success)
        // While one request waits for a passphrase, other requests continue.
        #expect(trusted.load(try trusted.policy())?.text == "hello")
        answer.signal()
        for collector in collectors { #expect(collector.wait()?.text == "hello") }
        #expect(asked.load(ordering: .relaxed) == 1)
        #expect(trusted.server.requests.filter { $0.tls?.clientCertificateSubject == "CN=ada" }.count == 8)
    }

    @Test func `a transfer cancelled while waiting for a passphrase ends immediately, and only once`() throws {
        let trusted = try TrustedServer()
        let ada = try trusted.root.issue(.client("ada"))
        let (isAsked, answer) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let identity = try encrypted(ada) {
            isAsked.signal()
            answer.wait()
            return "secret"
        }
        var configuration = ConnectionConfiguration()
        configuration.securityPolicy = try trusted.policy()
        configuration.clientIdentity = identity
        let collector = Collector()
        let connection = RequestChain(
            request: URLRequest(url: trusted.url), configuration: configuration, delegate: collector,
            thread: trusted.thread)
        connection.start()
        #expect(isAsked.wait(timeout: .now() + 30) == .success)
        connection.cancel()
        let heard = try #require(collector.wait())
        guard case .cancelled = heard.ends.first else { throw heard.error ?? URLError(.unknown) }
        answer.signal()
        // The passphrase is not used; the next transfer has the identity.
        #expect(trusted.load(try trusted.policy()) { $0.clientIdentity = identity }?.text == "hello")
        #expect(collector.heardSoFar.ends.count == 1)
        #expect(trusted.server.requests.count == 1)
    }

    @Test func `a wrong passphrase is an error, and the next transfer requests the passphrase again`() throws {
        let trusted = try TrustedServer()
        let ada = try trusted.root.issue(.client("ada"))
        let answers = Locked(["wrong", "secret"])
        let identity = try encrypted(ada) {
            answers.withLock { $0.removeFirst() }
        }
        let policy = try trusted.policy()
        let first = trusted.load(policy) { $0.clientIdentity = identity }
        #expect(first?.error?.code == .secureConnectionFailed)
        #expect(
            first?.configurationError == .identity(.wrongPassphrase(file: "")))
        #expect(trusted.load(policy) { $0.clientIdentity = identity }?.text == "hello")
        #expect(trusted.server.statistics.totalConnectionCount == 1)
    }

    @Test func `unreadable authorities fail before connecting`() throws {
        let trusted = try TrustedServer()
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .file(URL(fileURLWithPath: "/nowhere/authorities.pem"))
        let heard = trusted.load(policy)
        #expect(heard?.error?.code == .secureConnectionFailed)
        #expect(
            heard?.configurationError
                == .authorities(.unreadable(file: "/nowhere/authorities.pem", reason: "No such file or directory")))
        policy.certificateAuthorities = .certificates([])
        #expect(trusted.load(policy)?.error?.code == .secureConnectionFailed)
        #expect(trusted.server.statistics.totalConnectionCount == 0)
    }
}
