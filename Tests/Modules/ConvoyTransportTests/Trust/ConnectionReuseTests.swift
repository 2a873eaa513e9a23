import ConvoySecurity
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyTransport

/// Tests that the connections, sessions and authorities kept by libcurl do not let a request through that would
/// otherwise be rejected.
@Suite struct ConnectionReuseTests {
    @Test func `a keep-alive connection is not reused under a stricter policy`() throws {
        let trusted = try TrustedServer()
        #expect(trusted.load(TrustedServer.lax)?.text == "hello")
        #expect(trusted.load(.default)?.refusal == .unknownRoot)
        #expect(trusted.load(try trusted.pinnedElsewhere())?.refusal == .notPinned)
        #expect(trusted.load(TrustedServer.lax)?.text == "hello")
        #expect(trusted.server.requests.count == 2)
        // The request with the same policy reused the first connection.
        #expect(trusted.server.statistics.handshakeCount == 1)
    }

    @Test func `equal policies share a connection`() throws {
        let trusted = try TrustedServer()
        for _ in 0..<3 { #expect(trusted.load(try trusted.policy())?.text == "hello") }
        #expect(trusted.server.statistics.handshakeCount == 1)
    }

    @Test func `any difference in TLS settings requires another connection`() throws {
        let trusted = try TrustedServer { $0.clientCertificates = .requested }
        let policy = try trusted.policy()
        let other = try trusted.policy { $0.backupPins = [try PublicKeyPin(trusted.root.publicKeyPin)] }
        let ada = try trusted.root.issue(.client("ada"))
        let identity = ClientIdentity(certificatePEM: Data((ada.chainPEM + ada.privateKeyPEM).utf8))
        let loads: [() -> Collector.Heard?] = [
            { trusted.load(policy) }, { trusted.load(other) }, { trusted.load(policy) { $0.clientIdentity = identity } },
            { trusted.load(policy) { $0.minimumTLSVersion = .tls13 } },
            { trusted.load(policy) { $0.maximumTLSVersion = .tls12 } },
            { trusted.load(policy) { $0.cipherSuites = ["TLS_AES_128_GCM_SHA256"] } },
            { trusted.load(policy) { $0.proxySecurityPolicy = other } },
        ]
        for load in loads + loads { #expect(load()?.text == "hello") }
        #expect(trusted.server.statistics.handshakeCount == loads.count)
        let requests = trusted.server.requests
        #expect(
            requests.map { $0.tls?.clientCertificateSubject }
                == requests.map { $0.connection == requests[2].connection ? "CN=ada" : nil })
        #expect(requests[4].tls?.version == "TLSv1.2" && requests[5].tls?.cipher == "TLS_AES_128_GCM_SHA256")
    }

    @Test(arguments: [TestServer.TLS.Version.tls12, .tls13])
    func `sessions are not resumed, so every connection presents its certificates`(version: TestServer.TLS.Version) throws {
        let trusted = try TrustedServer { $0.maximumVersion = version }
        trusted.server.route("/", .text("hello").closing())
        for _ in 0..<5 { #expect(trusted.load(try trusted.policy())?.text == "hello") }
        #expect(trusted.load(try trusted.pinnedElsewhere())?.refusal == .notPinned)
        let statistics = trusted.server.statistics
        #expect(statistics.handshakeCount == 5 && statistics.resumedHandshakeCount == 0)
        #expect(trusted.server.requests.count == 5)
    }

    @Test func `authorities of one policy are not trusted under another`() throws {
        let (one, two) = (try TrustedServer(), try TrustedServer())
        let directory = try TemporaryDirectory(prefix: "convoy-authorities")
        defer { directory.remove() }
        func policy(_ server: TrustedServer, _ name: String) throws -> SecurityPolicy {
            let file = directory.file(name)
            try Data(server.root.pem.utf8).write(to: file)
            var policy = SecurityPolicy()
            policy.certificateAuthorities = .file(file)
            return policy
        }
        let (first, second) = (try policy(one, "one.pem"), try policy(two, "two.pem"))
        for _ in 0..<2 {
            #expect(one.load(first)?.text == "hello")
            #expect(one.load(second)?.refusal == .unknownRoot)
            #expect(one.load(first, from: two.url)?.refusal == .unknownRoot)
            #expect(one.load(second, from: two.url)?.text == "hello")
        }
    }

    @Test func `a redirect is evaluated by the policy of its target host`() throws {
        let (first, second) = (try TrustedServer(), try TrustedServer())
        first.server.redirect("/moved", to: second.server.url("/", host: "127.0.0.1").absoluteString)
        first.server.redirect("/plain", to: "http://127.0.0.1:\(second.server.port)/")
        let both = try [first, second].map { try Certificate(derData: $0.root.derData) }
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates(both)
        let url = first.server.url("/moved", host: "localhost")
        #expect(first.load(policy, from: url)?.text == "hello")
        #expect(second.server.requests.count == 1)
        try policy.setPolicy(try second.pinnedElsewhere(), forHosts: "127.0.0.1")
        #expect(first.load(policy, from: url)?.refusal == .notPinned)
        // No connection is made if the target does not use TLS.
        let plain = first.load(policy, from: first.server.url("/plain", host: "localhost"))
        #expect(plain?.error?.code == .appTransportSecurityRequiresSecureConnection)
        #expect(second.server.requests.count == 1)
        #expect(second.server.statistics.totalConnectionCount == 2)
    }

    @Test func `a redirect to another origin does not send the client certificate`() throws {
        let (first, second) = (
            try TrustedServer { $0.clientCertificates = .required }, try TrustedServer { $0.clientCertificates = .requested }
        )
        second.server.redirect("/back", to: first.url.absoluteString)
        first.server.redirect("/away", to: second.url.absoluteString)
        first.server.redirect("/there-and-back", to: second.server.url("/back", host: "localhost").absoluteString)
        let ada = try first.root.issue(.client("ada"))
        let identity = ClientIdentity(certificatePEM: Data((ada.chainPEM + ada.privateKeyPEM).utf8))
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates(try [first, second].map { try Certificate(derData: $0.root.derData) })
        for _ in 0..<2 {
            for path in ["/away", "/there-and-back"] {
                let heard = first.load(policy, from: first.server.url(path, host: "localhost")) {
                    $0.clientIdentity = identity
                }
                #expect(heard?.text == "hello", "\(heard?.ends ?? [])")
            }
        }
        #expect(second.server.requests.count == 4)
        #expect(second.server.requests.allSatisfy { $0.tls?.clientCertificateSubject == nil })
        #expect(first.server.requests.allSatisfy { $0.tls?.clientCertificateSubject == "CN=ada" })
    }

    @Test(.enabled(if: Nginx.isInstalled, "\(Nginx.installHint)"))
    func `an HTTP/2 connection is not shared across hosts or policies`() throws {
        let nginx = try Nginx()
        _ = try nginx.add(Data("hello".utf8), as: "text.txt")
        let thread = NetworkThread()
        func load(_ host: String, _ change: (inout SecurityPolicy) throws -> Void = { _ in }) throws -> Collector.Heard? {
            var configuration = ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority)
            try change(&configuration.securityPolicy)
            let url = try #require(URL(string: "https://\(host):\(nginx.securePort)/text.txt"))
            return ConvoyTransportTests.load(URLRequest(url: url), configuration: configuration, thread: thread)
        }
        #expect(try load("localhost")?.text == "hello")
        // The server's certificate is for both names, so HTTP/2 would allow reusing the connection (RFC 9113, section
        // 9.1.1).
        let pin = try PublicKeyPin("sha256/\(Data(repeating: 7, count: 32).base64EncodedString())")
        let other = try load("127.0.0.1") {
            var pinned = $0
            pinned.pinningMode = .publicKey
            pinned.publicKeyPins = [pin]
            try $0.setPolicy(pinned, forHosts: "127.0.0.1")
        }
        #expect(other?.refusal == .notPinned)
        let same = try load("localhost") {
            $0.pinningMode = .publicKey
            $0.publicKeyPins = [pin]
        }
        #expect(same?.refusal == .notPinned)
        #expect(try load("localhost")?.text == "hello")
    }

    @Test func `concurrent requests with different policies each use their own`() throws {
        let trusted = try TrustedServer()
        let right = try trusted.policy {
            $0.pinningMode = .publicKey
            $0.publicKeyPins = [try PublicKeyPin(trusted.identity.publicKeyPin)]
        }
        let policies = [(right, true), (try trusted.pinnedElsewhere(), false), (.default, false), (TrustedServer.lax, true)]
        let wrong = Locked<[String]>([])
        let accepted = Atomic<Int>(0)
        DispatchQueue.concurrentPerform(iterations: 4) { worker in
            for round in 0..<60 {
                let (policy, isRight) = policies[(worker + round * 7) % policies.count]
                let heard = trusted.load(policy)
                if isRight { accepted.add(1, ordering: .relaxed) }
                guard heard?.isFinished != isRight || (heard?.error == nil) != isRight else { continue }
                wrong.withLock { $0.append("\(worker) \(round): \(heard?.ends ?? [])") }
            }
        }
        #expect(wrong.withLock { $0 } == [])
        #expect(trusted.server.requests.count == accepted.load(ordering: .relaxed))
    }
}
