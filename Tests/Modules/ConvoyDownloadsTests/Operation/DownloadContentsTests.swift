import ConvoyDownloads
import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// The contents of the file and of its journal.
struct DownloadContentsTests {
    private let fixture: DownloadFixture
    private let bytes = PatternBytes.data(count: 3_000_000)

    init() throws { fixture = try DownloadFixture() }

    @Test func `encoded bodies are decoded, but archives are not`() async {
        for (path, isDecoded) in [("/table", true), ("/table.gz", false)] {
            let resource = fixture.server.route(path, behaving: .gzip, size: 10_000)
            let name = isDecoded ? "decoded" : "archive"
            let download = await fixture.run(fixture.download(path, to: name))
            #expect(download.error == nil)
            #expect((fixture.contents(name) == resource.firstVersion) == isDecoded)
            #expect(fixture.contents(name)?.starts(with: [0x1F, 0x8B]) == !isDecoded)
        }
    }

    @Test(arguments: [1, 4], [404, 500])
    func `an acceptable error status fails the download after one request`(segments: Int, status: Int) async {
        fixture.server.route("/file", .text("no such file", status: status))
        let download = await fixture.run(
            fixture.download {
                $0.responseSerializer.http.acceptableStatusCodes = nil
                $0.segmentCount = segments
                $0.retryPolicy = nil
            })
        #expect((download.error as? HTTPError)?.statusCode == status, "\(String(describing: download.error))")
        #expect(fixture.server.requests.count == 1 && fixture.contents() == nil)
    }

    private final class RefusingSink: BodySink, @unchecked Sendable {
        weak var operation: URLConnectionOperation?
        func accepts(_ response: ResponseHead) -> Bool? {
            operation?.cancel()
            return false
        }
        func begin(_ response: ResponseHead, discarding count: Int64) {}
        func write(_ bytes: UnsafeRawBufferPointer) {}
    }

    @Test func `no bytes of a rejected response are received`() async {
        fixture.server.servePattern(count: 32 << 20, at: "/file", etag: "\"1\"")
        let operation = HTTPRequestOperation(request: URLRequest(url: fixture.server.url("/file")))
        operation.completionQueue = .global()
        let sink = RefusingSink()
        sink.operation = operation
        operation.setBodySink(sink)
        fixture.queue.addOperation(operation)
        try? await operation.finished()
        #expect(operation.transferProgress.bytesReceived == 0)
    }

    @Test func `the journal is accessible only to its owner and contains no secrets of the URL`() async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in response.truncated(afterBytes: 2_000_000) }
        await fixture.run(fixture.download("/file?token=hidden"))
        let journal = fixture.file("file.bin.convoyjournal")
        let text = String(decoding: try Data(contentsOf: journal), as: UTF8.self)
        #expect(text.contains("/file?token="))
        #expect(!text.contains("hidden"))
        let attributes = try FileManager.default.attributesOfItem(atPath: journal.path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
    }

    @Test(arguments: [("X-Amz-Signature", true), ("version", false)])
    func `a URL that differs only in its signature identifies the same resource`(item: String, isSame: Bool) async {
        let server = fixture.server
        for number in 0..<2 {
            server.redirect("/file", to: "/store?\(item)=\(number)")
            server.serve(bytes, at: "/store", etag: "\"1\"") { request, response in
                number == 0 ? response.truncated(afterBytes: 2_000_000) : response
            }
            await fixture.run(fixture.download())
        }
        #expect(fixture.contents() == bytes)
        #expect(server.requests("/store").map { $0.headers["Range"] }.contains(nil))
        #expect(server.requests("/store").dropFirst().contains { $0.headers["Range"] == nil } != isSame)
    }

    @Test func `validators stored in extended attributes are sent to revalidate the file`() async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
        await fixture.run(fixture.download { $0.existingFilePolicy = .revalidate })
        let listing = try ProcessRunner.run(
            "python3", ["-c", "import os,sys; print(os.listxattr(sys.argv[1]))", fixture.file().path])
        guard listing.text.contains("user.convoy.validators") else { return print("no extended attributes here") }
        let second = await fixture.run(fixture.download { $0.existingFilePolicy = .revalidate })
        #expect(second.outcome == .notModified)
        #expect(fixture.server.requests("/file").last?.headers["If-None-Match"] == "\"1\"")
        // Nothing is known about a changed file, even if it was changed within the same second.
        for changed in [Data("changed".utf8), Data(repeating: 7, count: bytes.count)] {
            try changed.write(to: fixture.file())
            let third = await fixture.run(fixture.download { $0.existingFilePolicy = .revalidate })
            #expect(fixture.server.requests("/file").last?.headers["If-None-Match"] == nil)
            #expect(third.outcome == .downloaded)
            #expect(fixture.contents() == bytes)
        }
    }

    @Test(arguments: ["Repr-Digest", "Digest", "Content-MD5"])
    func `the server's digest is verified if no checksum is set`(field: String) async {
        let wrong = [
            "Repr-Digest": "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:",
            "Digest": "sha-256=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA==",
        ]
        let value = wrong[field] ?? ""
        fixture.server.serve(bytes, at: "/file") { _, response in response.header(field, value) }
        let download = await fixture.run(fixture.download())
        guard case .checksumMismatch = (download.error as? DownloadError)?.reason else {
            Issue.record("\(String(describing: download.error))")
            return
        }
        #expect(fixture.names == [])
    }
}
