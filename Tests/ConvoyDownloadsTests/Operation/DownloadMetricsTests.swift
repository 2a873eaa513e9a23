import ConvoyDownloads
import ConvoyOperations
import ConvoyTestServer
import Foundation
import Testing

/// What a download took: the requests of all its parts.
@Suite struct DownloadMetricsTests {
    let fixture: DownloadFixture
    let bytes = Data((0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })

    init() throws { fixture = try DownloadFixture() }

    @Test(arguments: [1, 4]) func `a download has the requests of its parts`(count: Int) async throws {
        // Slowly enough for all parts to be answered before the first has brought what they were asked for.
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in
            var response = response
            response.effects.pace = .drip(bytes: 50_000, interval: 0.01)
            return response
        }
        let download = await fixture.run(
            fixture.download {
                $0.collectsMetrics = true
                $0.segmentCount = count
                $0.minimumSegmentLength = 100_000
            })
        #expect(download.error == nil && fixture.contents() == bytes)
        let metrics = try #require(download.metrics)
        #expect(metrics.transactions.count == fixture.server.requests("/file").count)
        #expect(metrics.transactions.count >= count)
        #expect(metrics.transactions.allSatisfy { [200, 206].contains($0.statusCode) })
        let received = metrics.transactions.reduce(0) { $0 + $1.countOfResponseBodyBytesReceived }
        #expect(received >= Int64(bytes.count))
        #expect(metrics.waitDuration + metrics.workDuration == metrics.duration)
    }

    @Test func `a pause of a download is a wait, and its redirects count`() async throws {
        let gate = TestServer.Gate()
        fixture.server.redirect("/file", to: "/there")
        fixture.server.serve(bytes, at: "/there", etag: "\"1\"") { request, response in
            request.headers["Range"] == nil ? response.heldBody(by: gate, afterBytes: 1_000_000) : response
        }
        let download = fixture.download { $0.collectsMetrics = true }
        fixture.queue.addOperation(download)
        try await fixture.server.waitForRequests(count: 2, timeout: 100)
        download.pause()
        gate.open()
        // The pause that is measured.
        try await Task.sleep(for: .seconds(0.3))
        download.resume()
        try await download.finished()
        #expect(fixture.contents() == bytes)
        let metrics = try #require(download.metrics)
        #expect(metrics.waitDuration(for: .pause) >= 0.25)
        #expect(metrics.transactions.count == fixture.server.requests.count)
        #expect(metrics.redirectCount == fixture.server.requests("/file").count)
    }
}
