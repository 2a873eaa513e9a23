import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that a blocking user closure delays only its operation.
@Suite struct BlockingClosureTests {
    let server: TestServer
    let queue = RequestOperationQueue()

    init() throws {
        server = try TestServer()
        server.route("GET", "/quick", .text("quick"))
        server.redirect("/moved", to: "/quick")
    }

    /// The number exceeds the number of threads in libdispatch's pools.
    @Test func `three hundred preparations that wait for each other all finish`() {
        let meeting = Meeting(of: 300)
        queue.maxConcurrentOperationCount = 300
        let probes = (0..<300).map { _ in Probe(server.url("/quick")) }
        for probe in probes {
            probe.operation.prepare = { _ in
                #expect(meeting.arrive())
                throw URLError(.cancelled)
            }
        }
        queue.addOperations(probes.map(\.operation), waitUntilFinished: false)
        for probe in probes { #expect(probe.outcome() == Probe.cancelled) }
    }

    @Test func `seventy output streams that wait for each other are all written`() {
        final class Waiting: OutputStream {
            var meeting: Meeting?
            private(set) var count = 0
            override var streamStatus: Stream.Status { .open }
            override func open() {}
            override func close() {}
            override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int {
                if count == 0, let meeting { #expect(meeting.arrive()) }
                count += length
                return length
            }
        }
        let meeting = Meeting(of: 70)
        let streams = (0..<70).map { _ in
            let stream = Waiting(toMemory: ())
            stream.meeting = meeting
            return stream
        }
        let probes = streams.map { Probe(server.url("/quick"), output: $0) }
        queue.addOperations(probes.map(\.operation), waitUntilFinished: false)
        for probe in probes { #expect(probe.outcome() == Probe.succeeded) }
        #expect(streams.allSatisfy { $0.count == 5 })
    }

    @Test func `ten redirect decisions that wait for each other are all made`() async throws {
        let meeting = Meeting(of: 10)
        let operations = (0..<10).map { _ in HTTPRequestOperation(request: URLRequest(url: server.url("/moved"))) }
        for operation in operations {
            operation.redirectHandler = { _, request, _ in
                #expect(meeting.arrive())
                // The thread does not belong to libdispatch, which has only a few threads.
                #expect((try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)) == "Convoy.Worker\n")
                return request
            }
            queue.addOperation(operation)
        }
        for operation in operations {
            try await operation.finished()
            #expect(operation.responseString == "quick")
        }
    }
}
