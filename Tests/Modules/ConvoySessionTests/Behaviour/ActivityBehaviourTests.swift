import ConvoyDiagnostics
import ConvoyDownloads
import ConvoyOperations
import ConvoySerialization
import ConvoySession
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

/// The number of tasks and downloads that a monitor counts.
@Suite struct ActivityBehaviourTests {
    @Test func `a task counts once, like its operation`() async throws {
        let fixture = try SessionFixture()
        let gate = TestServer.Gate()
        fixture.server.route("/held", .text("held").held(by: gate))
        // Count only this manager's operations, because other tests run concurrently.
        let monitor = NetworkActivityMonitor(queue: .global()) { [manager = fixture.manager] operation in
            operation.completionQueue === manager.completionQueue
        }
        monitor.isEnabled = true
        let task = fixture.manager.get("held", success: { _, _ in })
        try await fixture.server.waitForRequests(count: 1, timeout: 100)
        #expect(monitor.activityCount == 1)
        task.suspend()
        try eventually { monitor.activityCount == 0 }
        gate.open()
        task.resume()
        try await task.finished()
        try eventually { monitor.activityCount == 0 }
    }

    @Test func `a download over several connections counts once`() async throws {
        let server = try TestServer()
        let directory = try TemporaryDirectory()
        let gate = TestServer.Gate()
        let body = Data((0..<400_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        server.serve(body, at: "/file", etag: "\"1\"") { _, response in response.heldBody(by: gate, afterBytes: 1000) }
        let download = DownloadOperation(
            request: URLRequest(url: server.url("/file")), destination: directory.url.appendingPathComponent("file"))
        (download.segmentCount, download.minimumSegmentLength) = (4, 50_000)
        let queue = DispatchQueue(label: "Convoy.Activity.download")
        download.completionQueue = queue
        let monitor = NetworkActivityMonitor(queue: .global()) { $0.completionQueue === queue }
        monitor.isEnabled = true
        download.start()
        try await server.waitForRequests(count: 4, timeout: 100)
        #expect(monitor.activityCount == 1)
        gate.open()
        try await download.finished()
        #expect(try Data(contentsOf: directory.url.appendingPathComponent("file")) == body)
        try eventually { monitor.activityCount == 0 }
    }
}
