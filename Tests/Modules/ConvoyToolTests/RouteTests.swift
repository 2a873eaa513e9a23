import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Network routing options: `--proxy`, `--resolve`, `--unix-socket`, `--max-redirs`.
@Suite(.serialized) struct RouteTests {
    let scratch: Scratch
    let server: TestServer

    init() throws {
        scratch = try Scratch()
        server = try TestServer()
        server.route("/file", .text("here"))
    }

    private func get(_ arguments: [String], environment: [String: String] = [:]) async throws -> ToolProcess.Result {
        try await ToolProcess.run(["get", "-f"] + arguments, in: scratch.url, environment: environment)
    }

    private var url: String { server.url("/file").absoluteString }

    @Test(.enabled(if: SquidProxy.isInstalled, "not installed: \(SquidProxy.installHint)"))
    func `--proxy overrides the proxy of the environment and sends its password`() async throws {
        let proxy = try SquidProxy([.digest])
        let address = "http://ada:secret@localhost:\(proxy.port)"
        let result = try await get(["-x", address, url], environment: ["http_proxy": "http://127.0.0.1:1"])
        #expect(result.status == 0, "\(result.errors)")
        #expect(server.requests.first?.headers["Via"]?.contains(proxy.name) == true)
        let wrong = try await get(["-x", "http://ada:wrong@localhost:\(proxy.port)", url])
        #expect(wrong.status == 7 && wrong.errors.contains("407") && !wrong.errors.contains("wrong"), "\(wrong.errors)")
    }

    @Test func `an empty --proxy and --noproxy connect directly to the server`() async throws {
        let dead = "http://127.0.0.1:1"
        #expect(try await get(["-x", dead, url]).status == 4)
        #expect(try await get(["-x", "", url], environment: ["http_proxy": dead]).status == 0)
        #expect(try await get(["-x", dead, "--noproxy", "127.0.0.0/8", url]).status == 0)
    }

    @Test func `--resolve sets the address of a host`() async throws {
        let port = server.port
        let result = try await get(["--resolve", "files.invalid:\(port):127.0.0.1", "http://files.invalid:\(port)/file"])
        #expect(result.status == 0, "\(result.errors)")
        #expect(server.requests.first?.headers["Host"] == "files.invalid:\(port)")
    }

    @Test func `--unix-socket replaces the connection to any host`() async throws {
        let socket = scratch.url.appendingPathComponent("socket").path
        let unix = try UnixServer(socket)
        let result = try await get(["--unix-socket", socket, "http://any.invalid/file"])
        #expect(result.status == 0 && unix.requests.first?.contains("Host: any.invalid") == true, "\(result.errors)")
    }

    @Test func `--max-redirs limits the number of redirects`() async throws {
        for number in 0..<4 { server.redirect("/\(number)", to: number == 3 ? "/file" : "/\(number + 1)") }
        let first = server.url("/0").absoluteString
        #expect(try await get(["--max-redirs", "4", first]).status == 0)
        let result = try await get(["--max-redirs", "3", first])
        #expect(result.status == 1 && result.errors.contains("3 redirects"), "\(result.errors)")
        let answer = try await get(["--max-redirs", "0", first])
        #expect(answer.status == 7 && answer.errors.contains("(302)"), "\(answer.errors)")
    }
}
