import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Client certificates: `--cert` and `--key`, and the prompt for the passphrase.
@Suite(.serialized) struct ClientCertificateTests: TrustSuite {
    let ground: TrustGround

    init() throws { ground = try TrustGround() }

    @Test func `--cert accepts PEM in one or two files, and PKCS#12`() async throws {
        let (server, ada) = try members()
        try ada.write(to: files.url, name: "ada")
        try files.write(ada.privateKeyPEM + ada.chainPEM, to: "both.pem")
        try ada.pkcs12(passphrase: "").write(to: files.url.appendingPathComponent("ada.P12"))
        let variants = [
            ["--cert", path("ada.pem"), "--key", path("ada.key")], ["--cert", path("both.pem")],
            ["--cert", path("ada.P12")],
        ]
        for variant in variants {
            try expectFile(try await get(["-f", "--cacert", authority] + variant, url: server.url("/file")))
            #expect(server.requests.last?.tls?.clientCertificateSubject == "CN=ada", "\(variant)")
        }
        #expect(server.requests.count == 3)
    }

    @Test func `a missing or rejected client certificate is reported`() async throws {
        let (server, _) = try members()
        expectRefusal(
            try await get("--cacert", authority, url: server.url("/file")), "requires a client certificate",
            at: server)
        try TestCertificate.selfSigned(.client("eve")).write(to: files.url, name: "eve")
        expectRefusal(
            try await get(
                "--cacert", authority, "--cert", path("eve.pem"), "--key", path("eve.key"), url: server.url("/file")),
            "rejected the client certificate", at: server)
    }

    @Test func `unusable --cert and --key files are usage errors, detected before connecting`() async throws {
        let ada = try root.issue(.client("ada"))
        try ada.write(to: files.url, name: "ada")
        try root.issue(.client("bob")).write(to: files.url, name: "bob")
        try files.write("hello", to: "text.p12")
        let certificate = ["--cert", path("ada.pem")]
        expectUsageError(
            try await get(certificate + ["--key", path("bob.key")]),
            "--cert: The private key does not belong to the certificate")
        expectUsageError(try await get(certificate), "The private key is missing in \(path("ada.pem"))")
        expectUsageError(try await get(certificate + ["--key", path("none.key")]), "\(path("none.key")) cannot be read")
        expectUsageError(try await get("--cert", path("none.pem")), "\(path("none.pem")) cannot be read: No such file")
        expectUsageError(try await get("--cert", path("text.p12")), "is not in PKCS#12 format, is damaged")
        expectUsageError(
            try await get("--cert", path("text.p12"), "--key", path("ada.key")), "which contains its own key")
        expectUsageError(try await get("--key", path("ada.key")), "--key requires --cert; try 'convoy get --help'")
    }

    // MARK: Passphrases

    /// Writes a key that is encrypted with "schön geheim", and returns the options for it.
    private func encrypted(_ ada: TestCertificate) throws -> String {
        try ada.write(to: files.url, name: "ada")
        try files.write(ada.privateKeyPEM(passphrase: "schön geheim"), to: "ada.key")
        return "--cacert \(authority) --cert \(path("ada.pem")) --key \(path("ada.key"))"
    }

    @Test func `the passphrase is requested once at the terminal and not echoed`() async throws {
        let (server, ada) = try members()
        let options = try encrypted(ada)
        let terminal = try PseudoTerminal()
        let other = server.url("/other").absoluteString
        server.route("/other", .text("hello"))
        let tool = try ToolProcess(
            command: terminal.command("exec $convoy get \(options) \(server.url("/file")) \(other)"), in: scratch.url)
        try await terminal.waitFor("Passphrase for \(path("ada.key")): ")
        #expect(try !terminal.isEchoing)
        // A line can still be corrected with the backspace key.
        try terminal.type("schön gx\u{7F}eheim\n")
        let result = try await tool.finished()
        #expect(result.status == 0, "\(result.errors)")
        #expect(scratch.names == ["file", "other"])
        #expect(server.requests.allSatisfy { $0.tls?.clientCertificateSubject == "CN=ada" })
        #expect(try terminal.isEchoing)
        #expect(terminal.text == "Passphrase for \(path("ada.key")): \r\n")
        #expect(!(result.output + result.errors).contains("Passphrase"))
    }

    @Test func `the PKCS#12 passphrase is requested even if standard input provides the manifest`() async throws {
        let (server, ada) = try members()
        try ada.pkcs12(passphrase: "secret").write(to: files.url.appendingPathComponent("ada.pfx"))
        try files.write(#"{"requests": [{"id": "a", "url": "\#(server.url("/file"))", "output": "file"}]}"#, to: "m.json")
        let terminal = try PseudoTerminal()
        let command = "$convoy run --json --cacert \(authority) --cert \(path("ada.pfx")) - <\(path("m.json"))"
        let tool = try ToolProcess(command: terminal.command(command), in: scratch.url)
        try await terminal.waitFor("Passphrase for \(path("ada.pfx")): ")
        try terminal.type("secret\n")
        let result = try await tool.finished()
        #expect(result.status == 0, "\(result.errors)")
        #expect(try scratch.text("file") == "hello")
        #expect(try result.objects().count == 1)
    }

    @Test func `a wrong passphrase is a usage error and restores the terminal`() async throws {
        let (server, ada) = try members()
        let options = try encrypted(ada)
        for answer in ["wrong\n", "\n", "\u{4}"] {
            let terminal = try PseudoTerminal()
            let tool = try ToolProcess(
                command: terminal.command("exec $convoy get \(options) \(server.url("/file"))"), in: scratch.url)
            try await terminal.waitFor("Passphrase")
            try terminal.type(answer)
            let result = try await tool.finished()
            #expect(result.status == 2)
            #expect(
                result.errors
                    == "convoy: --cert: The key in \(path("ada.key")) is encrypted, and the passphrase is wrong or missing.\n"
            )
            #expect(try terminal.isEchoing)
        }
        #expect(server.statistics.totalConnectionCount == 0 && scratch.names.isEmpty)
    }

    @Test(arguments: [("\u{3}", SIGINT), ("\u{1C}", SIGQUIT)])
    func `Ctrl-C at the passphrase prompt ends the program and restores the terminal`(
        key: String, signal: Int32
    ) async throws {
        let options = try encrypted(root.issue(.client("ada")))
        let terminal = try PseudoTerminal()
        // The shell has the same terminal, and continues.
        let command = "ulimit -c 0; trap : INT QUIT; $convoy get \(options) \(server.url("/file")); echo status $?"
        let tool = try ToolProcess(command: terminal.command(command), in: scratch.url)
        try await terminal.waitFor("Passphrase")
        try terminal.type("half\(key)")
        let result = try await tool.finished()
        #expect(result.outputLines.last == "status \(128 + signal)", "\(result.output) \(result.errors)")
        #expect(try terminal.isEchoing)
        #expect(!terminal.text.contains("half"))
        #expect(server.statistics.totalConnectionCount == 0 && scratch.names.isEmpty)
    }

    @Test func `SIGTERM at the passphrase prompt ends the program and restores the terminal`() async throws {
        let options = try encrypted(root.issue(.client("ada")))
        let terminal = try PseudoTerminal()
        let kill = "( \(ToolProcess.shellWait(for: "[ -e \(path("go")) ]")); kill -TERM $$ ) &"
        let command = "\(kill) exec $convoy get \(options) \(server.url("/file"))"
        let tool = try ToolProcess(command: terminal.command(command), in: scratch.url)
        try await terminal.waitFor("Passphrase")
        #expect(try !terminal.isEchoing)
        try files.write("", to: "go")
        #expect(try await tool.finished().status != 0)
        #expect(try terminal.isEchoing)
    }

    @Test func `Ctrl-Z at the passphrase prompt restores the terminal; resuming prompts again`() async throws {
        let (server, ada) = try members()
        let options = try encrypted(ada)
        let terminal = try PseudoTerminal()
        // bash stops and continues jobs only if its standard error is the terminal.
        let command = """
            exec 2>/dev/tty
            set -m
            $convoy get \(options) \(server.url("/file"))
            echo STOPPED; \(ToolProcess.shellWait(for: "[ -e \(path("go")) ]")); fg >/dev/null; echo status $?
            """
        let tool = try ToolProcess(command: terminal.command(command), in: scratch.url)
        try await terminal.waitFor("Passphrase")
        try terminal.type("half\u{1A}")
        try await tool.waitForOutput("STOPPED")
        #expect(try terminal.isEchoing)
        try files.write("", to: "go")
        try await terminal.waitFor("Passphrase", times: 2)
        #expect(try !terminal.isEchoing)
        try terminal.type("schön geheim\n")
        let result = try await tool.finished()
        #expect(result.outputLines.last == "status 0", "\(result.output) \(result.errors)")
        #expect(try scratch.text("file") == "hello")
        #expect(try terminal.isEchoing)
        #expect(!terminal.text.contains("half"))
    }

    @Test func `an encrypted key without a terminal is a usage error`() async throws {
        let (server, ada) = try members()
        let options = try encrypted(ada)
        let result = try await ToolProcess.run(
            command: "exec setsid --wait $convoy get \(options) \(server.url("/file"))", in: scratch.url)
        expectUsageError(
            result,
            "--cert: The passphrase for the key could not be obtained: a terminal is required for the prompt")
        #expect(server.statistics.totalConnectionCount == 0)
    }

    @Test func `other usage errors are reported before the passphrase is requested`() async throws {
        let options = try encrypted(root.issue(.client("ada")))
        try files.write("{", to: "m.json")
        for rest in [
            "get \(options) ftp://x/", "get \(options) -j 0 \(server.url("/file"))", "run \(options) \(path("m.json"))",
        ] {
            let terminal = try PseudoTerminal()
            let result = try await ToolProcess.run(command: terminal.command("exec $convoy \(rest)"), in: scratch.url)
            #expect(result.status == 2 && terminal.text.isEmpty, "\(rest): \(terminal.text)")
        }
    }
}
