import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Promise 1: an operation that is started or enqueued finishes exactly once, in any order of events. `InterleavingTests`
/// generates the orders.
@Suite struct ExactlyOnceTests {
    let server: TestServer
    let queue = OperationQueue()

    init() throws {
        server = try TestServer()
        server.route("GET", "/quick", .text("quick"))
    }

    @Test func `resuming an operation that was never started runs it once it is enqueued`() {
        let probe = Probe(server.url("/quick"))
        probe.operation.pause()
        queue.addOperation(probe.operation)
        probe.operation.resume()
        #expect(probe.outcome() == Probe.succeeded)
        #expect(server.requests.count == 1)
    }

    @Test func `a pause during parsing keeps the outcome for the resume`() throws {
        let (parsing, paused) = (Signal(), Signal())
        let probe = Probe(server.url("/quick"))
        probe.operation.responseSerializer = SlowSerializer(parsing: parsing, goOn: paused)
        queue.addOperation(probe.operation)
        #expect(parsing.wait())
        probe.operation.pause()
        paused.fire()
        #expect(probe.operation.state == .paused)
        #expect(probe.operation.responseObject == nil)
        probe.operation.resume()
        #expect(probe.outcome() == Probe.succeeded)
        #expect(probe.operation.responseObject as? String == "parsed")
        #expect(server.requests.count == 1)
    }

    private struct SlowSerializer: HTTPResponseSerialization {
        var http = HTTPResponseSerializer()
        let parsing: Signal
        let goOn: Signal
        func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
            parsing.fire()
            _ = goOn.wait()
            return "parsed"
        }
    }

    @Test func `starting an operation twice does nothing`() {
        let probe = Probe(server.url("/quick"))
        probe.operation.start()
        probe.operation.start()
        #expect(probe.outcome() == Probe.succeeded)
        probe.operation.start()
        #expect(server.requests.count == 1)
    }
}
