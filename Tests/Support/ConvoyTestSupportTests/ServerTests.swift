import ConvoyTestSupport
import Foundation
import Testing

struct ServerTests {
    private func curl(_ arguments: [String]) throws -> ProcessRunner.Result {
        try ProcessRunner.run("curl", ["-sS", "--max-time", "20"] + arguments)
    }

    @Test(.enabled(if: Nginx.isInstalled, "not installed: \(Nginx.installHint)"))
    func `nginx serves files, ranges, gzip, JSON, uploads and HTTP/2 over TLS, and leaves nothing behind`() throws {
        let nginx = try Nginx()
        let client = try RawClient(port: nginx.port)
        #expect(try client.exchange("GET", "/small").text == "hello world")
        let json = try client.exchange("GET", "/json")
        #expect(json.body.count == 1024 && json["Content-Type"] == "application/json")
        #expect(try JSONSerialization.jsonObject(with: json.body) is [String: Any])
        var random = SplitMix64(seed: 1)
        let data = random.data(count: 100_000)
        try nginx.add(data, as: "f.txt")
        let range = try client.exchange("GET", "/f.txt", headers: ["Range: bytes=1000-1999"])
        #expect(range.status == 206 && range.body == data[1000..<2000] && range["ETag"] != nil)
        #expect(try client.exchange("GET", "/gzip/f.txt", headers: ["Accept-Encoding: gzip"])["Content-Encoding"] == "gzip")
        #expect(try client.exchange("POST", "/upload", body: Data(count: 2_000_000)).status == 204)
        if nginx.hasDAV {
            #expect(try client.exchange("PUT", "/dav/a/b", body: data).status == 201)
            #expect(try Data(contentsOf: nginx.uploads.appendingPathComponent("a/b")) == data)
        }
        let secure = try curl([
            "--cacert", nginx.certificateAuthority.path, "-w", "%{http_version}", nginx.secureURL("small").absoluteString,
        ])
        #expect(secure.text == "hello world2", "\(secure.errorText)")
        #expect(try curl([nginx.secureURL("small").absoluteString]).status == 60)
        let files = nginx.files.path
        nginx.stop()
        #expect(!nginx.process.isRunning && !FileManager.default.fileExists(atPath: files))
    }

    @Test(.enabled(if: Nginx.isInstalled, "not installed: \(Nginx.installHint)"))
    func `two nginx servers have different ports`() throws {
        let first = try Nginx(), second = try Nginx()
        #expect(Set([first.port, first.securePort, second.port, second.securePort]).count == 4)
        first.stop()
        #expect(try RawClient(port: second.port).exchange("GET", "/small").status == 200)
    }

    @Test(
        .enabled(if: OpenSSLServer.isInstalled, "not installed: \(OpenSSLServer.installHint)"),
        arguments: [OpenSSLServer.Version.tls12, .tls13])
    func `openssl s_server uses exactly the TLS version that the test sets`(version: OpenSSLServer.Version) throws {
        let server = try OpenSSLServer(version: version)
        let trust = ["--cacert", server.certificates.certificateAuthority.path, server.url.absoluteString]
        let result = try curl(trust)
        #expect(result.text.contains(version == .tls12 ? "TLSv1.2" : "TLSv1.3"), "\(result.errorText)")
        let other = version == .tls12 ? ["--tlsv1.3"] : ["--tls-max", "1.2"]
        #expect(try curl(other + trust).status == 35)
    }

    @Test(.enabled(if: OpenSSLServer.isInstalled, "not installed: \(OpenSSLServer.installHint)"))
    func `openssl s_server serves files, and requests a client certificate if configured`() throws {
        let directory = try TemporaryDirectory()
        try directory.write(Data("HTTP/1.0 299 Odd\r\n\r\nodd".utf8), to: "odd")
        let server = try OpenSSLServer(.responses(directory.url), requiresClientCertificate: true)
        let url = server.url.appendingPathComponent("odd").absoluteString
        let trust = ["--cacert", server.certificates.certificateAuthority.path, url]
        #expect(try curl(trust).status != 0)
        let certificates = server.certificates
        let result = try curl(
            [
                "--cert", certificates.clientCertificate.path, "--key", certificates.clientKey.path,
            ] + trust)
        #expect(result.text == "odd", "\(result.errorText)")
    }

    @Test(.enabled(if: Httpbin.isInstalled, "not installed: \(Httpbin.installHint)"))
    func `httpbin serves status codes and Brotli bodies until it is stopped`() throws {
        let httpbin = try Httpbin()
        #expect(try RawClient(port: httpbin.port).exchange("GET", "/status/418").status == 418)
        #expect(try RawClient(port: httpbin.port).exchange("GET", "/brotli")["Content-Encoding"] == "br")
        httpbin.stop()
        #expect(!httpbin.process.isRunning)
    }
}
