import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// The tool with a proxy from the environment.
@Suite(.serialized) struct ProxyTests {
    let scratch: Scratch

    init() throws { scratch = try Scratch() }

    private func get(_ url: String, through proxy: String, authorities: URL? = nil) async throws -> ToolProcess.Result {
        var environment = ["https_proxy": proxy, "no_proxy": "", "NO_PROXY": ""]
        environment["SSL_CERT_FILE"] = authorities?.path
        return try await ToolProcess.run(["get", url], in: scratch.url, environment: environment)
    }

    @Test func `a proxy that responds instead of an https server fails the run and leaves no file`() async throws {
        let evil = try TestServer()
        evil.route(nil, "/*", .text("forged"))
        let fields = "Content-Length: 6\r\n\r\nforged"
        let answers: [ConnectProxy.Behaviour] =
            [301, 302, 303, 307, 308].map {
                .says("HTTP/1.1 \($0) Moved\r\nLocation: \(evil.url("/secret").absoluteString)\r\n\(fields)")
            } + [
                .says("HTTP/1.1 200 OK\r\n\(fields)"),
                .says("\(ConnectProxy.established)HTTP/1.1 200 OK\r\n\(fields)"),
                .says("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-5/6\r\n\(fields)"),
                .says("HTTP/1.1 404 Not Found\r\n\(fields)"),
                .says("HTTP/1.1 407 Proxy Authentication Required\r\n\(fields)"),
                .says("HTTP/1.1 502 Bad Gateway\r\n\(fields)"),
                .says("HTTP/1.1 302 Found\r\n"), .says(""),
            ]
        for answer in answers {
            let proxy = try ConnectProxy(answer)
            defer { proxy.stop() }
            let result = try await get("https://bank.invalid/secret", through: proxy.address)
            #expect([4, 5].contains(result.status), "\(answer): \(result.output)")
            #expect(scratch.names.isEmpty, "\(answer)")
            #expect(result.errorLines.count == 1 && result.errors.hasPrefix("convoy: https://bank.invalid/secret: "))
            #expect(evil.requests.isEmpty, "\(answer) was followed")
        }
    }

    @Test(
        .enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"),
        .enabled(if: Tinyproxy.isInstalled, "needs \(Tinyproxy.installHint)"))
    func `a real proxy delivers a file byte for byte; a server it does not allow is a failure`() async throws {
        let nginx = try Nginx()
        let bytes = PatternBytes.data(count: 3_000_000)
        _ = try nginx.add(bytes, as: "file.bin")
        let proxy = try Tinyproxy(connectPorts: [nginx.securePort])
        let good = try await get(
            nginx.secureURL("file.bin").absoluteString, through: proxy.address, authorities: nginx.certificateAuthority)
        #expect(good.status == 0, "\(good.errors)")
        #expect(try scratch.data("file.bin") == bytes)

        let bad = try await get(
            "https://localhost:\(nginx.port)/other.bin", through: proxy.address, authorities: nginx.certificateAuthority)
        #expect(bad.status == 4)
        #expect(scratch.names == ["file.bin"])
    }
}
