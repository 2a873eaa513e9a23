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

    @Test(arguments: [("-0", "HTTP/1.0"), ("--http1.0", "HTTP/1.0"), ("--http1.1", "HTTP/1.1")])
    func `the HTTP version can be set`(option: String, version: String) async throws {
        server.route(nil, "/file", .text("here"))
        #expect(try await get([option, url]).status == 0)
        let sent = try await ToolProcess.run(["send", "POST", option, url, "a=b", "Expect:100-continue"], in: scratch.url)
        #expect(sent.status == 0, "\(sent.errors)")
        #expect(server.requests.map(\.version) == [version, version])
        #expect(server.requests.map { $0.headers["Transfer-Encoding"] } == [nil, nil])
        #expect((server.requests.last?.headers["Expect"] == nil) == (version == "HTTP/1.0"))
        let command = try await ToolProcess.run(["send", option, "--curl", url], in: scratch.url)
        #expect(command.output.contains(version == "HTTP/1.0" ? "--http1.0" : "--http1.1"), "\(command.output)")
        let both = try await get(["-0", "--http1.1", url])
        #expect(both.status == 2 && both.errors.contains("--http1.1 and --http1.0 cannot be combined"), "\(both.errors)")
    }

    @Test func `HAR contains the version of the request`() async throws {
        #expect(try await get(["-0", "--har", "log.har", url]).status == 0)
        let versions = try scratch.text("log.har").split(separator: "\"httpVersion\"").dropFirst().map {
            String($0.drop { $0 != "H" }.prefix { $0 != "\"" })
        }
        #expect(versions == ["HTTP/1.0", "HTTP/1.1"])
    }

    @Test(arguments: [
        ("/a/../b", "/a/../b", "/b", "b"), ("/a/..", "/a/..", "/", "_."), ("/a/../.", "/a/../.", "/", "_"),
        ("/../../etc/..%2fpasswd", "/../../etc/..%2fpasswd", "/etc/..%2fpasswd", "_._passwd"),
        ("/a/../b c\u{E9}", "/a/../b%20c%C3%A9", "/b%20c%C3%A9", "b c\u{E9}"),
    ])
    func `--path-as-is sends the path as written`(
        path: String, written: String, resolved: String, name: String
    ) async throws {
        server.route(nil, "/*", .text("x"))
        let url = server.url("").absoluteString + path
        let directory = scratch.url.appendingPathComponent("new")
        let result = try await get(["--path-as-is", "-d", "new", url])
        #expect(result.status == 0, "\(result.errors)")
        // The file stays in its directory.
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == [name])
        try scratch.write("\(url)\n out=\(name).2\n", to: "list")
        #expect(try await get(["--path-as-is", "-d", "new", "-i", "list"]).status == 0)
        #expect(try await ToolProcess.run(["send", "--path-as-is", url], in: scratch.url).status == 0)
        #expect(server.requests.map(\.target) == [written, written, written])
        let save = try await ToolProcess.run(["send", "--path-as-is", "--save", "m.yaml", url], in: scratch.url)
        #expect(save.status == 0 && !save.errors.contains("not saved"), "\(save.errors)")
        #expect(try await ToolProcess.run(["run", "m.yaml"], in: scratch.url).status == 0)
        let command = try await ToolProcess.run(["send", "--path-as-is", "--curl", url], in: scratch.url)
        #expect(command.output.contains("--path-as-is"), "\(command.output)")
        #expect(Set(server.requests.map(\.target)) == [written])
        let offline = try await ToolProcess.run(["send", "--path-as-is", "--offline", url], in: scratch.url)
        #expect(offline.output.hasPrefix("GET \(server.url.absoluteString)\(written)\n"), "\(offline.output)")
        server.forgetRequests()
        _ = try await get(["-d", "new", url])
        _ = try await ToolProcess.run(["send", url], in: scratch.url)
        #expect(server.requests.map(\.target) == [resolved, resolved])
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
