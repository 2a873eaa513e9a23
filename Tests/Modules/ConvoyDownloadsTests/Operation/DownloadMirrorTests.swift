import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Downloads in which one source starts to send a different file, and another source continues with the existing bytes.
struct DownloadMirrorTests {
    private let fixture: DownloadFixture
    private let bytes = PatternBytes.data(count: 3_000_000)

    init() throws { fixture = try DownloadFixture() }

    @Test func `a mirror resumes the stored bytes if their replacement fails before its first byte`() async {
        // Twice, the server first fails, and then starts a response with a different file, of which it sends no bytes.
        let answers = Locked(0)
        fixture.server.serve(Data(bytes.reversed()), at: "/file", etag: "\"2\"") { _, response in
            let isFirst = answers.withLock { count in
                count += 1
                return count == 1
            }
            return isFirst ? .status(503) : response.truncated(afterBytes: 0)
        }
        fixture.server.serve(bytes, at: "/mirror", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.truncated(afterBytes: 2_000_000) : response
        }
        let url = fixture.server.url("/mirror")
        let download = await fixture.run(
            fixture.download {
                $0.mirrors = [url]
                var policy = RetryPolicy(maximumRetryCount: 3)
                policy.initialDelay = 0.005
                policy.budget = nil
                $0.retryPolicy = policy
            })
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
        #expect(fixture.server.requests("/mirror").last?.headers["Range"] == "bytes=2000000-")
    }

    @Test func `a mirror sends only missing bytes if a replacement fails before its first byte`() async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in response.truncated(afterBytes: 2_000_000) }
        await fixture.run(fixture.download())
        fixture.server.serve(bytes, at: "/file", etag: "\"2\"") { _, response in response.truncated(afterBytes: 0) }
        fixture.server.serve(bytes, at: "/mirror", etag: "\"1\"")
        let digest = MessageDigest(.sha256)
        digest.update(bytes)
        let checksum = try #require(Checksum(of: digest))
        let url = fixture.server.url("/mirror")
        let download = await fixture.run(
            fixture.download {
                $0.mirrors = [url]
                $0.checksum = checksum
            })
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
        #expect(fixture.server.requests("/mirror").map { $0.headers["Range"] } == ["bytes=2000000-"])
    }

    /// The server is briefly unavailable, the mirror sends wrong bytes, and the next attempt begins without a file.
    @Test(.timeLimit(.minutes(1))) func `the next attempt starts over if a mirror has sent only wrong bytes`() async throws {
        let answers = Locked(0)
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in
            let isFirst = answers.withLock { count in
                count += 1
                return count == 1
            }
            return isFirst ? response.failing(.closeBeforeHead) : response
        }
        let wrong = Data(bytes.reversed())
        fixture.server.route("/mirror") { _ in TestServer.Response(status: 200, body: .data(wrong)).framed(.chunked) }
        let url = fixture.server.url("/mirror")
        let pieces = try pieces(of: bytes, length: 1_000_000)
        let download = await fixture.run(
            fixture.download {
                $0.mirrors = [url]
                $0.pieceChecksums = pieces
                $0.segmentCount = 3
                var policy = RetryPolicy(maximumRetryCount: 3)
                policy.initialDelay = 0.005
                policy.budget = nil
                $0.retryPolicy = policy
            })
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
        #expect(fixture.names == ["file.bin"])
    }

    /// If two sources have sent parts of a piece, it is unknown which of them is wrong.
    @Test func `an honest server is still used if a mirror sends wrong bytes of the same piece`() async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        fixture.server.serve(Data(bytes.reversed()), at: "/liar", etag: "\"1\"")
        fixture.server.route("/away") { _ in .status(503) }
        let mirrors = [fixture.server.url("/liar"), fixture.server.url("/away")]
        let pieces = try pieces(of: bytes, length: 1_000_000)
        let download = await fixture.run(
            fixture.download {
                $0.mirrors = mirrors
                $0.pieceChecksums = pieces
                $0.segmentCount = 2
            })
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
        #expect(fixture.server.requests("/liar").first?.headers["Range"] == "bytes=1507328-")
    }

    /// A process that has ended has left part of a piece, and it was wrong.
    @Test func `an honest server is still used if an earlier download left wrong bytes`() async throws {
        fixture.server.serve(Data(bytes.reversed()), at: "/file", etag: "\"1\"") { _, response in
            response.truncated(afterBytes: 1_500_000)
        }
        await fixture.run(fixture.download())
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        let pieces = try pieces(of: bytes, length: 1_000_000)
        let download = await fixture.run(fixture.download { $0.pieceChecksums = pieces })
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
    }

    private func pieces(of data: Data, length: Int) throws -> PieceChecksums {
        let checksums = try stride(from: 0, to: data.count, by: length).map { start in
            let digest = MessageDigest(.sha256)
            digest.update(data[start..<min(start + length, data.count)])
            return try #require(Checksum(of: digest))
        }
        return try #require(PieceChecksums(length: Int64(length), checksums: checksums))
    }

    @Test func `a file of unexpected length is rejected even if its length is not announced`() async {
        let count = Locked(0)
        fixture.server.route("/file") { _ in
            count.withLock { $0 += 1 }
            return .pattern(count: 90_000).framed(.chunked)
        }
        let download = await fixture.run(
            fixture.download {
                $0.expectedLength = 100_000
                var policy = RetryPolicy(maximumRetryCount: 2)
                policy.initialDelay = 0.005
                policy.budget = nil
                $0.retryPolicy = policy
            })
        #expect((download.error as? DownloadError)?.reason == .unexpectedLength(expected: 100_000, actual: 90_000))
        #expect(fixture.names == [])
    }

    @Test func `a mirror at another origin receives no credentials or sensitive headers`() async throws {
        let other = try TestServer()
        defer { other.stop() }
        fixture.server.route("/file", .status(503))
        other.route("/file") { request in
            request.headers["Authorization"] == nil
                ? TestServer.Response.status(401, headers: ["WWW-Authenticate": "Basic realm=\"mirror\""]) : .text("told")
        }
        let url = other.url("/file")
        let download = fixture.download {
            $0.mirrors = [url]
            $0.credential = URLCredential(user: "ada", password: "secret", persistence: .none)
            $0.connectionConfiguration.sensitiveHeaders = ["X-Api-Key"]
        }
        download.prepare = { request in
            for name in ["Authorization", "Cookie", "X-Api-Key", "X-Plain", "Accept"] {
                request.setValue("1", forHTTPHeaderField: name)
            }
        }
        await fixture.run(download)
        #expect(fixture.server.requests("/file").first?.headers["X-Api-Key"] == "1")
        #expect(!other.requests.isEmpty)
        for request in other.requests {
            for name in ["Authorization", "Cookie", "X-Api-Key", "X-Plain"] {
                #expect(request.headers[name] == nil, "\(name)")
            }
            #expect(request.headers["Accept"] == "1")
        }
        #expect(download.statusCode == 401)
    }

    @Test(arguments: [("https://first/mirror", true), ("https://other/mirror", false), ("http://first/mirror", false)])
    func `the client certificate is presented only to the first origin`(_ mirror: String, _ isShown: Bool) throws {
        let parent = HTTPRequestOperation(request: URLRequest(url: try #require(URL(string: "https://first/file"))))
        parent.connectionConfiguration.clientIdentity = ClientIdentity(certificate: fixture.file("certificate.pem"))
        let part = HTTPRequestOperation(request: URLRequest(url: try #require(URL(string: mirror))))
        part.adoptSettings(of: parent, decoding: false)
        #expect((part.connectionConfiguration.clientIdentity != nil) == isShown)
    }

    @Test func `parts use the settings and the credential store of their own download`() {
        let parents = (0..<2).map { _ in HTTPRequestOperation(request: URLRequest(url: fixture.server.url("/file"))) }
        func part(of parent: HTTPRequestOperation) -> HTTPRequestOperation {
            let part = HTTPRequestOperation(request: parent.request)
            part.adoptSettings(of: parent, decoding: false)
            return part
        }
        for parent in parents + parents { #expect(part(of: parent).credentialStore === parent.credentialStore) }
        #expect(parents[0].credentialStore !== parents[1].credentialStore)
        parents[0].maximumBodySize = 7
        #expect(part(of: parents[0]).maximumBodySize == 7)
        #expect(part(of: parents[1]).maximumBodySize != 7)
    }

    @Test func `a file of a Metalink is stored in the directory under its name`() async throws {
        fixture.server.route("/broken", .status(503))
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        let urls = ["/broken", "/file"].map { "<url>\(fixture.server.url($0).absoluteString)</url>" }.joined()
        let metalink = try MetalinkText.parse(MetalinkText.file(urls, name: "folder/a.iso"))
        try FileManager.default.createDirectory(at: fixture.file("folder"), withIntermediateDirectories: false)
        let download = try DownloadOperation(try #require(metalink.files.first), directory: fixture.directory.url)
        download.completionQueue = .global()
        await fixture.run(download)
        #expect(download.error == nil)
        #expect(download.fileURL?.path == fixture.file("folder/a.iso").path)
        #expect(fixture.contents("folder/a.iso") == bytes)
    }

    @Test func `a mirror at the same origin receives the same headers`() async {
        fixture.server.route("/file", .status(503))
        fixture.server.route("/mirror", .text("here"))
        let url = fixture.server.url("/mirror")
        let download = fixture.download { $0.mirrors = [url] }
        download.prepare = { $0.setValue("1", forHTTPHeaderField: "Authorization") }
        await fixture.run(download)
        #expect(fixture.server.requests("/mirror").first?.headers["Authorization"] == "1")
        #expect(fixture.contents() == Data("here".utf8))
    }

    @Test func `access tokens are not sent to mirrors at other origins`() async throws {
        let other = try TestServer()
        defer { other.stop() }
        fixture.server.route("/file", .status(503))
        other.route("/file", .text("here"))
        let url = other.url("/file")
        let download = fixture.download {
            $0.mirrors = [url]
            $0.authenticator = Authenticator(token: AccessToken("secret")) { _ in AccessToken("secret") }
        }
        await fixture.run(download)
        #expect(fixture.server.requests("/file").first?.headers["Authorization"] == "Bearer secret")
        #expect(other.requests.map { $0.headers["Authorization"] } == [nil])
        #expect(fixture.contents() == Data("here".utf8))
    }

    @Test func `duplicates announced by the server are used as mirrors only if enabled`() async {
        let link = "<\(fixture.server.url("/mirror").absoluteString)>; rel=duplicate"
        for isWanted in [false, true] {
            fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in
                response.truncated(afterBytes: 1_000_000).header("Link", link)
            }
            fixture.server.serve(bytes, at: "/mirror", etag: "\"1\"")
            fixture.server.forgetRequests()
            let download = await fixture.run(
                fixture.download(to: "\(isWanted)") { if isWanted { $0.usesServerMirrors = true } })
            #expect((download.error == nil) == isWanted)
            #expect(fixture.server.requests("/mirror").isEmpty != isWanted)
        }
    }
}
