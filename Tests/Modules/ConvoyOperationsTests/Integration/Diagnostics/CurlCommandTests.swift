import ConvoySecurity
import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyDiagnostics
@testable import ConvoyOperations

private let hasCurl = FileManager.default.isExecutableFile(atPath: "/usr/bin/curl")

/// Tests that curl commands send the same request as their operation.
@Suite(.enabled(if: hasCurl, "the curl tool is not installed")) struct CurlCommandTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route(nil, "/*", .text(""))
    }

    /// Sends a request with an operation and with its command, and returns both received requests.
    private func send(_ request: URLRequest) async throws -> (operation: RecordedRequest, command: RecordedRequest) {
        server.forgetRequests()
        let operation = HTTPRequestOperation(request: request)
        operation.completionQueue = testQueue
        let command = operation.curlCommand(includingSecrets: true)
        operation.start()
        try? await operation.finished()
        let result = try ProcessRunner.run("/bin/sh", ["-c", command])
        #expect(result.status == 0, "\(command)\n\(result.errorText)")
        try #require(server.requests.count == 2, "\(command)")
        return (server.requests[0], server.requests[1])
    }

    private func expectSame(_ request: URLRequest) async throws {
        let (own, other) = try await send(request)
        #expect(own.method == other.method && own.target == other.target && own.body == other.body)
        func lines(_ request: RecordedRequest) -> [String] {
            request.headers.fields.map { "\($0.name): \($0.value)" }.sorted()
        }
        #expect(lines(own) == lines(other))
    }

    private func request(_ method: String = "GET", _ path: String = "/x") -> URLRequest {
        var request = URLRequest(url: server.url(path))
        request.httpMethod = method
        return request
    }

    @Test(arguments: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "M-SEARCH", "!#$%&'*+.^_`|~"])
    func `the command reproduces every method, with and without a body`(method: String) async throws {
        var request = request(method)
        try await expectSame(request)
        // With a request body, curl would wait for a response body, which a HEAD does not have.
        guard method != "HEAD" else { return }
        request.httpBody = Data("a=b".utf8)
        try await expectSame(request)
        request.setValue("text/plain", forHTTPHeaderField: "Content-Type")
        try await expectSame(request)
    }

    @Test(arguments: [
        "", " ", "@file", "a'b", "'", "''", #"a"b\c"#, "$HOME", "$(id)", "`id`", "a;b&c|d", "*", "~", "-x", "--", "a\tb",
        "#x", "!x", "é", "\u{9B}31m", "\u{202E}x", "a=b", "x,y", "<>", "{a,b}", "[1-3]", "%s", "%41", "\\n",
    ])
    func `the command repeats every header value`(value: String) async throws {
        var request = request()
        request.allHTTPHeaderFields = ["X-Value": value, "Accept": value, "User-Agent": value]
        try await expectSame(request)
    }

    @Test(arguments: [
        "/a?x=[1]&y={a,b}", "/a%20b?c=%5B", "/a'b", "/$HOME?`id`=$(id)", "/a?b&c#d", "/a;b?c=d;e", "/~*!", "/%E2%98%83?%FF",
    ])
    func `the command repeats every URL`(path: String) async throws { try await expectSame(request("GET", path)) }

    @Test(arguments: [
        "", "@/etc/passwd", "@", "a\nb\n", "\n", "\r\n", "'", "a'b'c", #"\"#, #"\n"#, "$HOME `id` $(id)", "%s %d %%", "-n",
        "--data", "é ☃ 😀", "\u{FEFF}x", "a\0b", "\u{1B}[2J", "\u{7F}", String(repeating: "x'\n", count: 20_000),
    ])
    func `the command sends every text as a body`(body: String) async throws {
        var request = request("POST")
        request.httpBody = Data(body.utf8)
        try await expectSame(request)
    }

    @Test func `the command reproduces random headers and bodies exactly`() async throws {
        var random = SplitMix64.printingSeed()
        for _ in 0..<40 {
            var request = request(["POST", "PUT", "GET", "DELETE"].randomElement(using: &random) ?? "POST")
            var fields: [String: String] = [:]
            for number in 0..<Int.random(in: 0...5, using: &random) {
                let scalars = (0..<Int.random(in: 1...20, using: &random)).map { _ in
                    Unicode.Scalar(UInt32.random(in: 0x20...0x2FF, using: &random)) ?? "x"
                }
                let value = String(String.UnicodeScalarView(scalars.filter { $0 != "\u{7F}" }))
                fields["X-Generated-\(number)"] = value.trimmingCharacters(in: .whitespaces)
            }
            request.allHTTPHeaderFields = fields
            let bytes = (0..<Int.random(in: 0...600, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
            if Bool.random(using: &random) { request.httpBody = Data(bytes) }
            try await expectSame(request)
        }
    }

    @Test func `the command sends the fields that the engine adds`() async throws {
        var request = request()
        request.cachePolicy = .reloadIgnoringLocalCacheData
        try await expectSame(request)
        request.setValue("bytes=1-2", forHTTPHeaderField: "Range")
        request.setValue("example.org", forHTTPHeaderField: "Host")
        try await expectSame(request)
        request.setValue("identity;q=0", forHTTPHeaderField: "Accept-Encoding")
        try await expectSame(request)
        request = self.request("POST")
        request.httpBody = Data(repeating: 65, count: 50_000)
        request.setValue("7", forHTTPHeaderField: "Content-Length")
        request.setValue("Basic YTpi", forHTTPHeaderField: "Authorization")
        try await expectSame(request)
    }

    // MARK: Route and client identity

    /// Runs the command of an operation.
    private func run(_ operation: HTTPRequestOperation) throws -> String {
        let command = operation.curlCommand(includingSecrets: true)
        let result = try ProcessRunner.run(
            "/bin/sh", ["-c", command], environment: ["http_proxy": "http://127.0.0.1:1", "no_proxy": "localhost"])
        #expect(result.status == 0, "\(command)\n\(result.errorText)")
        return result.text
    }

    private func operation(
        _ url: URL, _ change: (inout ConnectionConfiguration) throws -> Void = { _ in }
    ) rethrows -> HTTPRequestOperation {
        let operation = HTTPRequestOperation(request: URLRequest(url: url))
        try change(&operation.connectionConfiguration)
        return operation
    }

    @Test func `the command uses the operation's route: no proxy, a fixed or local address, a Unix socket`() throws {
        server.route("/way", .text("here"))
        #expect(try run(operation(server.url("/way")) { $0.proxy = .none }) == "here")
        let away = try #require(URL(string: "http://files.invalid:\(server.port)/way"))
        let fixed = try operation(away) { configuration in
            configuration.proxy = .none
            configuration.addressOverrides["files.invalid"] = "127.0.0.1"
            configuration.connectionSource = .address(try #require(IPAddress("127.0.0.1")))
        }
        #expect(try run(fixed) == "here")
        let directory = try TemporaryDirectory()
        for name in [directory.file("it's a socket").path, "@convoy-\(UUID())"] {
            let unix = try UnixServer(name)
            #expect(try run(operation(away) { $0.unixSocket = name }).hasPrefix("GET /way HTTP/1.1"), "\(name)")
            #expect(unix.connectionCount == 1)
        }
    }

    @Test(.enabled(if: SquidProxy.isInstalled, "not installed: \(SquidProxy.installHint)"))
    func `the command uses the operation's proxy and its password`() throws {
        server.route("/way", .text("here"))
        let squid = try SquidProxy([.digest])
        let credential = ProxyCredential(user: SquidProxy.user, password: SquidProxy.password)
        let proxy = try Proxy(.http, host: "localhost", port: Int(squid.port), credential: credential)
        #expect(try run(operation(server.url("/way")) { $0.proxy = .proxy(proxy) }) == "here")
        #expect(server.requests("/way").last?.headers["Via"]?.contains(squid.name) == true)
        let excepting = operation(server.url("/way")) { $0.proxy = .proxy(proxy, except: ["127.0.0.1"]) }
        #expect(try run(excepting) == "here" && server.requests("/way").last?.headers["Via"] == nil)
        #expect(!excepting.curlCommand().contains(SquidProxy.password))
    }

    @Test func `curl reads one revocation list, and the command notes that others exist`() throws {
        let lists = ["/lists/a.pem", "/lists/b.pem"].map { URL(fileURLWithPath: $0) }
        let operation = operation(try #require(URL(string: "https://a.test/"))) { $0.proxy = .none }
        for count in 1...2 {
            operation.connectionConfiguration.securityPolicy.revocationLists = Array(lists.prefix(count))
            let command = operation.curlCommand()
            #expect(command.contains("--crlfile /lists/a.pem") && !command.contains("b.pem"))
            #expect(command.contains("with only the first of its revocation lists") == (count == 2))
        }
    }

    @Test func `credentials and tokens are sent, and shown only on request`() throws {
        server.route("/asks") { request in
            request.headers["Authorization"].map { .text($0) } ?? .status(401).header("WWW-Authenticate", "Basic realm=a")
        }
        let login = operation(server.url("/asks")) { $0.proxy = .none }
        login.credential = URLCredential(user: "ada", password: "it's", persistence: .none)
        #expect(try run(login) == "Basic \(Data("ada:it's".utf8).base64EncodedString())")
        let bearer = operation(server.url("/asks")) { $0.proxy = .none }
        bearer.authenticator = Authenticator(token: AccessToken("s3cret")) { _ in AccessToken("other") }
        #expect(try run(bearer) == "Bearer s3cret")
        #expect(!bearer.curlCommand().contains("s3cret") && !login.curlCommand().contains("ada"))
    }
}
