import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyUploads

/// Tests that a pause does not end the request of an upload that must not be sent twice.
@Suite(.timeLimit(.minutes(2))) struct HeldUploadTests {
    private let server: TestServer
    private let gate = TestServer.Gate()
    private let fixture: UploadFixture

    init() throws {
        server = try TestServer()
        fixture = try UploadFixture(100_000)
        server.route("POST", "/place", .text("stored").held(by: gate))
        server.route("PUT", "/place", .text("stored").held(by: gate))
    }

    private func upload(_ method: String) -> UploadOperation {
        var request = URLRequest(url: server.url("/place"))
        request.httpMethod = method
        let upload = UploadOperation(request: request, file: fixture.file)
        upload.uploadProtocol = .plain
        upload.settleForTests(retries: 2)
        return upload
    }

    @Test(arguments: [1, 3]) func `a paused POST continues with its request`(pauses: Int) async throws {
        let upload = upload("POST")
        upload.start()
        try await server.waitForRequests(count: 1)
        for _ in 0..<pauses {
            upload.pause()
            #expect(upload.isPaused)
            if pauses > 1 { upload.resume() }
        }
        gate.open()
        upload.resume()
        try await upload.finished()
        #expect(upload.responseString == "stored" && upload.uploadProgress.bytesConfirmed == 100_000)
        #expect(server.requests.map(\.body) == [fixture.bytes])
    }

    @Test func `a paused PUT is sent again`() async throws {
        let upload = upload("PUT")
        upload.start()
        try await server.waitForRequests(count: 1)
        upload.pause()
        gate.open()
        upload.resume()
        try await upload.finished()
        #expect(upload.responseString == "stored" && server.requests.count == 2)
    }

    @Test func `a POST whose connection is lost during a pause fails, and is not sent again`() async throws {
        let upload = upload("POST")
        upload.start()
        try await server.waitForRequests(count: 1)
        upload.pause()
        server.dropConnections()
        try await server.wait(timeout: 60) { $0.openConnectionCount == 0 }
        #expect(!upload.isFinished)
        upload.resume()
        await #expect(throws: URLError.self) { try await upload.finished() }
        #expect(server.requests.count == 1)
    }

    @Test func `a held POST can be cancelled, and its connection closes`() async throws {
        let upload = upload("POST")
        upload.start()
        try await server.waitForRequests(count: 1)
        upload.pause()
        upload.cancel()
        await #expect(throws: URLError.self) { try await upload.finished() }
        #expect((upload.error as? URLError)?.code == .cancelled)
        try await server.wait(timeout: 60) { $0.openConnectionCount == 0 }
        gate.open()
    }

    @Test func `a POST that is paused before it is sent is sent once`() async throws {
        gate.open()
        for _ in 0..<50 {
            let upload = upload("POST")
            upload.start()
            upload.pause()
            upload.resume()
            try await upload.finished()
            #expect(upload.responseString == "stored")
        }
        #expect(server.requests.count == 50)
    }
}
