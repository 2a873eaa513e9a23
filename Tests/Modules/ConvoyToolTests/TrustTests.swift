import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Server trust options: `--cacert`, `--pin`, `-k` and `--tls-min`.
@Suite(.serialized) struct TrustTests: TrustSuite {
    let ground: TrustGround

    init() throws { ground = try TrustGround() }

    // MARK: Authorities

    @Test func `a server with a private authority is trusted only with --cacert`() async throws {
        expectRefusal(try await get(), "does not end at a trusted authority")
        try expectFile(try await get("--cacert", authority))
    }

    @Test func `--cacert accepts a directory and ignores other files in it`() async throws {
        try files.write("not a certificate", to: "README")
        try TestCertificate.root().write(to: files.url, name: "other")
        try expectFile(try await get("--cacert", files.url.path))
    }

    @Test func `an unusable --cacert is a usage error, detected before connecting`() async throws {
        try files.write("hello", to: "text.pem")
        try files.write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", to: "damaged.pem")
        try files.makeDirectory("empty")
        expectUsageError(
            try await get("--cacert", path("none.pem")), "--cacert: \(path("none.pem")) cannot be read: No such file")
        expectUsageError(
            try await get("--cacert", path("text.pem")), "--cacert: \(path("text.pem")) contains no certificate")
        expectUsageError(try await get("--cacert", path("root.key")), "\(path("root.key")) contains no certificate")
        expectUsageError(try await get("--cacert", path("empty")), "\(path("empty")) contains no certificate")
        expectUsageError(
            try await get("--cacert", path("damaged.pem")), "Certificate 1 in \(path("damaged.pem")) is damaged")
        expectUsageError(try await get("--cacert", authority, "--cacert", authority), "--cacert is given twice")
    }

    @Test func `SSL_CERT_FILE overrides the system's authorities, and an unusable file is rejected`() async throws {
        let url = server.url("/file").absoluteString
        expectRefusal(
            try await ToolProcess.run(
                ["get", url], in: scratch.url, environment: ["SSL_CERT_FILE": path("none.pem")]),
            "The certificate authorities cannot be used", path("none.pem"))
        try expectFile(
            try await ToolProcess.run(["get", url], in: scratch.url, environment: ["SSL_CERT_FILE": authority]))
    }

    @Test func `SSLKEYLOGFILE receives the keys of a connection`() async throws {
        let result = try await ToolProcess.run(
            ["get", "--cacert", authority, server.url("/file").absoluteString], in: scratch.url,
            environment: ["SSLKEYLOGFILE": path("keys.log")])
        try expectFile(result)
        #expect(try files.text("keys.log").contains("CLIENT_TRAFFIC_SECRET_0 "))
    }

    // MARK: Pins

    @Test func `--pin accepts the key of the server or of one of its authorities`() async throws {
        try expectFile(try await get("--cacert", authority, "--pin", pin))
        try expectFile(try await get("-f", "--cacert", authority, "--pin", Self.otherPin, "--pin", root.publicKeyPin))
        // curl's format has two slashes.
        let curls = pin.replacing("sha256/", with: "sha256//", maxReplacements: 1)
        try expectFile(try await get("-f", "--cacert", authority, "--pin", curls))
    }

    @Test func `a pin whose hash begins with a slash is accepted`() async throws {
        var identity = identity
        while !identity.publicKeyPin.hasPrefix("sha256//") { identity = try identity.replacingKey() }
        try server.setTLS(TestServer.TLS(identity))
        try expectFile(try await get("--cacert", authority, "--pin", identity.publicKeyPin))
    }

    @Test func `a --pin mismatch is refused and shows the server's keys as pins`() async throws {
        let result = try await get("--cacert", authority, "--pin", Self.otherPin)
        expectRefusal(result, "pinned", pin, identity.issuer?.publicKeyPin ?? "", root.publicKeyPin)
    }

    @Test func `a pin does not replace certificate validation, except with -k`() async throws {
        expectRefusal(try await get("--pin", pin), "does not end at a trusted authority")
        let trusted = try await get("-k", "--pin", pin)
        try expectFile(trusted)
        #expect(trusted.errors == "convoy: warning: -k: only the pinned keys of server certificates are checked\n")
    }

    @Test func `a pin mismatch is refused even with -k`() async throws {
        let result = try await get("-k", "--pin", Self.otherPin)
        #expect(result.status == 5 && result.output.isEmpty)
        #expect(result.errorLines.count == 2 && result.errorLines.last?.contains(pin) == true, "\(result.errors)")
        expectNothingSent(at: server, sourceLocation: #_sourceLocation)
    }

    @Test(arguments: ["", "sha256/", "sha256/x", "sha1/AAAA", "sha256/\u{1B}[2J", "MIIB", "sha256/AAAA"])
    func `a malformed pin is a usage error`(pin: String) async throws {
        let result = try await get("--pin", pin)
        expectUsageError(result, "use \"sha256/\" followed by the Base64 of 32 bytes")
        #expect(!result.errors.contains("\u{1B}"))
    }

    @Test func `a pin with a plain http URL fails without connecting`() async throws {
        let plain = try TestServer()
        plain.route("/file", .text("hello"))
        for arguments in [["--pin", pin], ["-k", "--pin", pin]] {
            let result = try await get(arguments, url: plain.url("/file"))
            #expect(result.status == 5)
            #expect(result.errorLines.last?.contains("only over https") == true, "\(result.errors)")
            #expect(result.errorLines.count == arguments.count - 1)
            #expect(plain.statistics.totalConnectionCount == 0)
            #expect(scratch.names.isEmpty)
        }
    }

    @Test func `a redirect from a pinned server to plain http is not followed`() async throws {
        let plain = try TestServer()
        plain.route("/file", .text("forged"))
        server.route("/file", .redirect(to: plain.url("/file").absoluteString))
        let result = try await get("--cacert", authority, "--pin", pin)
        #expect(result.status == 5)
        #expect(result.errorLines.count == 1 && result.errors.contains("leads from https to http"), "\(result.errors)")
        #expect(plain.statistics.totalConnectionCount == 0)
        #expect(scratch.names.isEmpty)
    }

    // MARK: Revocation

    @Test func `--crl-file refuses a revoked certificate, and one without a matching list`() async throws {
        let issuer = try #require(identity.issuer)
        try issuer.revocationList().write(to: files.url.appendingPathComponent("good.crl"))
        try issuer.revocationList(revoking: [identity], reason: 1).write(
            to: files.url.appendingPathComponent("bad.crl"))
        try TestCertificate.root().revocationList().write(to: files.url.appendingPathComponent("other.crl"))
        var lists = ["--crl-file", path("good.crl")]
        // Write one list for each authority except the last.
        for (number, authority) in identity.chain.dropFirst().compactMap(\.issuer).enumerated() {
            try authority.revocationList().write(to: files.url.appendingPathComponent("\(number).crl"))
            lists += ["--crl-file", path("\(number).crl")]
        }
        lists[1] = path("bad.crl")
        expectRefusal(try await get(["-f", "--cacert", authority] + lists), "was revoked on ", "keyCompromise")
        expectRefusal(
            try await get("-f", "--cacert", authority, "--crl-file", path("other.crl")), "no valid revocation list")
        lists[1] = path("good.crl")
        try expectFile(try await get(["--cacert", authority] + lists))
    }

    @Test func `an unusable --crl-file is a usage error, detected before connecting`() async throws {
        expectUsageError(
            try await get("--crl-file", path("none.crl")), "--crl-file: \(path("none.crl")) cannot be read: No such file")
        expectUsageError(try await get("--crl-file", authority), "\(authority) contains no revocation list")
        expectUsageError(
            try await get("-k", "--crl-file", authority), "--crl-file and --insecure cannot be combined")
    }

    // MARK: Trusting every server

    @Test func `-k trusts every server and prints a warning on standard error`() async throws {
        let warning =
            "convoy: warning: -k: server certificates are not checked; traffic can be intercepted\n"
        let result = try await get("-k")
        try expectFile(result)
        #expect(result.errors == warning)
        #expect(result.outputLines.count == 1 && result.output.hasPrefix("file: "))

        let machine = try await get("--insecure", "--json", "-f")
        try expectFile(machine)
        #expect(machine.errors.hasPrefix(warning))
        #expect(try machine.objects().map { $0["status"] as? Double } == [200])
    }

    @Test func `-k with --cacert is a usage error`() async throws {
        expectUsageError(
            try await get("-k", "--cacert", authority),
            "--cacert and --insecure cannot be combined; try 'convoy get --help'")
    }

    // MARK: Servers that are not trusted

    @Test func `an invalid certificate is refused with its reason and leaves no file`() async throws {
        var expired = TestCertificate.Profile.server("localhost", "127.0.0.1")
        expired.notAfter = Date(timeIntervalSinceNow: -60)
        var early = TestCertificate.Profile.server("localhost", "127.0.0.1")
        early.notBefore = Date(timeIntervalSinceNow: 3600)
        var nameless = TestCertificate.Profile.server("localhost")
        nameless.dnsNames = []
        let cases = [
            (try root.issue(expired), "expired on "), (try root.issue(early), "is not valid until "),
            (try root.issue(.server("elsewhere.test")), "is not for 127.0.0.1, but for elsewhere.test"),
            (try root.issue(nameless), "is not for 127.0.0.1: it contains no host names"),
            (try TestCertificate.selfSigned(), "does not end at a trusted authority"),
        ]
        for (identity, words) in cases {
            let other = try TestServer(tls: TestServer.TLS(identity))
            other.route("/file", .text("hello"))
            let result = try await get("--cacert", authority, url: other.url("/file"))
            expectRefusal(result, "convoy: \(other.url("/file").absoluteString): ", words, at: other)
            try expectFile(try await get("-k", url: other.url("/file")))
            try FileManager.default.removeItem(at: scratch.url.appendingPathComponent("file"))
        }
    }

    @Test func `the contents of a certificate cannot control the terminal`() async throws {
        var profile = TestCertificate.Profile.server("127.0.0.1")
        profile.commonName = "\u{1B}[2J\u{202E}evil\nconvoy: all is well"
        let other = try TestServer(tls: TestServer.TLS(TestCertificate.selfSigned(profile)))
        let result = try await get(url: other.url("/file"))
        expectRefusal(result, "does not end at a trusted authority", at: other)
        #expect(!result.errors.unicodeScalars.contains { $0 == "\u{1B}" || $0 == "\u{202E}" })
    }

    @Test func `--json reports a trust failure without a file`() async throws {
        let result = try await get("--json")
        #expect(result.status == 5)
        let object = try #require(result.objects().first)
        #expect((object["error"] as? String)?.contains("does not end at a trusted authority") == true)
        #expect(object["file"] == nil && object["status"] == nil)
        expectNothingSent(at: server, sourceLocation: #_sourceLocation)
    }

    @Test func `--tls-min 1.3 refuses a TLS 1.2 server, and only 1.2 and 1.3 are accepted`() async throws {
        var tls = TestServer.TLS(identity)
        tls.maximumVersion = .tls12
        let old = try TestServer(tls: tls)
        old.route("/file", .text("hello"))
        let result = try await get("--cacert", authority, "--tls-min", "1.3", url: old.url("/file"))
        expectRefusal(result, "protocol version", at: old)
        try expectFile(try await get("--cacert", authority, "--tls-min=1.2", url: old.url("/file")))
        #expect(old.requests.first?.tls?.version == "TLSv1.2")
        for text in ["1.1", "1.4", "", "tls1.3", "3"] {
            let result = try await get("--tls-min", text)
            #expect(result.status == 2 && result.errors.contains("--tls-min takes 1.2 or 1.3"), "\(result.errors)")
        }
    }

    // MARK: Manifests

    private func run(_ arguments: String..., url: String? = nil) async throws -> ToolProcess.Result {
        let url = url ?? server.url("/file").absoluteString
        try files.write(
            """
            {"requests": [{"id": "a", "url": "\(url)", "output": "file"}, {"id": "b", "url": "\(url)", "dependsOn": ["a"]}]}
            """, to: "m.json")
        return try await ToolProcess.run(["run"] + arguments + [path("m.json")], in: scratch.url)
    }

    @Test func `the run command accepts the same TLS options`() async throws {
        let (members, ada) = try members()
        try ada.write(to: files.url, name: "ada")
        try expectFile(try await run("--cacert", authority, "--pin", pin, "--tls-min", "1.3"))
        try expectFile(try await run("-f", "-k"))
        let result = try await run(
            "-f", "--cacert", authority, "--cert", path("ada.pem"), "--key", path("ada.key"),
            url: members.url("/file").absoluteString)
        try expectFile(result)
        #expect(members.requests.map { $0.tls?.clientCertificateSubject } == ["CN=ada", "CN=ada"])
    }

    @Test func `if run does not trust the server, nothing is sent and no file is left`() async throws {
        for arguments in [["--pin", Self.otherPin, "--cacert", authority], []] {
            try files.write(
                #"{"requests": [{"id": "a", "url": "\#(server.url("/file"))", "output": "file"}]}"#, to: "m.json")
            let result = try await ToolProcess.run(["run"] + arguments + [path("m.json")], in: scratch.url)
            expectRefusal(result, arguments.isEmpty ? "trusted authority" : pin)
        }
        let plain = try TestServer()
        let result = try await run("--pin", pin, url: plain.url("/file").absoluteString)
        #expect(result.status == 5 && result.errors.contains("only over https"), "\(result.errors)")
        #expect(plain.statistics.totalConnectionCount == 0)
    }

    @Test func `invalid trust options of run are usage errors, detected before connecting`() async throws {
        expectUsageError(
            try await run("-k", "--cacert", authority),
            "--cacert and --insecure cannot be combined; try 'convoy run --help'")
        expectUsageError(try await run("--pin", "x"), "Invalid pin")
        expectUsageError(try await run("--cert", path("none.pem")), "cannot be read")
    }
}
