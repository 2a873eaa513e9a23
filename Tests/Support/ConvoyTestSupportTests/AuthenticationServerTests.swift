import ConvoyTestSupport
import Foundation
import Testing

/// Sends requests with curl to servers and proxies that request authentication.
@Suite struct AuthenticationServerTests {
    /// Returns the output of curl, followed by the status.
    private func curl(_ arguments: [String], environment: [String: String] = [:]) throws -> String {
        let result = try ProcessRunner.run(
            "curl", ["-sS", "--max-time", "20", "--noproxy", "", "-o", "-", "-w", " %{http_code}"] + arguments,
            environment: environment)
        return result.text
    }

    private static let apacheHint: Comment = "not installed: \(ApacheServer.installHint)"
    private static let kerberosHint: Comment = "not installed: \(KerberosRealm.installHint), \(ApacheServer.installHint)"
    private static let squidHint: Comment = "not installed: \(SquidProxy.installHint)"
    private static let hasKerberos = KerberosRealm.isInstalled && ApacheServer.hasNegotiate

    @Test(.enabled(if: ApacheServer.isInstalled, apacheHint), arguments: ["basic", "digest"])
    func `Apache accepts the right password, over HTTP/1.1 and HTTP/2`(scheme: String) throws {
        let server = try ApacheServer(users: ["ada": "secret", "jäsøn": "päss\"wörd"])
        let path = "\(scheme)/small"
        let url = server.url.appendingPathComponent(path).absoluteString
        #expect(try curl([server.url.appendingPathComponent("small").absoluteString]) == "hello world 200")
        #expect(try curl([url]).hasSuffix(" 401"))
        #expect(try curl(["--\(scheme)", "-u", "ada:secret", url]) == "hello world 200")
        #expect(try curl(["--\(scheme)", "-u", "jäsøn:päss\"wörd", url]) == "hello world 200")
        #expect(try curl(["--\(scheme)", "-u", "ada:wrong", url]).hasSuffix(" 401"))
        let secure = server.secureURL.appendingPathComponent(path).absoluteString
        let trust = ["--cacert", server.certificateAuthority.path, "--\(scheme)", "-u", "ada:secret"]
        #expect(try curl(trust + [secure, "-w", " %{http_version}"]) == "hello world 2")
        server.stop()
        #expect(!server.process.isRunning)
    }

    @Test(.enabled(if: ApacheServer.isInstalled, apacheHint))
    func `Apache stores an upload after authentication`() throws {
        let server = try ApacheServer()
        let url = server.url.appendingPathComponent("digest/new").absoluteString
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data("uploaded".utf8), to: "file")
        #expect(try curl(["-T", file.path, url]).hasSuffix(" 401"))
        #expect(try curl(["--digest", "-u", "ada:secret", "-T", file.path, url]).hasSuffix(" 201"))
        #expect(try curl(["--digest", "-u", "ada:secret", url]) == "uploaded 200")
        #expect(try curl(["--digest", "-u", "ada:secret", "-X", "DELETE", url]).hasSuffix(" 204"))
    }

    @Test(.enabled(if: hasKerberos, kerberosHint))
    func `Apache accepts a Kerberos ticket`() throws {
        let realm = try KerberosRealm()
        let server = try ApacheServer(kerberos: realm)
        let url = server.url.appendingPathComponent("negotiate/small").absoluteString
        let negotiate = ["--negotiate", "-u", ":", url]
        #expect(try curl(negotiate, environment: realm.environment).hasSuffix(" 401"))
        try realm.logIn()
        #expect(try curl(negotiate, environment: realm.environment) == "hello world 200", "\(server.log)")
        try realm.logOut()
        #expect(try curl(negotiate, environment: realm.environment).hasSuffix(" 401"))
    }

    @Test(.enabled(if: hasKerberos, kerberosHint))
    func `a paused key distribution center hangs, and a halted one refuses connections`() throws {
        let realm = try KerberosRealm()
        realm.pause()
        // The paused server accepts the connection, but sends nothing.
        let client = try RawClient(port: realm.port, timeout: 0.2)
        try client.send(Data([0, 0, 0, 1, 0]))
        #expect(throws: RawClient.Failure.timedOut) { try client.read(1) }
        realm.resume()
        try realm.logIn()
        realm.halt()
        #expect(throws: RawClient.Failure.self) { try RawClient(port: realm.port) }
        #expect(throws: ProcessError.self) { try realm.logIn() }
    }

    @Test(.enabled(if: SquidProxy.isInstalled, squidHint), arguments: [SquidProxy.Scheme.basic, .digest])
    func `Squid forwards and tunnels with the right password`(scheme: SquidProxy.Scheme) throws {
        let server = try OpenSSLServer()
        let proxy = try SquidProxy([scheme])
        let tunnel = ["--cacert", server.certificates.certificateAuthority.path, "-x", proxy.address]
        let url = server.url.absoluteString
        #expect(try curl(tunnel + [url]).hasSuffix(" 000"))
        let result = try curl(tunnel + ["--proxy-\(scheme)", "-U", "ada:secret", url])
        #expect(result.hasSuffix(" 200"), "\(result)")
        #expect(try curl(tunnel + ["--proxy-\(scheme)", "-U", "ada:wrong", url]).hasSuffix(" 000"))
        // No server listens at this URL, so Squid responds itself.
        let plain = "http://127.0.0.1:1/"
        #expect(try curl(["-x", proxy.address, plain]).hasSuffix(" 407"))
        #expect(try curl(["-x", proxy.address, "--proxy-\(scheme)", "-U", "ada:secret", plain]).hasSuffix(" 503"))
    }

    @Test(.enabled(if: SquidProxy.isInstalled, squidHint))
    func `Squid removes its own shared memory files and keeps those of other processes`() throws {
        func memory() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: "/dev/shm") }
        let other = "convoy-neighbour-\(UUID().uuidString)"
        #expect(FileManager.default.createFile(atPath: "/dev/shm/\(other)", contents: Data()))
        defer { unlink("/dev/shm/\(other)") }
        let first = try SquidProxy(), second = try SquidProxy()
        first.stop()
        #expect(!first.process.isRunning && second.process.isRunning)
        #expect(try !memory().contains { $0.hasPrefix(first.name) })
        #expect(try memory().contains { $0.hasPrefix(second.name) } && memory().contains(other))
        second.stop()
        #expect(try !memory().contains { $0.hasPrefix(second.name) } && memory().contains(other))
    }

    @Test(.enabled(if: hasKerberos && SquidProxy.isInstalled, squidHint))
    func `Squid forwards with a Kerberos ticket`() throws {
        let realm = try KerberosRealm()
        try realm.logIn()
        let proxy = try SquidProxy([.negotiate], kerberos: realm)
        let arguments = ["-x", proxy.address, "http://127.0.0.1:1/"]
        #expect(try curl(arguments, environment: realm.environment).hasSuffix(" 407"))
        let negotiate = ["--proxy-negotiate", "-U", ":"] + arguments
        #expect(try curl(negotiate, environment: realm.environment).hasSuffix(" 503"), "\(proxy.process.output)")
    }

    @Test(.enabled(if: NTLMServer.isInstalled, "not installed: \(NTLMServer.installHint)"))
    func `a server and a proxy request NTLM once per connection`() throws {
        let server = try NTLMServer()
        let url = server.url.appendingPathComponent("path").absoluteString
        #expect(try curl([url]) == "who is it? 401")
        let ntlm = ["--ntlm", "-u", "ada:secret"]
        // The second request reuses the connection of the first, and is not challenged again.
        #expect(
            try curl(ntlm + ["-d", "abc", url, url, "-w", " %{num_connects}\n"])
                == "POST /path by ada with 3 bytes 1\nPOST /path by ada with 3 bytes 0\n", "\(server.process.output)")
        #expect(try curl(["--ntlm", "-u", "ada:wrong", url]).hasSuffix(" 401"))
        let proxy = try NTLMServer(.proxy)
        let through = ["-x", proxy.url.absoluteString]
        #expect(try curl(through + [url]) == "who is it? 407")
        #expect(try curl(through + ["--proxy-ntlm", "-U", "ada:secret", url]) == "who is it? 401")
        let tunnel = through + ["-p", "--proxy-ntlm", "-U", "ada:secret"] + ntlm + [url]
        #expect(try curl(tunnel) == "GET /path by ada with 0 bytes 200", "\(proxy.process.output)")
    }
}
