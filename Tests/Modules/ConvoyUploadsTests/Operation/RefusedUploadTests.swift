import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyUploads

/// Uploads to servers that reject requests.
struct RefusedUploadTests {
    /// Creates a server, or a proxy in front of it, that accepts at most this many bytes per request.
    private func server(accepting limit: Int) throws -> UploadServer {
        try UploadServer { request, _ in request.number("content-length") ?? 0 > limit ? .refuse(413) : nil }
    }

    @Test(arguments: [UploadChunkSize.adaptive, .fixed(2 << 20)])
    func `chunks shrink until the server accepts them`(_ size: UploadChunkSize) async throws {
        let fixture = try UploadFixture(3 << 20)
        let server = try server(accepting: 300_000)
        let upload = fixture.upload(to: server.url())
        upload.chunkSize = size
        try await upload.finished()
        #expect(server.stored(upload.uploadURL)?.data == fixture.bytes)
        let sizes = server.state.withLock { $0.requests }.filter { $0.method == "PATCH" }
            .compactMap { $0.number("content-length") }
        // No chunk is larger than one that was accepted after the last rejection.
        #expect(sizes.filter { $0 > 300_000 }.count <= 3)
        #expect(server.state.withLock { $0.received } == 3 << 20)
    }

    @Test func `parallel parts shrink their chunks`() async throws {
        let fixture = try UploadFixture(3 << 20)
        let server = try server(accepting: 300_000)
        let upload = fixture.upload(to: server.url())
        upload.parallelPartCount = 3
        try await upload.finished()
        #expect(server.stored(upload.uploadURL)?.data == fixture.bytes)
    }

    @Test func `the chunk sent with the creation request shrinks`() async throws {
        let fixture = try UploadFixture(1 << 20)
        let server = try server(accepting: 300_000)
        let upload = fixture.upload(to: server.url())
        upload.sendsDataWithCreation = true
        try await upload.finished()
        #expect(server.stored(upload.uploadURL)?.data == fixture.bytes)
    }

    @Test(arguments: [false, true])
    func `an upload with the draft shrinks its requests`(_ namesUploadsEarly: Bool) async throws {
        let fixture = try UploadFixture(1 << 20)
        let limit = 300_000
        let server = try UploadServer(sendsInterim: namesUploadsEarly) { request, _ in
            request.number("content-length") ?? 0 > limit ? .refuse(413) : nil
        }
        let upload = fixture.upload(to: server.url(), .draft)
        try await upload.finished()
        #expect(server.state.withLock { $0.uploads.values.map(\.data) } == [fixture.bytes])
    }

    @Test func `an upload larger than the server's limit fails without further requests`() async throws {
        let fixture = try UploadFixture(1 << 20)
        let server = try UploadServer { request, _ in
            request.method == "PATCH" ? .refuse(413, [("Tus-Max-Size", "1000")]) : nil
        }
        let upload = fixture.upload(to: server.url())
        await finish(upload)
        #expect(upload.reason == .tooLarge(limit: 1000))
        #expect(server.state.withLock { $0.requests.filter { $0.method == "PATCH" }.count } == 1)
    }

    @Test func `an upload fails if the server rejects even small chunks`() async throws {
        let fixture = try UploadFixture(3 << 20)
        let server = try UploadServer { request, _ in request.method == "PATCH" ? .refuse(413) : nil }
        let upload = fixture.upload(to: server.url())
        await finish(upload)
        #expect(upload.reason == .tooLarge(limit: nil))
        #expect(server.state.withLock { $0.requests.filter { $0.method == "PATCH" }.count } <= 6)
    }

    @Test(arguments: [403, 404, 410])
    func `an upload for which the server reports no offset is gone`(_ status: Int) async throws {
        let fixture = try UploadFixture(100_000)
        let isBroken = Locked(true)
        let server = try UploadServer { request, _ in
            if isBroken.withLock({ $0 }) { return request.number("upload-offset") ?? 0 > 0 ? .reset(after: 0) : nil }
            return request.method == "HEAD" && request.path == "/files/u1" ? .refuse(status) : nil
        }
        await finish(fixture.upload(to: server.url(), chunk: 50_000))
        isBroken.withLock { $0 = false }
        let second = fixture.upload(to: server.url())
        await finish(second)
        #expect(second.reason == .gone(status: status))
        let third = fixture.upload(to: server.url())
        third.resumption = .resumeOrRestart
        try await third.finished()
        #expect(server.stored(third.uploadURL)?.data == fixture.bytes)
    }

    @Test func `parts are combined only once if the response is lost`() async throws {
        let fixture = try UploadFixture(300_000)
        let isBroken = Locked(true)
        let server = try UploadServer { request, _ in
            request.fields["upload-concat"]?.hasPrefix("final") == true && isBroken.withLock { $0 } ? .loseAnswer : nil
        }
        func make() -> UploadOperation {
            let upload = fixture.upload(to: server.url(), retries: 3)
            upload.parallelPartCount = 3
            upload.minimumPartLength = 1000
            return upload
        }
        let combined = { server.state.withLock { $0.uploads.values.filter(\.isComplete).count } }
        let first = make()
        await finish(first)
        #expect(first.error != nil && combined() == 1)
        isBroken.withLock { $0 = false }
        let second = make()
        await finish(second)
        #expect(second.reason == .mayHaveArrived && combined() == 1)
        // The caller decides whether a second upload may exist.
        let third = make()
        third.resumption = .resumeOrRestart
        try await third.finished()
        #expect(server.stored(third.uploadURL)?.data == fixture.bytes && combined() == 2)
        #expect(server.state.withLock { $0.received } == 300_000)
    }

    @Test func `a request that combines parts is repeated after an error status`() async throws {
        let fixture = try UploadFixture(300_000)
        let count = Locked(0)
        let server = try UploadServer { request, _ in
            guard request.fields["upload-concat"]?.hasPrefix("final") == true else { return nil }
            return count.withLock { count in
                count += 1
                return count == 1 ? .refuse(503) : nil
            }
        }
        let upload = fixture.upload(to: server.url(), retries: 3)
        upload.parallelPartCount = 3
        upload.minimumPartLength = 1000
        try await upload.finished()
        #expect(server.stored(upload.uploadURL)?.data == fixture.bytes && count.withLock { $0 } == 2)
    }

    @Test func `metadata whose name cannot be sent is an error`() async throws {
        let fixture = try UploadFixture(1000)
        let server = try UploadServer()
        for name in ["größe", "a b", "a,b", ""] {
            let upload = fixture.upload(to: server.url())
            upload.metadata = [name: "1"]
            await finish(upload)
            #expect(upload.error is UploadError && server.state.withLock { $0.requests.isEmpty })
        }
    }
}
