import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import XCTest

@testable import ConvoyOperations

/// Tests that the memory and other resources of the process do not grow with the number of requests. Uses XCTest, which
/// runs tests serially.
final class GrowthTests: XCTestCase {
    private enum Kind: CaseIterable {
        case plain, observed, redirected, missing, broken, refused, paused, cancelled, cancelledLater, intoFile, retried
    }

    private let directory = try? TemporaryDirectory()

    private func makeServer() throws -> TestServer {
        var configuration = TestServer.Configuration()
        configuration.recordingLimit = 0
        let server = try TestServer(configuration)
        server.route("GET", "/plain", .text("plain"))
        server.redirect("/moved", to: "/plain")
        server.route("GET", "/broken", .raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort").closing())
        server.servePattern(count: 100_000, at: "/file", etag: "\"v1\"")
        return server
    }

    private func run(_ kinds: [Kind], count: Int, from server: TestServer) throws {
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 32
        let group = DispatchGroup()
        let inFlight = DispatchSemaphore(value: 256)
        for number in 0..<count {
            let kind = kinds[number % kinds.count]
            var url = server.url("/plain")
            switch kind {
            case .redirected: url = server.url("/moved")
            case .missing: url = server.url("/missing")
            case .broken: url = server.url("/broken")
            case .refused: url = try XCTUnwrap(URL(string: "http://127.0.0.1:1/"))
            case .paused, .intoFile: url = server.url("/file")
            default: break
            }
            let operation = HTTPRequestOperation(request: URLRequest(url: url))
            operation.completionQueue = testQueue
            operation.completionGroup = group
            operation.setCompletionHandler(success: { _, _ in inFlight.signal() }, failure: { _, _ in inFlight.signal() })
            switch kind {
            case .observed: operation.keepObserving(.state) { _, _ in }
            case .intoFile:
                let file = try XCTUnwrap(directory).file("\(number % 64)")
                operation.outputStream = FileOutputStream(fileURL: file)
            case .paused:
                operation.onFirstBytes { [weak operation] in
                    operation?.pause()
                    operation?.resume()
                }
            case .retried: operation.retryPolicy = RetryPolicy(maximumRetryCount: 2)
            default: break
            }
            try inFlight.waitOrThrow(timeout: 100, "a slot")
            queue.addOperation(operation)
            switch kind {
            case .cancelled: operation.cancel()
            case .cancelledLater: OperationQueues.processing.async { operation.cancel() }
            default: break
            }
        }
        XCTAssertEqual(group.wait(timeout: .now() + 200), .success)
        testQueue.sync {}
    }

    /// Returns the bytes that each request leaves behind, from the lowest level in three rounds to the lowest in the
    /// next three. Work still in progress at the end of a round raises its level, and a table that grows once raises
    /// all later ones. A real leak recurs in every measurement, so the smallest of several growths is used.
    private func growth(of kinds: [Kind], count: Int, enough: Int) throws -> Int {
        let server = try makeServer()
        // Fill the caches first.
        try run(kinds, count: count, from: server)
        var levels: [Int] = []
        var smallest = Int.max
        repeat {
            for _ in 0..<3 {
                try run(kinds, count: count, from: server)
                levels.append(ProcessMeters.allocatedBytes)
            }
            guard levels.count > 3 else { continue }
            let last = levels.suffix(3).min() ?? 0
            let first = levels.dropLast(3).suffix(3).min() ?? 0
            smallest = min(smallest, (last - first) / (3 * count))
        } while smallest >= enough && levels.count < 18
        print("allocated after each round of \(count) requests: \(levels)")
        return smallest
    }

    func testRequestsOfAllKindsLeaveNothingBehind() throws {
        XCTAssertLessThan(try growth(of: Kind.allCases, count: 2_200, enough: 32), 32)
    }

    func testObserversLeaveNothingBehind() throws {
        XCTAssertLessThan(try growth(of: [.observed], count: 2_000, enough: 32), 32)
    }

    /// A separate queue for each observer would be served by a separate thread if it had no target.
    func testObserversDoNotTakeAThreadEach() throws {
        let server = try makeServer()
        try run([.plain], count: 500, from: server)
        let before = ProcessMeters.threads
        try run([.observed], count: 4_000, from: server)
        XCTAssertLessThan(ProcessMeters.threads, before + 16)
    }
}
