import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Foreign bytes in the files that a download could mistake for its own.
struct ForeignBytesTests {
    private let fixture: DownloadFixture
    private let bytes = PatternBytes.data(count: 3_000_000)

    init() throws { fixture = try DownloadFixture() }

    private func checksum(of data: Data) throws -> Checksum {
        let digest = MessageDigest(.sha256)
        digest.update(data)
        return try #require(Checksum(of: digest))
    }

    /// A server that can predict the names has sent both files under them.
    @Test func `a planted journal with its partial file is ignored`() async throws {
        fixture.server.serve(Data(bytes.reversed()), at: "/file", etag: "\"1\"") { _, response in
            response.truncated(afterBytes: 2_000_000)
        }
        await fixture.run(fixture.download(to: "other"))
        for suffix in [PartialPaths.partialSuffix, PartialPaths.journalSuffix] {
            try #require(fixture.contents("other" + suffix)).write(to: fixture.file("file.bin" + suffix))
        }
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        let download = await fixture.run(fixture.download())
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
        #expect(fixture.names.filter { !$0.hasPrefix("other") } == ["file.bin"])
    }

    /// Bytes that were combined because of a checksum may come from several sources.
    @Test func `bytes from a mirror are not resumed without the checksum`() async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.truncated(afterBytes: 1_000_000) : .status(503)
        }
        fixture.server.serve(Data(bytes.reversed()), at: "/mirror", etag: "\"1\"") { _, response in
            response.truncated(afterBytes: 500_000)
        }
        let (mirror, checksum) = (fixture.server.url("/mirror"), try checksum(of: bytes))
        await fixture.run(
            fixture.download {
                $0.mirrors = [mirror]
                $0.checksum = checksum
                $0.segmentCount = 2
            })
        #expect(fixture.names == ["file.bin.convoyjournal", "file.bin.convoypart"])
        #expect(!fixture.server.requests("/mirror").isEmpty)
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        let download = await fixture.run(fixture.download())
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
    }

    @Test func `bytes from a mirror are resumed with the checksum`() async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.truncated(afterBytes: 1_000_000) : .status(503)
        }
        fixture.server.serve(bytes, at: "/mirror", etag: "\"1\"") { _, response in response.truncated(afterBytes: 500_000) }
        let (mirror, checksum) = (fixture.server.url("/mirror"), try checksum(of: bytes))
        await fixture.run(
            fixture.download {
                $0.mirrors = [mirror]
                $0.checksum = checksum
                $0.segmentCount = 2
            })
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        fixture.server.forgetRequests()
        let download = await fixture.run(fixture.download { $0.checksum = checksum })
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
        #expect(fixture.server.requests("/file").first?.headers["Range"] != nil)
    }

    @Test(arguments: [true, false]) func `a download fails if the piece checksums do not cover the file`(
        isLengthTold: Bool
    ) async throws {
        let longer = Data(bytes.prefix(150_000))
        fixture.server.route("/file") { _ in
            let response = TestServer.Response(status: 200, body: .data(longer))
            return isLengthTold ? response : response.framed(.chunked)
        }
        let checksums = try [0..<50_000, 50_000..<100_000].map { try checksum(of: longer[$0]) }
        let pieces = try #require(PieceChecksums(length: 50_000, checksums: checksums))
        let download = await fixture.run(fixture.download { $0.pieceChecksums = pieces })
        #expect((download.error as? DownloadError)?.reason == .piecesMismatch)
        #expect(fixture.names == [])
    }

    @Test(arguments: [
        ("?sr=1", "?sr=2", false), ("?expires=1&policy=2", "?expires=1&policy=3", false), ("?jwt=1", "?jwt=2", false),
        ("?signature=1", "?signature=2", false), ("?sv=1&sp=r", "?sv=2&sp=r", false),
        ("?sv=1&sr=b&sp=r&se=1&sig=a", "?sv=2&sr=b&sp=r&se=2&sig=b", true),
        ("?id=1&X-Amz-Date=1&X-Amz-Signature=a", "?id=1&X-Amz-Date=2&X-Amz-Signature=b", true),
        ("?id=1&X-Amz-Date=1&X-Amz-Signature=a", "?id=2&X-Amz-Date=1&X-Amz-Signature=a", false),
        ("?X-Amz-Date=1", "?X-Amz-Date=2", false),
        ("?X-Goog-Date=1&x-goog-signature=a", "?X-Goog-Date=2&x-goog-signature=b", true),
        ("?AWSAccessKeyId=k&Expires=1&Signature=a", "?AWSAccessKeyId=k&Expires=2&Signature=b", true),
        ("?Expires=1&Signature=a&Key-Pair-Id=k", "?Policy=1&Signature=b&Key-Pair-Id=k", true),
    ])
    func `only signatures are ignored when URLs are compared`(_ one: String, _ other: String, _ isSame: Bool) throws {
        let one = try #require(URL(string: "http://host/file" + one))
        let other = try #require(URL(string: "http://host/file" + other))
        #expect((ResourcePlace(one) == ResourcePlace(other)) == isSame)
    }
}
