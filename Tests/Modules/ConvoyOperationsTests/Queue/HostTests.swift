import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that real requests to several servers do not affect each other.
@Suite struct HostTests {
    let slowServer: TestServer
    let fastServer: TestServer
    let gate = TestServer.Gate()
    let queue = RequestOperationQueue()

    init() throws {
        slowServer = try TestServer()
        fastServer = try TestServer()
        slowServer.route("GET", "/slow", .text("slow").delayed(0.05))
        slowServer.route("GET", "/held", .text("held").held(by: gate))
        fastServer.route("GET", "/x", .text("fast"))
        queue.maxConcurrentOperationCount = 8
    }

    private func enqueueSlow(_ path: String) {
        let slow = (0..<1_000).map { _ in HTTPRequestOperation(request: URLRequest(url: slowServer.url(path))) }
        queue.addOperations(slow, waitUntilFinished: false)
    }

    private func enqueueFastAndWait() {
        let fast = (0..<100).map { _ in Probe(fastServer.url("/x")) }
        queue.addOperations(fast.map(\.operation), waitUntilFinished: false)
        for probe in fast { #expect(probe.outcome() == Probe.succeeded) }
    }

    private func end() {
        gate.open()
        queue.cancelAllOperations()
        queue.waitUntilAllOperationsAreFinished()
    }

    @Test func `a hundred requests to a fast host finish before fifty to a slow one`() {
        enqueueSlow("/slow")
        enqueueFastAndWait()
        #expect(slowServer.statistics.responseCount < 50)
        end()
    }

    @Test func `a host that never answers occupies only its own slots`() {
        queue.maxConcurrentOperationCountPerHost = 6
        enqueueSlow("/held")
        // The call returns before the other host has responded.
        enqueueFastAndWait()
        #expect(slowServer.statistics.responseCount == 0)
        #expect(slowServer.statistics.peakActiveRequestCount <= 6)
        end()
    }
}
