import ConvoySecurity
import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

private let hasCurl = FileManager.default.isExecutableFile(atPath: "/usr/bin/curl")

/// The command sends what the operation sends.
@Suite(.enabled(if: hasCurl, "the curl tool is not installed")) struct CurlCommandTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route(nil, "/*", .text(""))
    }

    /// The requests that the operation and its command send.
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
    func `every method, with and without a body`(method: String) async throws {
        var request = request(method)
        try await expectSame(request)
        // curl waits for the body that a HEAD does not have.
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
    func `every header value`(value: String) async throws {
        var request = request()
        request.allHTTPHeaderFields = ["X-Value": value, "Accept": value, "User-Agent": value]
        try await expectSame(request)
    }

    @Test(arguments: [
        "/a?x=[1]&y={a,b}", "/a%20b?c=%5B", "/a'b", "/$HOME?`id`=$(id)", "/a?b&c#d", "/a;b?c=d;e", "/~*!", "/%E2%98%83?%FF",
    ])
    func `every URL`(path: String) async throws { try await expectSame(request("GET", path)) }

    @Test(arguments: [
        "", "@/etc/passwd", "@", "a\nb\n", "\n", "\r\n", "'", "a'b'c", #"\"#, #"\n"#, "$HOME `id` $(id)", "%s %d %%", "-n",
        "--data", "é ☃ 😀", "\u{FEFF}x", "a\0b", "\u{1B}[2J", "\u{7F}", String(repeating: "x'\n", count: 20_000),
    ])
    func `every text as a body`(body: String) async throws {
        var request = request("POST")
        request.httpBody = Data(body.utf8)
        try await expectSame(request)
    }

    @Test func `generated headers and bodies`() async throws {
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

    @Test func `the fields that the engine adds`() async throws {
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
}
