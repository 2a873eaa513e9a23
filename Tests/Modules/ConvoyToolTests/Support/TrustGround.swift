import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// A TLS server with its own authority, and two directories: the working directory of the tool, and one for certificates and
/// keys.
struct TrustGround {
    let root: TestCertificate
    let identity: TestCertificate
    let server: TestServer
    let scratch: Scratch
    let files: Scratch

    init() throws {
        root = try TestCertificate.root()
        identity = try root.issue(.authority("Between")).issue(.server("localhost", "127.0.0.1"))
        server = try TestServer(tls: TestServer.TLS(identity))
        server.route("/file", .text("hello"))
        scratch = try Scratch()
        files = try Scratch()
        try root.write(to: files.url, name: "root")
    }
}

/// The common parts of tests of TLS options.
protocol TrustSuite {
    var ground: TrustGround { get }
}

extension TrustSuite {
    var root: TestCertificate { ground.root }
    var identity: TestCertificate { ground.identity }
    var server: TestServer { ground.server }
    /// The working directory of the tool.
    var scratch: Scratch { ground.scratch }
    /// The directory for certificates and keys.
    var files: Scratch { ground.files }

    var authority: String { path("root.pem") }
    var pin: String { identity.publicKeyPin }
    static var otherPin: String { "sha256/" + Data(repeating: 7, count: 32).base64EncodedString() }

    func path(_ name: String) -> String { files.url.appendingPathComponent(name).path }

    func get(_ arguments: String..., url: URL? = nil) async throws -> ToolProcess.Result {
        try await get(arguments, url: url)
    }

    func get(_ arguments: [String], url: URL? = nil) async throws -> ToolProcess.Result {
        try await ToolProcess.run(["get"] + arguments + [(url ?? server.url("/file")).absoluteString], in: scratch.url)
    }

    func expectFile(_ result: ToolProcess.Result, sourceLocation: SourceLocation = #_sourceLocation) throws {
        #expect(result.status == 0, "\(result.errors)", sourceLocation: sourceLocation)
        #expect(scratch.names == ["file"], sourceLocation: sourceLocation)
        #expect(try scratch.text("file") == "hello", sourceLocation: sourceLocation)
    }

    /// Expects one line that names the problem, no file, and no bytes of a request at the server.
    func expectRefusal(
        _ result: ToolProcess.Result, _ words: String..., at other: TestServer? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(result.status == 5, sourceLocation: sourceLocation)
        #expect(result.errorLines.count == 1, "\(result.errors)", sourceLocation: sourceLocation)
        for word in words {
            #expect(result.errors.contains(word), "\(result.errors)", sourceLocation: sourceLocation)
        }
        #expect(result.output.isEmpty, sourceLocation: sourceLocation)
        expectNothingSent(at: other ?? server, sourceLocation: sourceLocation)
    }

    func expectUsageError(
        _ result: ToolProcess.Result, _ words: String, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(result.status == 2, sourceLocation: sourceLocation)
        #expect(result.errorLines.count == 1, "\(result.errors)", sourceLocation: sourceLocation)
        #expect(result.errors.hasPrefix("convoy: "), sourceLocation: sourceLocation)
        #expect(result.errors.contains(words), "\(result.errors)", sourceLocation: sourceLocation)
        #expect(result.output.isEmpty, sourceLocation: sourceLocation)
        #expect(server.statistics.totalConnectionCount == 0, sourceLocation: sourceLocation)
        expectNothingSent(at: server, sourceLocation: sourceLocation)
    }

    func expectNothingSent(at server: TestServer, sourceLocation: SourceLocation) {
        #expect(server.statistics.plaintextByteCount == 0, sourceLocation: sourceLocation)
        #expect(server.requests.isEmpty, sourceLocation: sourceLocation)
        #expect(scratch.names.isEmpty, sourceLocation: sourceLocation)
    }

    /// Returns a server that accepts only clients with a certificate of the authority, and such a certificate.
    func members() throws -> (server: TestServer, ada: TestCertificate) {
        var tls = TestServer.TLS(identity)
        tls.clientCertificates = .required
        tls.clientAuthorities = [root]
        let server = try TestServer(tls: tls)
        server.route("/file", .text("hello"))
        return (server, try root.issue(.client("ada")))
    }
}
