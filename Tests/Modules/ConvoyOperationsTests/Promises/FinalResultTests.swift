import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Promise 3: response, data, object and error are final before `isFinished` is posted, and an operation that takes a
/// value from a dependency is never sent without it.
@Suite struct FinalResultTests {
    let server: TestServer
    let queue = OperationQueue()

    init() throws {
        server = try TestServer()
        server.route("GET", "/quick", .text("quick"))
        server.route("GET", "/json", .json(text: #"{"token": "x"}"#))
    }

    @Test func `a dependent can always read its dependency's results`() throws {
        for _ in 0..<200 {
            let first = Probe(server.url("/json"))
            first.operation.responseSerializer = JSONResponseSerializer()
            let seen = Locked<String?>(nil)
            let done = Signal()
            let dependent = BlockOperation { [operation = first.operation] in
                seen.withLock { $0 = (operation.responseObject as? [String: Any])?["token"] as? String }
                done.fire()
            }
            dependent.addDependency(first.operation)
            queue.addOperations([first.operation, dependent], waitUntilFinished: false)
            #expect(done.wait())
            #expect(seen.withLock { $0 } == "x")
            #expect(first.outcome() == Probe.succeeded)
        }
    }

    @Test func `an error response's parsed body is available with the error`() {
        server.route("GET", "/refused", .json(text: #"{"reason": "no"}"#).status(403))
        let probe = Probe(server.url("/refused"))
        probe.operation.responseSerializer = JSONResponseSerializer()
        queue.addOperation(probe.operation)
        #expect(probe.outcome() == ["failure -1011", "completion"])
        #expect((probe.operation.responseObject as? [String: String]) == ["reason": "no"])
        #expect(probe.operation.statusCode == 403)
        #expect(probe.operation.responseString == #"{"reason": "no"}"#)
    }

    @Test func `an error thrown by prepare is the operation's error`() {
        struct Refusal: Error {}
        let probe = Probe(server.url("/quick"))
        probe.operation.prepare = { _ in throw Refusal() }
        queue.addOperation(probe.operation)
        #expect(probe.outcome()?.count == 2)
        #expect(probe.operation.error is Refusal)
        #expect(server.requests.isEmpty)
    }
}
