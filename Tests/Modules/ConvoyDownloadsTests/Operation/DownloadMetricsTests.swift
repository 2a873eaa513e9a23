import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// The metrics of a download: the requests of all its parts.
@Suite struct DownloadMetricsTests {
    let fixture: DownloadFixture
    let bytes = Data((0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })

    init() throws { fixture = try DownloadFixture() }

    @Test(arguments: [1, 4]) func `the metrics of a download contain the requests of its parts`(count: Int) async throws {
        // The response is slow enough for all parts to get a response before the first one has fetched its range.
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

    @Test func `event monitors receive the requests of all parts with their metrics`() async throws {
        fixture.server.serve(bytes, at: "/file", etag: "\"1\"") { _, response in
            var response = response
            response.effects.pace = .drip(bytes: 50_000, interval: 0.01)
            return response
        }
        let heard = Locked<(started: Int, measured: Int)>((0, 0))
        let monitor = EventMonitor(interval: 0) { events in
            for event in events {
                switch event.kind {
                case .requestStarted: heard.withLock { $0.started += 1 }
                case .requestEnded(_, let head, let metrics) where head != nil && metrics != nil:
                    heard.withLock { $0.measured += 1 }
                default: break
                }
            }
        }
        let download = await fixture.run(
            fixture.download {
                ($0.segmentCount, $0.minimumSegmentLength, $0.eventMonitors) = (4, 100_000, [monitor])
            })
        #expect(download.error == nil)
        let count = fixture.server.requests("/file").count
        #expect(count >= 4)
        try eventually("all ends, not \(heard.withLock { $0 })") { heard.withLock { $0 == (count, count) } }
    }

    @Test func `the metrics of a download include its redirects, and count a pause as a wait`() async throws {
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
        // The metrics must include this pause.
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
