import ConvoyOperations
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyUploads

/// Uploads with the IETF draft, and without a protocol.
struct DraftUploadTests {
    @Test(arguments: [3, 4, 5, 6, 7, 8], [0, 1000, 700_000])
    func `a file is uploaded completely in one request`(version: Int, count: Int) async throws {
        let fixture = try UploadFixture(count)
        let server = try UploadServer()
        let upload = fixture.upload(to: server.url(), .draft(interopVersion: version))
        try await upload.finished()
        #expect(
            server.stored(upload.uploadURL)?.data == fixture.bytes && server.stored(upload.uploadURL)?.isComplete == true)
        #expect(server.state.withLock { $0.requests.map(\.method) } == ["POST"])
        // The operation has the response of the resource.
        #expect(upload.responseString == "stored \(count)" && upload.statusCode == 200)
        #expect(fixture.journals.isEmpty)
    }

    @Test(arguments: [3, 6])
    func `an upload resumes at the URL of an interim response`(version: Int) async throws {
        let fixture = try UploadFixture(700_000)
        let isBroken = Locked(true)
        let server = try UploadServer { request, _ in
            request.method == "POST" && isBroken.withLock({ $0 }) ? .reset(after: 300_000) : nil
        }
        let first = fixture.upload(to: server.url(), .draft(interopVersion: version))
        await finish(first)
        #expect(first.error is URLError && first.isResumable)
        try eventually { !fixture.journals.isEmpty }
        isBroken.withLock { $0 = false }
        let second = fixture.upload(to: server.url(), .draft(interopVersion: version))
        try await second.finished()
        let state = server.state.withLock { $0 }
        #expect(server.stored(second.uploadURL)?.data == fixture.bytes && state.received == 700_000)
        #expect(state.requests.map(\.method) == ["POST", "HEAD", "PATCH"])
    }

    @Test func `only bytes confirmed by interim responses count as progress`() async throws {
        let fixture = try UploadFixture(400_000)
        let server = try UploadServer { request, _ in request.method == "POST" ? .reset(after: 200_000) : nil }
        let upload = fixture.upload(to: server.url(), .draft)
        let seen = Locked<Int64>(0)
        upload.uploadProgressHandler = { _, total, _ in seen.withLock { $0 = max($0, total) } }
        await finish(upload)
        // The bytes before the reset were received, but only those reported by the server are confirmed.
        #expect(seen.withLock { $0 } <= 200_000)
    }

    @Test func `chunks respect the server's size limit`() async throws {
        let fixture = try UploadFixture(100_000)
        let server = try UploadServer { _, _ in
            .change { head, _ in head.append(("Upload-Limit", "max-append-size=40000, max-size=1000000")) }
        }
        let upload = fixture.upload(to: server.url(), .draft, chunk: 50_000)
        try await upload.finished()
        #expect(server.stored(upload.uploadURL)?.data == fixture.bytes)
        let sizes = server.state.withLock { $0.requests }.map { $0.number("content-length") }
        #expect(sizes == [50_000, 40_000, 10_000])
    }

    @Test func `an upload to a server without draft support fails as unsupported`() async throws {
        let fixture = try UploadFixture(100_000)
        // The server accepts the request, but sends no URL.
        let server = try UploadServer(sendsInterim: false) { request, _ in
            .change { head, status in (head, status) = ([], 200) }
        }
        let upload = fixture.upload(to: server.url(), .draft, chunk: 50_000)
        await finish(upload)
        guard case .unsupported? = upload.reason else {
            Issue.record("\(String(describing: upload.error))")
            return
        }
        // Sending everything in one request does not confirm any bytes either.
        let whole = fixture.upload(to: server.url(), .draft)
        await finish(whole)
        guard case .unsupported? = whole.reason else {
            Issue.record("\(String(describing: whole.error))")
            return
        }
    }

    @Test func `an upload whose bytes have all arrived is completed with an empty request`() async throws {
        let fixture = try UploadFixture(50_000)
        let count = Locked(0)
        let server = try UploadServer { request, _ in
            guard request.method == "POST" else { return nil }
            count.withLock { $0 += 1 }
            return .reset(after: 50_000)
        }
        let first = fixture.upload(to: server.url(), .draft)
        await finish(first)
        let second = fixture.upload(to: server.url(), .draft)
        try await second.finished()
        let last = try #require(server.state.withLock { $0.requests.last })
        #expect(last.method == "PATCH" && last.number("content-length") == 0 && last.fields["upload-complete"] == "?1")
        #expect(server.stored(second.uploadURL)?.isComplete == true)
    }

    @Test func `a creation that may have arrived is repeated only with tus`() async throws {
        let fixture = try UploadFixture(1000)
        let server = try UploadServer(sendsInterim: false) { request, _ in request.method == "POST" ? .loseAnswer : nil }
        let upload = fixture.upload(to: server.url(), .draft, retries: 3)
        await finish(upload)
        #expect(upload.error is URLError && server.state.withLock { $0.requests.count } == 1)
        // With tus, the creation is retried three times.
        let tus = fixture.upload(to: server.url(), retries: 3)
        await finish(tus)
        #expect(server.state.withLock { $0.requests.count } == 5)
    }

    @Test func `without a protocol, one request sends everything, and a later upload starts over`() async throws {
        let fixture = try UploadFixture(100_000)
        let isBroken = Locked(true)
        let server = try UploadServer { request, _ in
            switch request.method {
            case "OPTIONS": .answer("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            case "PUT" where isBroken.withLock { $0 }: .reset(after: 50_000)
            default: nil
            }
        }
        let upload = fixture.upload(to: server.url("/place"), .automatic)
        await finish(upload)
        #expect(upload.chosenProtocol == .plain && !upload.isResumable && upload.error is URLError)
        isBroken.withLock { $0 = false }
        let second = fixture.upload(to: server.url("/place"), .automatic)
        try await second.finished()
        #expect(server.state.withLock { $0.uploads["/place"]?.data } == fixture.bytes)
        #expect(second.responseString == "stored 100000" && second.uploadProgress.bytesConfirmed == 100_000)
    }
}

/// Uploads of sources other than files.
struct SequenceUploadTests {
    private static func pieces(_ bytes: Data, size: Int) -> AsyncStream<Data> {
        AsyncStream { stream in
            for start in stride(from: 0, to: bytes.count, by: size) {
                stream.yield(bytes[start..<min(start + size, bytes.count)])
            }
            stream.finish()
        }
    }

    @Test(arguments: [false, true], [0, 1, 100_000])
    func `a sequence is uploaded completely`(knowsLength: Bool, count: Int) async throws {
        let bytes = try UploadFixture(count).bytes
        let server = try UploadServer()
        let upload = UploadOperation(
            request: URLRequest(url: server.url()), length: knowsLength ? Int64(count) : nil,
            pieces: Self.pieces(bytes, size: 777))
        upload.uploadProtocol = .tus
        upload.windowSize = 16_000
        upload.settleForTests()
        try await upload.finished()
        let stored = try #require(server.stored(upload.uploadURL))
        #expect(stored.data == bytes && stored.length == count)
    }

    @Test func `unconfirmed bytes are sent again`() async throws {
        let bytes = try UploadFixture(100_000).bytes
        let count = Locked(0)
        let server = try UploadServer { request, _ in
            guard request.method == "PATCH" else { return nil }
            return count.withLock { count -> UploadServer.Fault? in
                count += 1
                return count.isMultiple(of: 3) ? .reset(after: 1234) : nil
            }
        }
        let upload = UploadOperation(request: URLRequest(url: server.url()), pieces: Self.pieces(bytes, size: 5000))
        upload.uploadProtocol = .tus
        upload.windowSize = 8_000
        upload.settleForTests(retries: 3)
        try await upload.finished()
        #expect(server.stored(upload.uploadURL)?.data == bytes && server.state.withLock { $0.received } == 100_000)
    }

    @Test func `the expected length is unknown until the sequence ends`() async throws {
        let server = try UploadServer()
        let (pieces, sequence) = AsyncStream.makeStream(of: Data.self)
        for _ in 0..<10 { sequence.yield(Data(count: 5000)) }
        let upload = UploadOperation(request: URLRequest(url: server.url()), pieces: pieces)
        upload.uploadProtocol = .tus
        upload.chunkSize = .fixed(10_000)
        upload.settleForTests()
        upload.start()
        try await waitUntil("a part that is confirmed") { upload.transferProgress.bytesSent > 0 }
        #expect(upload.transferProgress.bytesExpectedToSend == nil)
        sequence.finish()
        try await upload.finished()
    }

    @Test func `another operation resumes the upload of a repeatable sequence`() async throws {
        let fixture = try UploadFixture(100_000)
        let bytes = fixture.bytes
        let isBroken = Locked(true)
        let server = try UploadServer { request, _ in
            isBroken.withLock { $0 } && request.number("upload-offset") ?? 0 >= 50_000 ? .reset(after: 100) : nil
        }
        func make(_ bytes: Data) -> UploadOperation {
            let upload = UploadOperation(
                request: URLRequest(url: server.url()), making: { Self.pieces(bytes, size: 3000) })
            upload.uploadProtocol = .tus
            upload.chunkSize = .fixed(10_000)
            upload.journal = fixture.directory.file("journal")
            upload.settleForTests()
            return upload
        }
        await finish(make(bytes))
        isBroken.withLock { $0 = false }
        var changed = bytes
        changed[5] ^= 1
        let wrong = make(changed)
        await finish(wrong)
        #expect(wrong.reason == .sourceChanged)
        let right = make(bytes)
        try await right.finished()
        #expect(server.stored(right.uploadURL)?.data == bytes && server.state.withLock { $0.received } == 100_000)
    }

    @Test func `an error thrown by the sequence fails the operation`() async throws {
        struct Broken: Error {}
        let server = try UploadServer()
        let pieces = AsyncThrowingStream<Data, any Error> { stream in
            stream.yield(Data(count: 1000))
            stream.finish(throwing: Broken())
        }
        let upload = UploadOperation(request: URLRequest(url: server.url()), pieces: pieces)
        upload.uploadProtocol = .tus
        upload.settleForTests(retries: 3)
        await finish(upload)
        #expect(upload.error is Broken)
    }

    @Test func `a sequence of unexpected length fails the upload`() async throws {
        let server = try UploadServer()
        for (said, count) in [(1000, 999), (1000, 1001)] {
            let upload = UploadOperation(
                request: URLRequest(url: server.url()), length: Int64(said),
                pieces: Self.pieces(Data(count: count), size: 100))
            upload.uploadProtocol = .tus
            upload.settleForTests()
            await finish(upload)
            guard case .unexpectedLength? = upload.reason else {
                Issue.record("\(String(describing: upload.error))")
                continue
            }
        }
    }

    @Test func `data is uploaded without a file`() async throws {
        let server = try UploadServer()
        let upload = UploadOperation(request: URLRequest(url: server.url()), data: Data("hello".utf8))
        upload.uploadProtocol = .tus
        upload.settleForTests()
        try await upload.finished()
        #expect(server.stored(upload.uploadURL)?.data == Data("hello".utf8))
    }
}
