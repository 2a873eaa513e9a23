import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyDownloads

struct RateMeterTests {
    @Test func `the remaining time follows from the rate and the remaining bytes`() {
        let request = URLRequest(url: URL(fileURLWithPath: "/"))
        var progress = DownloadOperation(request: request, destination: URL(fileURLWithPath: "/nowhere")).downloadProgress
        #expect(progress.timeRemaining == nil)
        (progress.bytesReceived, progress.bytesExpected, progress.bytesPerSecond) = (100, 400, 50)
        #expect(progress.timeRemaining == 6)
        progress.bytesPerSecond = 0
        #expect(progress.timeRemaining == nil)
        progress.bytesReceived = 400
        #expect(progress.timeRemaining == 0)
        progress.bytesReceived = 500
        #expect(progress.timeRemaining == 0)
    }

    private let second: UInt64 = 1_000_000_000

    @Test func `the rate covers the last few seconds and falls when nothing arrives`() throws {
        var meter = RateMeter()
        meter.begin(at: second)
        #expect(meter.rate(at: second + 100_000_000) == nil)
        for step in 0..<100 { meter.note(1_000, at: second + UInt64(step) * 100_000_000) }
        let rate = try #require(meter.rate(at: second * 11))
        #expect((9_000...11_000).contains(rate))
        let later = try #require(meter.rate(at: second * 13))
        #expect((5_000...7_000).contains(later))
        #expect(meter.rate(at: second * 30) == 0)
        // After a pause, the time before it does not count.
        meter.begin(at: second * 40)
        meter.note(500, at: second * 40)
        #expect(meter.rate(at: second * 41) == 500)
    }

    /// Old bytes are dropped for the first time with the eighty-first block.
    @Test func `the last five seconds count even after older bytes are dropped`() {
        var meter = RateMeter()
        meter.begin(at: second)
        for step in 0...80 { meter.note(1_000, at: second + UInt64(step) * 100_000_000) }
        // The rate covers the blocks from 4.0 to 9.0 seconds.
        #expect(meter.rate(at: second * 9) == 10_200)
    }
}
