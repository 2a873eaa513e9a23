import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Servers that accept fewer connections or ranges than requested.
struct FewConnectionTests {
    private let fixture: DownloadFixture
    private let bytes = PatternBytes.data(count: 3_000_000)

    init() throws { fixture = try DownloadFixture() }

    private func run(segments: Int) async -> DownloadOperation {
        await fixture.run(
            fixture.download {
                $0.segmentCount = segments
                $0.minimumSegmentLength = 10_000
            })
    }

    /// The server refuses when the first connection has fetched its share and was closed.
    @Test(arguments: 3...8) func `refused ranges are requested again`(segments: Int) async {
        let refusals = Locked(0)
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { request, response in
            guard request.headers["Range"] != nil else { return response }
            let isRefused = refusals.withLock { count in
                count += 1
                return count < segments
            }
            return isRefused ? TestServer.Response.status(503).delayed(0.05) : response
        }
        let download = await run(segments: segments)
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
    }

    @Test(arguments: 3...8) func `a download completes over the only allowed connection`(segments: Int) async {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { request, response in
            guard request.headers["Range"] == nil else { return .status(503) }
            var response = response
            response.effects.pace = .drip(bytes: 100_000, interval: 0.002)
            return response
        }
        let download = await run(segments: segments)
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
    }

    /// nginx counts the connections of each download, and refuses those above a limit.
    ///
    /// `CONVOY_FEW_CONNECTIONS` sets the number of downloads (24), `CONVOY_SEED` repeats a run.
    @Test(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"))
    func `all downloads from a server that limits its connections complete`() async throws {
        let count = ProcessInfo.processInfo.environment["CONVOY_FEW_CONNECTIONS"].flatMap { Int($0) } ?? 24
        let nginx = try Nginx()
        try nginx.add(bytes, as: "file")
        var random = SplitMix64.printingSeed()
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 8
        var downloads: [(DownloadOperation, String)] = []
        for number in 0..<count {
            let limit = Int.random(in: 1...3, using: &random)
            let url = try #require(URL(string: nginx.url("few-\(limit)/file").absoluteString + "?key=\(number)"))
            let download = DownloadOperation(request: URLRequest(url: url), destination: fixture.file("\(number)"))
            download.completionQueue = .global()
            download.segmentCount = Int.random(in: 3...8, using: &random)
            download.minimumSegmentLength = Int64.random(in: 10_000...200_000, using: &random)
            downloads.append((download, "\(number): \(limit) connections, \(download.segmentCount) segments"))
            queue.addOperation(download)
        }
        for (number, (download, note)) in downloads.enumerated() {
            try? await download.finished()
            #expect(download.error == nil, "\(note)")
            #expect(fixture.contents("\(number)") == bytes, "\(note)")
        }
    }

    enum Oddity: String, CaseIterable, Sendable { case shifted, short, otherTotal, withoutRange, several }

    @Test(arguments: Oddity.allCases) func `a download completes over one connection if range responses are invalid`(
        oddity: Oddity
    ) async {
        let bytes = bytes
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { request, response in
            guard let range = request.headers["Range"], let first = Int(range.dropFirst(6).prefix { $0 != "-" }) else {
                var response = response
                response.effects.pace = .drip(bytes: 100_000, interval: 0.002)
                return response
            }
            let end = Int(range.split(separator: "-").last ?? "") ?? bytes.count - 1
            var (from, to, total, type) = (first, end, bytes.count, "application/octet-stream")
            var body = Data(bytes[first...end])
            switch oddity {
            case .shifted: (from, to) = (first + 1, end + 1)
            case .short: body = body.dropLast(7)
            case .otherTotal: total += 1
            case .withoutRange: break
            case .several: type = "multipart/byteranges; boundary=b"
            }
            let odd = TestServer.Response.bytes(Data(body), type: type, status: 206).header("ETag", "\"1\"")
            return oddity == .withoutRange ? odd : odd.header("Content-Range", "bytes \(from)-\(to)/\(total)")
        }
        let download = await run(segments: 4)
        #expect(download.error == nil)
        #expect(fixture.contents() == bytes)
    }
}
