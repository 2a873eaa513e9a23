import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyUploads

/// The journals of files in directories that cannot be written to.
struct JournalPlaceTests {
    /// Returns an upload of a file, for which no file can be created in its directory.
    private func upload(
        of fixture: UploadFixture, to url: URL, _ uploadProtocol: UploadProtocol = .tus, journals: String?
    ) -> UploadOperation {
        let upload = fixture.upload(to: url, uploadProtocol, chunk: 50_000)
        let directory = fixture.directory.url.path
        let open = FileCalls().open
        var calls = FileCalls()
        calls.open = { path, flags, mode in
            guard flags & O_CREAT == 0 || PathText.directory(of: path) != directory else {
                errno = EACCES
                return -1
            }
            return open(path, flags, mode)
        }
        upload.set(\.calls, calls)
        upload.set(\.journalDirectory, journals)
        return upload
    }

    @Test func `an interrupted upload from a read-only directory resumes`() async throws {
        let fixture = try UploadFixture(100_000)
        let state = try TemporaryDirectory(prefix: "convoy-state")
        let journals = state.file("state/convoy/uploads").path
        let isBroken = Locked(true)
        let server = try UploadServer { request, _ in
            isBroken.withLock { $0 } && request.number("upload-offset") ?? 0 > 0 ? .reset(after: 0) : nil
        }
        await finish(upload(of: fixture, to: server.url(), journals: journals))
        #expect(try FileManager.default.contentsOfDirectory(atPath: journals).count == 1)
        isBroken.withLock { $0 = false }
        let second = upload(of: fixture, to: server.url(), journals: journals)
        try await second.finished()
        #expect(server.stored(second.uploadURL)?.data == fixture.bytes && fixture.journals.isEmpty)
        #expect(server.state.withLock { $0.uploads.count } == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: journals).isEmpty)
    }

    @Test func `only an upload that can be resumed needs a journal`() async throws {
        let fixture = try UploadFixture(100_000)
        let server = try UploadServer()
        let plain = upload(of: fixture, to: server.url("/a"), .plain, journals: nil)
        try await plain.finished()
        #expect(server.stored(server.url("/a"))?.data == fixture.bytes)
        let tus = upload(of: fixture, to: server.url(), journals: "/proc/none/uploads")
        await finish(tus)
        guard case .unusableJournal? = tus.reason else {
            Issue.record("\(String(describing: tus.error))")
            return
        }
        #expect(!server.state.withLock { $0.requests.contains { $0.isTus } })
        let without = upload(of: fixture, to: server.url(), journals: nil)
        without.keepsJournal = false
        try await without.finished()
    }

    @Test func `a journal that cannot be removed is emptied`() async throws {
        let fixture = try UploadFixture(100_000)
        let server = try UploadServer()
        let first = fixture.upload(to: server.url())
        var calls = FileCalls()
        calls.unlink = { _ in
            errno = EACCES
            return -1
        }
        first.set(\.calls, calls)
        try await first.finished()
        #expect(fixture.journals.count == 1)
        let second = fixture.upload(to: server.url())
        try await second.finished()
        #expect(second.uploadURL != first.uploadURL)
    }

    @Test func `a long name is shortened in both places`() throws {
        let file = URL(fileURLWithPath: "/tmp/" + String(repeating: "n", count: 250))
        let url = try #require(URL(string: "http://127.0.0.1/files"))
        let state = try TemporaryDirectory(prefix: "convoy-state")
        let paths = Array(UploadJournalPlace.paths(of: file, for: url, state.url.path))
        #expect(paths.count == 2 && Set(paths.map { PathText.name(of: $0) }).count == 2)
        for path in paths { #expect(PathText.name(of: path).utf8.count <= 255) }
    }
}
