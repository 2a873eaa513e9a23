import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Revocation lists in a policy, which refuses a server if a list revokes its certificate, or if no list covers it.
@Suite struct RevocationListTests {
    let root: TestCertificate
    let intermediate: TestCertificate
    let server: TestCertificate
    let directory: TemporaryDirectory

    init() throws {
        root = try .root()
        intermediate = try root.issue(.authority("Intermediate"))
        server = try intermediate.issue(.server("api.example.test"))
        directory = try TemporaryDirectory()
    }

    private static func pem(_ list: Data) -> String {
        "-----BEGIN X509 CRL-----\n\(list.base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed]))\n"
            + "-----END X509 CRL-----\n"
    }

    private func file(_ lists: Data...) throws -> URL {
        try directory.write(Data(lists.map(Self.pem).joined().utf8), to: "\(UUID().uuidString).pem")
    }

    private func policy(_ files: [URL], _ change: (inout SecurityPolicy) throws -> Void = { _ in }) throws -> SecurityPolicy
    {
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates([try Certificate(root)])
        policy.revocationLists = files
        try change(&policy)
        return policy
    }

    private func failure(
        _ files: [URL], of leaf: TestCertificate? = nil, at date: Date = Date(),
        _ change: (inout SecurityPolicy) throws -> Void = { _ in }
    ) throws -> ServerTrustFailure? {
        let sent = ServerTrust(certificates: try (leaf ?? server).chain.map { try Certificate($0) })
        return try policy(files, change).evaluate(sent, forDomain: "api.example.test", at: date).failure
    }

    @Test func `a server that no list revokes is trusted, with PEM or DER, one file or several`() throws {
        let (first, second) = (try root.revocationList(), try intermediate.revocationList())
        #expect(try failure([file(first, second)]) == nil)
        #expect(try failure([file(second), file(first)]) == nil)
        let der = [try directory.write(first, to: "a.crl"), try directory.write(second, to: "b.crl")]
        #expect(try failure(der) == nil)
        // Other content in the text is skipped.
        let mixed = Data((server.pem + "a comment\n" + Self.pem(first) + root.pem + Self.pem(second)).utf8)
        #expect(try failure([directory.write(mixed, to: "mixed.pem")]) == nil)
        #expect(try failure([]) == nil)
    }

    @Test func `a revoked certificate is rejected, and the failure has the date and reason`() throws {
        let date = Date(timeIntervalSince1970: 1_700_000_000)
        let file = try file(
            root.revocationList(), intermediate.revocationList(revoking: [server], reason: 1, revocationDate: date))
        let failure = try #require(try self.failure([file]))
        let certificate = try Certificate(server)
        #expect(failure.reason == .revoked && failure.reasons == [.revoked] && failure.certificate == certificate)
        #expect(failure.revocation?.date == date && failure.revocation?.reason == .keyCompromise)
        #expect(failure.description.contains("2023-11-14") && failure.description.contains("keyCompromise"))
        // The entry has no reason, and the list contains other revoked certificates.
        let others = try (0..<50).map { _ in try intermediate.issue(.server("other.test")) }
        let silent = try self.file(
            root.revocationList(), intermediate.revocationList(revoking: others + [server] + others))
        #expect(try self.failure([silent])?.revocation?.reason == nil)
        #expect(try self.failure([silent])?.reason == .revoked)
        let without = try self.file(root.revocationList(), intermediate.revocationList(revoking: others))
        #expect(try self.failure([without]) == nil)
    }

    @Test func `an intermediate authority can be revoked`() throws {
        let file = try file(root.revocationList(revoking: [intermediate], reason: 2), intermediate.revocationList())
        let failure = try #require(try self.failure([file]))
        let certificate = try Certificate(intermediate)
        #expect(failure.reason == .revoked && failure.certificate == certificate)
        #expect(failure.revocation?.reason == .authorityCompromise)
    }

    @Test func `a server is rejected if its list is missing, expired, not yet valid or from another issuer`() throws {
        let (first, second) = (try root.revocationList(), try intermediate.revocationList())
        let (past, future) = (Date(timeIntervalSinceNow: -60), Date(timeIntervalSinceNow: 60))
        let other = try TestCertificate.root()
        let onlyAuthorities = TestCertificate.Extension(
            objectIdentifier: "2.5.29.28", isCritical: true, value: Data([0x30, 3, 0x82, 1, 0xFF]))
        let unknown = TestCertificate.Extension(objectIdentifier: "1.2.3.4", isCritical: true, value: Data([5, 0]))
        let lists: [(String, [Data])] = [
            ("none of the intermediate", [first]), ("none of the root", [second]),
            ("expired", [first, try intermediate.revocationList(nextUpdate: past)]),
            ("expired, of the root", [try root.revocationList(nextUpdate: past), second]),
            ("not yet valid", [first, try intermediate.revocationList(thisUpdate: future)]),
            ("signed by another", [first, try intermediate.revocationList(signedBy: other)]),
            ("about authorities only", [first, try intermediate.revocationList(extensions: [onlyAuthorities])]),
            ("with an unknown critical extension", [first, try intermediate.revocationList(extensions: [unknown])]),
            ("another's", [try other.revocationList()]),
        ]
        for (name, lists) in lists {
            let file = try directory.write(Data(lists.map(Self.pem).joined().utf8), to: "\(UUID().uuidString).pem")
            let failure = try failure([file])
            #expect(failure?.reason == .noValidRevocationList, "\(name): \(failure as Any)")
            #expect(failure?.description.contains("no valid revocation list") == true)
        }
        // Of an old and a new list, the one that is valid at the date of the evaluation is used.
        let renewed = try file(first, intermediate.revocationList(nextUpdate: past), second)
        #expect(try failure([renewed]) == nil)
        let tomorrow = Date(timeIntervalSinceNow: 90_000)
        #expect(try failure([renewed], at: tomorrow)?.reasons.contains(.noValidRevocationList) == true)
    }

    @Test func `the authority at the end of the chain needs no list`() throws {
        let file = try file(intermediate.revocationList())
        #expect(try failure([file]) { $0.certificateAuthorities = .certificates([try Certificate(intermediate)]) } == nil)
        let foreign = try self.file(TestCertificate.root().revocationList())
        let selfSigned = try TestCertificate.selfSigned(.server("api.example.test"))
        let own = try failure([foreign], of: selfSigned) {
            $0.certificateAuthorities = .certificates([try Certificate(selfSigned)])
        }
        #expect(own == nil)
    }

    @Test(arguments: [SecurityPolicy.PinningMode.none, .publicKey, .certificate])
    func `neither a pin nor allowInvalidCertificates overrides a revocation`(mode: SecurityPolicy.PinningMode) throws {
        let first = try root.revocationList()
        let revoked = try file(first, intermediate.revocationList(revoking: [server]))
        let missing = try file(first)
        let good = try file(first, intermediate.revocationList())
        for (pinned, allowsInvalid) in [(server, false), (intermediate, false), (server, true), (intermediate, true)] {
            let change = { (policy: inout SecurityPolicy) throws in
                policy.pinningMode = mode
                policy.pinnedCertificates = [try Certificate(pinned)]
                policy.allowInvalidCertificates = allowsInvalid
            }
            #expect(try failure([revoked], change)?.reason == .revoked)
            #expect(try failure([missing], change)?.reason == .noValidRevocationList)
            #expect(try failure([good], change) == nil)
            #expect(try failure([], change) == nil)
        }
        let anybody = { (policy: inout SecurityPolicy) in
            (policy.allowInvalidCertificates, policy.validatesDomainName) = (true, false)
        }
        #expect(try failure([revoked], anybody)?.reason == .revoked && failure([good], anybody) == nil)
    }

    @Test func `a server cannot evade its revocation list by omitting its issuer`() throws {
        let revoked = try file(root.revocationList(), intermediate.revocationList(revoking: [server]))
        let good = try file(root.revocationList(), intermediate.revocationList())
        let alone = try ServerTrust(server)
        for pins in [[server], [intermediate], []] {
            for file in [revoked, good] {
                var policy = try policy([file])
                policy.pinnedCertificates = try pins.map { try Certificate($0) }
                (policy.allowInvalidCertificates, policy.validatesDomainName) = (true, false)
                #expect(!policy.evaluate(alone, forDomain: "api.example.test").isTrusted, "\(pins.count) pins")
                policy.revocationLists = []
                #expect(policy.evaluate(alone, forDomain: "api.example.test").isTrusted, "\(pins.count) pins")
            }
        }
    }

    @Test func `an unusable file makes the policy unusable`() throws {
        let list = try root.revocationList()
        let delta = TestCertificate.Extension(
            objectIdentifier: "2.5.29.27", isCritical: true, value: Data([2, 1, 1]))
        let files: [(Data, String)] = [
            (Data(), "no revocation list"), (Data("text".utf8), "no revocation list"),
            (Data(root.pem.utf8), "no revocation list"), (root.derData, "no revocation list"),
            (list.dropLast(), "no revocation list"), (list + Data([0]), "no revocation list"),
            (Data("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n".utf8), "list 1"),
            (Data((Self.pem(list) + "-----BEGIN X509 CRL-----\nMII").utf8), "list 2"),
            (try root.revocationList(extensions: [delta]), "is a delta CRL"),
        ]
        for (number, (bytes, text)) in files.enumerated() {
            let file = try directory.write(bytes, to: "\(number).crl")
            let failure = try failure([file])
            #expect(failure?.reason == .unusablePolicy && failure?.description.contains(text) == true, "\(number)")
            #expect(failure?.description.contains(file.path) == true, "\(number): \(failure as Any)")
        }
        for url in [directory.url, directory.file("missing")] {
            #expect(try failure([url])?.description.contains("cannot be read") == true)
        }
    }

    @Test func `policies with different lists or chain depths are not equal, and both settings are encoded`() throws {
        let first = try policy([URL(fileURLWithPath: "/a")])
        var second = first
        second.revocationLists.append(URL(fileURLWithPath: "/b"))
        var third = first
        third.maximumChainDepth = 3
        #expect(Set([first, second, third]).count == 3)
        for policy in [first, second, third] {
            let coded = try JSONEncoder().encode(policy)
            #expect(try JSONDecoder().decode(SecurityPolicy.self, from: coded) == policy)
        }
    }
}

/// Limits on the certificates that a server sends.
@Suite struct ChainDepthTests {
    private func decision(authorities: Int, depth: Int?) throws -> TrustDecision {
        let root = try TestCertificate.root()
        var last = root
        for number in 0..<authorities { last = try last.issue(.authority("Authority \(number)")) }
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .certificates([try Certificate(root)])
        if let depth { policy.maximumChainDepth = depth }
        let leaf = try last.issue(.server("localhost"))
        return policy.evaluate(
            ServerTrust(certificates: try leaf.chain.map { try Certificate($0) }), forDomain: "localhost")
    }

    @Test(arguments: [
        (0, 0, true), (1, 0, false), (1, 1, true), (5, 4, false), (5, 5, true), (20, nil, true), (21, nil, false),
        (0, -1, true), (1, Int.min, false), (30, Int.max, true), (63, 1000, true),
    ])
    func `a policy limits the number of intermediate authorities`(
        authorities: Int, depth: Int?, isRight: Bool
    ) throws {
        let decision = try decision(authorities: authorities, depth: depth)
        #expect(decision.isTrusted == isRight, "\(decision.failure as Any)")
    }

    @Test func `a server that sends a thousand certificates is rejected before any is verified`() throws {
        let root = try TestCertificate.root()
        let leaf = try root.issue(.server("localhost"))
        // Each certificate could have been issued by any other, as in a web of cross-signatures.
        let key = try TestCertificate.root(.authority("Web"))
        let web = try (0..<80).map { _ in try key.issue(.authority("Web"), forKeyOf: key) }.map { try Certificate($0) }
        let trust = ServerTrust(
            certificates: [try Certificate(leaf)] + (0..<1000).map { web[$0 % web.count] })
        for mode in SecurityPolicy.PinningMode.allCases {
            var policy = SecurityPolicy(pinningMode: mode, pinnedCertificates: [try Certificate(leaf)])
            policy.certificateAuthorities = .certificates([try Certificate(root)])
            let failure = policy.evaluate(trust, forDomain: "localhost").failure
            #expect(failure?.reason == .invalidChain && failure?.description.contains("1001 certificates") == true)
            // The number of certificates is plausible for a chain with some additional certificates.
            let some = ServerTrust(certificates: Array(trust.certificates.prefix(64)))
            #expect(policy.evaluate(some, forDomain: "localhost").isTrusted)
        }
    }
}
