import Convoy
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTool

@Suite(.serialized) struct TransferTimeTests {
    @Test func `reported durations do not depend on when the handlers run`() throws {
        let server = try TestServer()
        server.route("/slow", .text("x").delayed(0.3))
        let url = server.url("/slow")
        let transfer = Transfer(
            id: nil, name: "slow", request: URLRequest(url: url), url: url,
            body: BodyFile(path: nil, replaces: false, hashes: false))
        let queue = DispatchQueue(label: "busy"), group = DispatchGroup(), free = DispatchSemaphore(value: 0)
        transfer.operation.completionQueue = queue
        transfer.operation.completionGroup = group
        nonisolated(unsafe) var outcome: Outcome?
        transfer.operation.setCompletionHandler(success: { _, _ in outcome = transfer.conclude(nil) })
        let isFinished = DispatchSemaphore(value: 0)
        let observation = transfer.operation.observe(.isFinished) { _, _ in isFinished.signal() }
        defer { observation.invalidate() }
        queue.async { free.wait() }
        let begun = ContinuousClock.now
        transfer.operation.start()
        isFinished.wait()
        let atMost = (ContinuousClock.now - begun).seconds
        // The handlers are called so late that another request has finished in the meantime.
        let other = HTTPRequestOperation(request: URLRequest(url: url))
        other.completionQueue = DispatchQueue(label: "other")
        other.completionBlock = { free.signal() }
        other.start()
        group.wait()
        let seconds = try #require(outcome?.seconds)
        #expect(seconds >= 0.25)
        #expect(seconds <= atMost)
    }
}
