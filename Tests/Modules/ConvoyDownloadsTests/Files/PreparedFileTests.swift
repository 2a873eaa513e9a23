import ConvoyDownloads
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Partial files and journals that another user has prepared or can change.
@Suite struct PreparedFileTests {
    private static let other: uid_t = 65534

    /// Leaves half of a file, like a stopped process.
    private func begin(_ fixture: DownloadFixture) async throws {
        fixture.server.servePattern(count: 400_000, at: "/file", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.truncated(afterBytes: 200_000) : response
        }
        await fixture.run(fixture.download())
        try #require(fixture.names == ["file.bin.convoyjournal", "file.bin.convoypart"])
        fixture.server.forgetRequests()
        fixture.server.servePattern(count: 400_000, at: "/file", etag: "\"1\"")
    }

    @Test func `a journal that another user could have written is ignored`() async throws {
        let changes: [(String, (String) -> Int32)] =
            [("mode", { chmod($0, 0o666) })] + (geteuid() == 0 ? [("owner", { chown($0, Self.other, Self.other) })] : [])
        for (kind, change) in changes {
            let fixture = try DownloadFixture()
            try await begin(fixture)
            try #require(change(fixture.file("file.bin.convoyjournal").path) == 0)
            let operation = await fixture.run(fixture.download())
            #expect(operation.error == nil, "\(kind): \(operation)")
            #expect(fixture.contents() == PatternBytes.data(count: 400_000))
            #expect(fixture.server.requests.first?.headers["Range"] == nil, "\(kind)")
            #expect(fixture.names == ["file.bin"])
        }
        guard geteuid() == 0 else { return print("skipped in part: only root can give a file to another user") }
    }

    @Test func `a journal is accessible only to its owner`() async throws {
        let fixture = try DownloadFixture()
        try await begin(fixture)
        var facts = stat()
        #expect(stat(fixture.file("file.bin.convoyjournal").path, &facts) == 0 && facts.st_mode & 0o777 == 0o600)
    }

    @Test func `a partial file owned by another user never becomes the destination file`() async throws {
        guard geteuid() == 0 else { return print("skipped: only root can give a file to another user") }
        let fixture = try DownloadFixture()
        try await begin(fixture)
        let partial = fixture.file("file.bin.convoypart").path
        try #require(chown(partial, Self.other, Self.other) == 0 && chmod(partial, 0o666) == 0)
        let operation = await fixture.run(fixture.download())
        #expect(operation.error != nil)
        #expect(!fixture.names.contains("file.bin"))
    }
}
