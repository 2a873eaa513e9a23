import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyDownloads

/// A journal with impossible numbers, from damage or another program.
@Suite struct JournalNumberTests {
    private let fixture: DownloadFixture
    private let bytes = PatternBytes.data(count: 300_000)

    init() throws { fixture = try DownloadFixture() }

    private static let totals: [Int64] = [0, 1, 200_000, 300_000, 300_001, 1 << 40, .max]
    private static let claims = [
        [], [0..<1], [0..<200_000], [0..<300_000], [199_999..<200_001, (Int64.max - 5)..<(.max)], [5..<7, 1000..<(1 << 40)],
        [0..<(.max)],
    ].map { ByteRanges($0) }

    /// A contradiction of the server may cause one error.
    @Test(arguments: Self.totals) func `a download completes even if its journal contains extreme numbers`(
        _ total: Int64
    ) async throws {
        for claim in Self.claims where claim.ranges.last.map({ $0.upperBound <= total }) ?? true {
            fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in
                response.truncated(afterBytes: 200_000)
            }
            await fixture.run(fixture.download())
            try writeJournal(of: fixture.file().path, total, claim)
            fixture.server.serve(bytes, at: "/file", etag: "\"1\"")
            fixture.server.forgetRequests()
            var download = await fixture.run(fixture.download { $0.segmentCount = Int.random(in: 1...4) })
            if download.error != nil { download = await fixture.run(fixture.download()) }
            // A journal with correct numbers is accepted, so the download resumes.
            if total == 300_000, claim == ByteRanges([0..<200_000]) {
                #expect(fixture.server.requests("/file").first?.headers["Range"] != nil)
            }
            #expect(download.error == nil, "\(claim)")
            #expect(fixture.contents() == bytes, "\(claim)")
            #expect(fixture.names == ["file.bin"], "\(claim)")
            try FileManager.default.removeItem(at: fixture.file())
        }
    }

    /// Writes a single entry to the journal, with the largest possible number.
    private func writeJournal(of path: String, _ total: Int64, _ claim: ByteRanges) throws {
        let journal = URL(fileURLWithPath: PartialPaths(destination: path).journal)
        let old = Array(try Data(contentsOf: journal))
        let mark = try #require(text(old).firstMatch(of: /"file":"([^"]*)"/)).1
        var entry = try #require(JournalLayout.latest(in: old, of: String(mark)))
        (entry.number, entry.representation.total, entry.bytes) = (.max, total, claim)
        let place = [UInt8](repeating: 0, count: Int(JournalLayout.offset(of: .max)))
        // Write to the same file, which has the correct owner and mode.
        let handle = try FileHandle(forUpdating: journal)
        try handle.truncate(atOffset: 0)
        try handle.write(contentsOf: Data(place + (try #require(entry.text))))
        try handle.close()
    }

    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
