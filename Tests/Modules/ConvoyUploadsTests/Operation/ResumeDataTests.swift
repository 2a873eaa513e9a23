import ConvoyOperations
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyUploads

/// Resume data of uploads, and the manager.
struct ResumeDataTests {
    @Test func `an upload resumes from its resume data without a journal`() async throws {
        let fixture = try UploadFixture(100_000)
        let isBroken = Locked(true)
        let server = try UploadServer { request, _ in
            isBroken.withLock { $0 } && request.number("upload-offset") ?? 0 >= 50_000 ? .reset(after: 10) : nil
        }
        let first = fixture.upload(to: server.url(), chunk: 25_000)
        first.keepsJournal = false
        await finish(first)
        let data = try #require(first.resumeData)
        #expect(data.confirmedByteCount == 50_000 && fixture.journals.isEmpty)
        isBroken.withLock { $0 = false }
        let second = UploadOperation(request: URLRequest(url: server.url()), resumeData: try UploadResumeData(data.data))
        second.settleForTests()
        try await second.finished()
        #expect(server.stored(second.uploadURL)?.data == fixture.bytes && server.state.withLock { $0.received } == 100_000)
        #expect(second.resumeData == nil)
        // The resume data belongs to another URL, or is damaged.
        let other = UploadOperation(request: URLRequest(url: server.url("/other")), resumeData: data)
        other.settleForTests()
        await finish(other)
        guard case .unusableJournal? = other.reason else {
            Issue.record("\(String(describing: other.error))")
            return
        }
        for index in stride(from: 0, to: data.data.count, by: 7) {
            var damaged = data.data
            damaged[damaged.startIndex + index] ^= 1
            if let read = try? UploadResumeData(damaged) { #expect(read.record == data.record) }
            #expect((try? UploadResumeData(data.data.prefix(index))) == nil)
        }
    }

    @Test func `makeUpload() resolves the URL and adds the headers`() async throws {
        let fixture = try UploadFixture(10_000)
        let server = try UploadServer()
        let manager = HTTPRequestOperationManager(baseURL: server.url(""))
        manager.completionQueue = .global()
        let upload = try manager.makeUpload(of: fixture.file, to: "files", headers: ["X-Name": "value"])
        manager.enqueue([upload])
        try await upload.finished()
        #expect(server.stored(upload.uploadURL)?.data == fixture.bytes)
        #expect(server.state.withLock { $0.requests.allSatisfy { $0.fields["x-name"] == "value" } })
    }
}
