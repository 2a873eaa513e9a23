#if Images
import ConvoyCache
import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyImage

/// Loads after a cancelled load of the same image.
@Suite struct ImageResumeTests {
    /// Serves an image of 300 kB with ranges. The first response stops after half of it.
    private func serveHalf(_ rig: ImageRig, _ path: String, _ gate: TestServer.Gate) throws -> Data {
        var generator = SplitMix64(seed: 5)
        let body = try Samples.saved("bmp", width: 320, height: 320) + generator.data(count: 10)
        let isFirst = Locked(true)
        rig.server.route(nil, path) { request in
            let start = request.headers["Range"].flatMap { Int($0.dropFirst(6).prefix { $0 != "-" }) }
            let part = body.dropFirst(start ?? 0)
            var response = TestServer.Response.bytes(Data(part), type: "image/bmp").header("ETag", "\"1\"")
                .header("Accept-Ranges", "bytes")
            if let start {
                response = response.status(206).header(
                    "Content-Range", "bytes \(start)-\(body.count - 1)/\(body.count)")
            }
            let isHeld = isFirst.withLock { first in
                defer { first = false }
                return first
            }
            return isHeld ? response.heldBody(by: gate, afterBytes: 150_000) : response
        }
        return body
    }

    @Test(arguments: [true, false])
    func `a load after a cancelled one requests only the rest`(isKept: Bool) async throws {
        let rig = try ImageRig { $0.resumesCancelledLoads = isKept }
        let gate = TestServer.Gate()
        defer { gate.open() }
        let body = try serveHalf(rig, "/one", gate)
        let half = LoadLog<Int64>()
        let receipt = rig.downloader.load(
            rig.request("/one"), on: rig.queue, progress: { half.add($0.bytesReceived) }
        ) { _ in Issue.record("a cancelled load completes") }
        try await waitUntil("half of the image") { half.entries.last ?? 0 >= 150_000 }
        #expect(receipt.cancel())
        try await rig.waitUntilIdle()
        #expect(rig.downloader.activeDownloadCount == 0)
        let image = try await rig.downloader.image(for: rig.request("/one"))
        #expect(image == (try decode(body)))
        let ranges = rig.server.requests.map { $0.headers["Range"] }
        #expect(ranges == (isKept ? [nil, "bytes=150000-"] : [nil, nil]), "\(ranges)")
        #expect(isKept == (rig.server.requests.last?.headers["If-Range"] != nil))
    }

    /// Serves half of an image, then nothing for the rest of its first `stalls` requests for the rest, then the whole image.
    private func serveLate(_ rig: ImageRig, _ path: String, stalls: Int, _ gate: TestServer.Gate) throws -> Data {
        let body = try Samples.saved("bmp", width: 320, height: 320)
        let count = Locked(0)
        rig.server.route(nil, path) { _ in
            let number = count.withLock { count in
                defer { count += 1 }
                return count
            }
            let response = TestServer.Response.bytes(body, type: "image/bmp").header("ETag", "\"1\"")
                .header("Accept-Ranges", "bytes")
            return switch number {
            case 0: response.heldBody(by: gate, afterBytes: 150_000)
            case _ where number <= stalls: response.held(by: gate)
            default: response
            }
        }
        return body
    }

    /// Loads half of an image and cancels the load.
    private func loadHalf(_ rig: ImageRig, _ path: String) async throws {
        let half = LoadLog<Int64>()
        let receipt = rig.downloader.load(
            rig.request(path), on: rig.queue, progress: { half.add($0.bytesReceived) }
        ) { _ in Issue.record("a cancelled load completes") }
        try await waitUntil("half of the image") { half.entries.last ?? 0 >= 150_000 }
        #expect(receipt.cancel())
        #expect(rig.downloader.jobs.withLock { $0.shared.count } == 1)
    }

    @Test func `a load that resumes a cancelled one has its own time limit`() async throws {
        let rig = try ImageRig { $0.totalTimeout = 1 }
        let gate = TestServer.Gate()
        defer { gate.open() }
        let body = try serveLate(rig, "/one", stalls: 1, gate)
        try await loadHalf(rig, "/one")
        // The request for the rest ends with the time of the cancelled load. The next one has the time of this load.
        #expect(try await rig.downloader.image(for: rig.request("/one")) == decode(body))
        #expect(rig.server.requests.map { $0.headers["Range"] } == [nil, "bytes=150000-", nil])
        try await rig.waitUntilIdle()

        _ = try serveLate(rig, "/two", stalls: 9, gate)
        try await loadHalf(rig, "/two")
        let error = await #expect(throws: URLError.self) { try await rig.downloader.image(for: rig.request("/two")) }
        #expect(error?.code == .timedOut)
        #expect(rig.server.requests("/two").count == 3, "a second time limit is not extended")
        try await rig.waitUntilIdle()
    }

    @Test func `the bytes of a cancelled load are kept until its time limit`() async throws {
        let rig = try ImageRig { $0.totalTimeout = 1 }
        let gate = TestServer.Gate()
        defer { gate.open() }
        let body = try serveLate(rig, "/one", stalls: 0, gate)
        try await loadHalf(rig, "/one")
        try await waitUntil("the end of the cancelled load") { rig.downloader.jobs.withLock { $0.shared.isEmpty } }
        #expect(try await rig.downloader.image(for: rig.request("/one")) == decode(body))
        #expect(rig.server.requests.map { $0.headers["Range"] } == [nil, nil])

        // Without a time limit, nothing would end the transfer.
        let unlimited = try ImageRig { $0.totalTimeout = nil }
        unlimited.downloader.manager.totalTimeout = nil
        _ = try serveLate(unlimited, "/one", stalls: 0, gate)
        let half = LoadLog<Int64>()
        let receipt = unlimited.downloader.load(
            unlimited.request("/one"), on: unlimited.queue, progress: { half.add($0.bytesReceived) }
        ) { _ in }
        try await waitUntil("half of the image") { half.entries.last ?? 0 >= 150_000 }
        #expect(receipt.cancel())
        #expect(unlimited.downloader.jobs.withLock { $0.shared.isEmpty })
    }

    @Test func `cancelled loads are kept up to a limit, and can be cancelled again while they resume`() async throws {
        let rig = try ImageRig(limit: 20)
        let gate = TestServer.Gate()
        defer { gate.open() }
        var bodies: [Data] = []
        for number in 0..<12 { bodies.append(try serveHalf(rig, "/\(number)", gate)) }
        let counts = LoadLog<Int>()
        let receipts = (0..<12).map { number in
            rig.downloader.load(
                rig.request("/\(number)"), on: rig.queue,
                progress: { if $0.bytesReceived >= 150_000 { counts.add(number) } }
            ) { _ in }
        }
        try await waitUntil("all halves") { Set(counts.entries).count == 12 }
        for receipt in receipts { receipt.cancel() }
        try await rig.waitUntilIdle()
        // Loads that are cancelled and begun at once end in one transfer each.
        for number in 0..<12 {
            for _ in 0..<5 { rig.downloader.load(rig.request("/\(number)"), on: rig.queue) { _ in }.cancel() }
            #expect(try await rig.downloader.image(for: rig.request("/\(number)")) == decode(bodies[number]))
        }
        try await rig.waitUntilIdle()
        // The bytes of the last eight images were kept.
        let ranged = Set(rig.server.requests.filter { $0.headers["Range"] != nil }.map(\.path))
        #expect(!ranged.isEmpty && ranged.isSubset(of: Set((4..<12).map { "/\($0)" })), "\(ranged)")
        #expect(rig.downloader.activeDownloadCount == 0 && rig.downloader.waitingDownloadCount == 0)
    }
}
#endif
