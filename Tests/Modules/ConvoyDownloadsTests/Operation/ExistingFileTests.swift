import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// An existing destination, and its verification with checksums.
struct ExistingFileTests {
    private let fixture: DownloadFixture
    private let whole = PatternBytes.data(count: 100_000)

    init() throws {
        fixture = try DownloadFixture()
        fixture.server.serve(whole, at: "/file", etag: "\"1\"")
    }

    private func checksum(_ data: Data) throws -> Checksum {
        let digest = MessageDigest(.sha256)
        data.withUnsafeBytes { digest.update($0) }
        return try #require(Checksum(of: digest))
    }

    private func run(
        _ existing: ExistingFilePolicy, _ contents: Data, checksum: Checksum? = nil, segments: Int = 1
    ) async throws -> DownloadOperation {
        try contents.write(to: fixture.file())
        return await fixture.run(
            fixture.download {
                ($0.existingFilePolicy, $0.checksum) = (existing, checksum)
                ($0.segmentCount, $0.minimumSegmentLength) = (segments, 1000)
            })
    }

    private func serveDigest() throws {
        let digest = try checksum(whole).digest.base64EncodedString()
        fixture.server.serve(whole, at: "/file", etag: "\"1\"") { _, response in
            response.header("Repr-Digest", "sha-256=:\(digest):")
        }
    }

    @Test func `a skipped file is verified against the checksum`() async throws {
        let right = try await run(.skip, whole, checksum: try checksum(whole))
        #expect(right.error == nil && right.outcome == .skipped)
        let wrong = try await run(.skip, Data("old".utf8), checksum: try checksum(whole))
        #expect(
            (wrong.error as? DownloadError)?.reason
                == .checksumMismatch(expected: try checksum(whole), actual: try checksum(Data("old".utf8))))
        #expect(fixture.contents() == Data("old".utf8))
        #expect(fixture.server.requests.isEmpty)
    }

    @Test(arguments: [1, 4])
    func `a shorter file is resumed if its bytes can be verified`(_ segments: Int) async throws {
        let first = try await run(.resume, whole.prefix(60_000), checksum: try checksum(whole), segments: segments)
        #expect(first.error == nil && !first.hasReplacedUnprovenFile)
        #expect(fixture.contents() == whole)
        #expect(first.fetchedByteCount < 50_000)
        try serveDigest()
        let second = try await run(.resume, whole.prefix(60_000), segments: segments)
        #expect(second.error == nil && !second.hasReplacedUnprovenFile)
        #expect(fixture.contents() == whole)
        #expect(second.fetchedByteCount < 50_000)
        #expect(fixture.names == ["file.bin"])
    }

    @Test(arguments: [false, true])
    func `wrong bytes are downloaded again`(_ isDigestGiven: Bool) async throws {
        if !isDigestGiven { try serveDigest() }
        let wrong = Data(repeating: 9, count: 60_000)
        let operation = try await run(.resume, wrong, checksum: isDigestGiven ? try checksum(whole) : nil)
        #expect(operation.error == nil)
        #expect(fixture.contents() == whole)
    }

    @Test func `a file that cannot be verified is replaced, unless the server's file is shorter`() async throws {
        for contents in [whole.prefix(60_000), Data(repeating: 9, count: 60_000)] {
            let operation = try await run(.resume, contents)
            #expect(operation.error == nil && operation.hasReplacedUnprovenFile)
            #expect(fixture.contents() == whole)
        }
        let longer = whole + whole
        let operation = try await run(.resume, longer)
        let expected = DownloadError.Reason.changedLength(stored: Int64(longer.count), actual: Int64(whole.count))
        #expect((operation.error as? DownloadError)?.reason == expected)
        #expect(fixture.contents() == longer)
    }

    @Test func `a file with the server's length is kept unless a checksum does not match`() async throws {
        let operation = try await run(.resume, Data(repeating: 9, count: whole.count))
        #expect(operation.error == nil && operation.outcome == .skipped)
        #expect(fixture.server.requests.map(\.method) == ["HEAD"])
        // A file that does not match the user's or the server's checksum is replaced.
        let checked = try await run(.resume, Data(repeating: 9, count: whole.count), checksum: try checksum(whole))
        #expect(checked.error == nil && checked.outcome == .downloaded)
        #expect(fixture.contents() == whole)
        try serveDigest()
        let told = try await run(.resume, Data(repeating: 9, count: whole.count))
        #expect(told.error == nil && told.outcome == .downloaded)
        #expect(fixture.contents() == whole)
    }

    @Test func `a file under a suggested name is kept if it has the server's length`() async throws {
        for (contents, outcome) in [(Data(repeating: 9, count: whole.count), .skipped), (whole.prefix(10), .downloaded)]
            as [(Data, DownloadOutcome)]
        {
            try contents.write(to: fixture.file("file"))
            let request = URLRequest(url: fixture.server.url("/file"))
            let operation = DownloadOperation(request: request, directory: fixture.directory.url)
            (operation.completionQueue, operation.existingFilePolicy) = (.global(), .resume)
            await fixture.run(operation)
            #expect(operation.error == nil && operation.outcome == outcome && operation.fileURL == fixture.file("file"))
            #expect(fixture.contents("file") == (outcome == .skipped ? contents : whole))
        }
    }

    @Test func `a file of any length with an aria2 control file is incomplete`() async throws {
        try Data("control".utf8).write(to: fixture.file("file.bin.aria2"))
        let operation = try await run(.resume, whole.prefix(50_000) + Data(count: 50_000))
        #expect(operation.error == nil && operation.hasReplacedUnprovenFile)
        #expect(fixture.contents() == whole)
    }

    @Test func `an existing file is kept if the server does not have it`() async throws {
        fixture.server.route("/file", .status(404))
        let operation = try await run(.resume, whole.prefix(10))
        #expect(operation.error != nil)
        #expect(fixture.contents() == whole.prefix(10))
    }

    @Test func `a file is completed from a server that does not support HEAD`() async throws {
        fixture.server.route("HEAD", "/file", .status(405))
        let operation = try await run(.resume, whole.prefix(10), checksum: try checksum(whole))
        #expect(operation.error == nil)
        #expect(fixture.contents() == whole)
    }

    @Test func `cancelling the download keeps the existing file`() async throws {
        let gate = TestServer.Gate()
        fixture.server.route("HEAD", "/file", .status(200).held(by: gate))
        try whole.prefix(10).write(to: fixture.file())
        let operation = fixture.download { $0.existingFilePolicy = .resume }
        fixture.queue.addOperation(operation)
        try await waitUntil("the question") { fixture.server.requests.count == 1 }
        operation.cancel()
        try? await operation.finished()
        gate.open()
        #expect((operation.error as? URLError)?.code == .cancelled)
        #expect(fixture.contents() == whole.prefix(10))
    }

    @Test func `a download that finds a file created in the meantime skips it or fails`() async throws {
        for existing in [ExistingFilePolicy.skip, .fail] {
            let gate = TestServer.Gate()
            fixture.server.serve(whole, at: "/file", etag: "\"1\"") { _, response in response.held(by: gate) }
            let before = fixture.server.requests.count
            let operation = fixture.download { $0.existingFilePolicy = existing }
            fixture.queue.addOperation(operation)
            try await waitUntil("the request") { fixture.server.requests.count > before }
            try Data("mine".utf8).write(to: fixture.file())
            gate.open()
            try? await operation.finished()
            #expect((operation.error == nil) == (existing == .skip))
            #expect(operation.outcome == (existing == .skip ? .skipped : nil))
            #expect(fixture.contents() == Data("mine".utf8))
            try FileManager.default.removeItem(at: fixture.file())
        }
    }
}
