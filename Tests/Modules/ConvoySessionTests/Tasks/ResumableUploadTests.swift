import ConvoyOperations
import ConvoySession
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyUploads
import Foundation
import FoundationNetworking
import Testing

/// Resumable uploads in a session.
struct ResumableUploadTests {
    private final class Stored: Sendable {
        let data = Locked(Data())
    }

    /// Sets up a tus server that has stored part of an upload and rejects the next part at first.
    private func serve(_ server: TestServer, _ bytes: Data) -> Stored {
        let stored = Stored()
        let isBroken = Locked(true)
        let mark: TestServer.Headers = ["Tus-Resumable": "1.0.0"]
        server.route("POST", "/files") { _ in .status(201, headers: mark).header("Location", "/files/1") }
        server.route("HEAD", "/files/1") { _ in
            .status(200, headers: mark).header("Upload-Offset", "\(stored.data.withLock { $0.count })")
                .header("Upload-Length", "\(bytes.count)")
        }
        server.route("PATCH", "/files/1") { request in
            let offset = request.headers["Upload-Offset"].flatMap { Int($0) }
            if offset ?? 0 > 0, isBroken.withLock({ $0 }) {
                isBroken.withLock { $0 = false }
                return .status(500)
            }
            let count = stored.data.withLock { stored -> Int in
                if offset == stored.count { stored += request.body }
                return stored.count
            }
            return .status(204, headers: mark).header("Upload-Offset", "\(count)")
        }
        return stored
    }

    @Test func `an upload task resumes where another stopped`() async throws {
        let server = try TestServer()
        let directory = try TemporaryDirectory(prefix: "convoy-session-upload")
        let bytes = Data((0..<30_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        let file = directory.file("film.bin")
        try bytes.write(to: file)
        let stored = serve(server, bytes)
        let manager = HTTPSessionManager(baseURL: server.url)
        manager.completionQueue = .global()
        let request = URLRequest(url: server.url("/files"))
        let first = manager.uploadTask(with: request, fromFile: file, resumableBy: .tus)
        (first.operation as? UploadOperation)?.chunkSize = .fixed(10_000)
        (first.operation as? UploadOperation)?.keepsJournal = false
        first.resume()
        await #expect(throws: (any Error).self) { try await first.finished() }
        let data = try #require(first.resumeData)
        #expect(data.confirmedByteCount == 10_000 && stored.data.withLock { $0.count } == 10_000)
        let second = manager.uploadTask(with: try UploadResumeData(data.data), request: request)
        second.resume()
        try await second.finished()
        #expect(stored.data.withLock { $0 } == bytes && second.resumeData == nil)
        manager.invalidate(cancellingTasks: true)
    }
}
