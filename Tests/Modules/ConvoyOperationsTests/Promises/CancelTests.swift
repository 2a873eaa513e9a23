import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Promise 2: a cancelled operation finishes once, with `URLError.cancelled`, and lets its dependents run, or cancels them
/// if configured.
@Suite struct CancelTests {
    let server: TestServer
    /// The queue of the dependents.
    let other = OperationQueue()

    init() throws {
        server = try TestServer()
        server.route("GET", "/quick", .text("quick"))
        server.route("GET", "/silent", .text("never").failing(.stallBeforeHead))
        server.route("GET", "/stalls", .pattern(count: 1 << 20).stalls(afterBytes: 4096))
    }

    /// Enqueues a dependent of an operation. The signal fires when the dependent has run.
    private func dependent(on operation: Operation) -> Signal {
        let ran = Signal()
        let block = BlockOperation { ran.fire() }
        block.addDependency(operation)
        other.addOperation(block)
        return ran
    }

    private func expectCancelled(_ probe: Probe, _ dependentRan: Signal) {
        #expect(probe.outcome() == Probe.cancelled)
        #expect(probe.operation.isFinished && probe.operation.isCancelled)
        #expect(probe.error?.code == .cancelled)
        #expect(probe.operation.responseData == nil)
        #expect(dependentRan.wait())
        probe.operation.cancel()
        probe.operation.resume()
        probe.operation.start()
        #expect(probe.operation.state == .finished)
    }

    @Test func `cancelling an operation that is never enqueued finishes it`() {
        let probe = Probe(server.url("/quick"))
        let ran = dependent(on: probe.operation)
        probe.operation.cancel()
        #expect(probe.operation.isCancelled && !probe.operation.isFinished)
        probe.operation.start()
        expectCancelled(probe, ran)
        #expect(server.requests.isEmpty)
    }

    @Test(arguments: QueueKind.allCases) func `cancelling a queued operation finishes it`(in kind: QueueKind) {
        let queue = kind.make()
        let probe = Probe(server.url("/quick"))
        queue.isSuspended = true
        queue.addOperation(probe.operation)
        let ran = dependent(on: probe.operation)
        probe.operation.cancel()
        // Convoy's queue starts it immediately; Foundation's starts it in its turn.
        #expect(probe.operation.isFinished == (kind == .convoy))
        queue.isSuspended = false
        expectCancelled(probe, ran)
        queue.waitUntilAllOperationsAreFinished()
        #expect(server.requests.isEmpty)
    }

    @Test(arguments: QueueKind.allCases) func `cancelling an operation that waits for a dependency finishes it`(
        in kind: QueueKind
    ) {
        let queue = kind.make()
        let probe = Probe(server.url("/quick"))
        let gate = BlockOperation {}
        probe.operation.addDependency(gate)
        queue.addOperation(probe.operation)
        let ran = dependent(on: probe.operation)
        probe.operation.cancel()
        expectCancelled(probe, ran)
        #expect(!gate.isFinished)
        #expect(server.requests.isEmpty)
    }

    @Test(arguments: QueueKind.allCases) func `cancelling before the connection finishes the operation`(in kind: QueueKind) {
        let queue = kind.make()
        let probe = Probe(server.url("/quick"))
        let preparing = Signal()
        let cancelled = Signal()
        probe.operation.prepare = { _ in
            preparing.fire()
            _ = cancelled.wait()
        }
        queue.addOperation(probe.operation)
        let ran = dependent(on: probe.operation)
        #expect(preparing.wait())
        probe.operation.cancel()
        cancelled.fire()
        expectCancelled(probe, ran)
        #expect(server.requests.isEmpty)
    }

    @Test(arguments: QueueKind.allCases) func `cancelling before the response finishes the operation`(
        in kind: QueueKind
    ) throws {
        let queue = kind.make()
        let probe = Probe(server.url("/silent"))
        queue.addOperation(probe.operation)
        let ran = dependent(on: probe.operation)
        try server.waitForRequests(count: 1, timeout: 100)
        probe.operation.cancel()
        expectCancelled(probe, ran)
    }

    @Test(arguments: QueueKind.allCases) func `cancelling during the body finishes the operation`(in kind: QueueKind) {
        let queue = kind.make()
        let probe = Probe(server.url("/stalls"))
        let flowing = Signal()
        probe.operation.onFirstBytes { flowing.fire() }
        queue.addOperation(probe.operation)
        let ran = dependent(on: probe.operation)
        #expect(flowing.wait())
        probe.operation.cancel()
        expectCancelled(probe, ran)
    }

    @Test(arguments: QueueKind.allCases) func `cancelling an operation that was paused after its start finishes it`(
        in kind: QueueKind
    ) {
        let queue = kind.make()
        let probe = Probe(server.url("/stalls"))
        let flowing = Signal()
        probe.operation.onFirstBytes { flowing.fire() }
        queue.addOperation(probe.operation)
        let ran = dependent(on: probe.operation)
        #expect(flowing.wait())
        probe.operation.pause()
        #expect(probe.operation.isPaused)
        probe.operation.cancel()
        expectCancelled(probe, ran)
    }

    @Test(arguments: QueueKind.allCases) func `cancelling an operation that was paused before its start finishes it`(
        in kind: QueueKind
    ) {
        let queue = kind.make()
        let probe = Probe(server.url("/quick"))
        probe.operation.pause()
        queue.addOperation(probe.operation)
        let ran = dependent(on: probe.operation)
        probe.operation.cancel()
        expectCancelled(probe, ran)
        #expect(server.requests.isEmpty)
    }

    @Test func `cancelling a paused operation that is never enqueued finishes it`() {
        let probe = Probe(server.url("/quick"))
        probe.operation.pause()
        probe.operation.cancel()
        #expect(probe.operation.isReady && !probe.operation.isFinished)
        probe.operation.start()
        #expect(probe.outcome() == Probe.cancelled)
    }

    @Test(arguments: QueueKind.allCases) func `cancelling a finished operation has no effect`(in kind: QueueKind) {
        let queue = kind.make()
        let probe = Probe(server.url("/quick"))
        queue.addOperation(probe.operation)
        #expect(probe.outcome() == Probe.succeeded)
        probe.operation.cancel()
        #expect(!probe.operation.isCancelled)
        #expect(probe.operation.error == nil)
        #expect(probe.operation.responseString == "quick")
    }

    @Test func `cancelling a task cancels its operation`() async throws {
        let manager = HTTPRequestOperationManager(baseURL: server.url)
        let operation = try manager.makeOperation(.get, "silent")
        let task = Task { try await manager.enqueue(operation).finished() }
        try await server.waitForRequests(count: 1, timeout: 100)
        task.cancel()
        await #expect(throws: URLError.self) { try await task.value }
        #expect(operation.isCancelled && operation.isFinished)
    }

    @Test func `a failed dependency cancels its dependents if configured`() {
        server.route("GET", "/broken", .text("x").resetBeforeHead())
        let first = Probe(server.url("/broken"))
        let (strict, lenient) = (Probe(server.url("/quick")), Probe(server.url("/quick")))
        strict.operation.dependencyFailurePolicy = .cancel
        for probe in [strict, lenient] { probe.operation.addDependency(first.operation) }
        other.addOperations([first, strict, lenient].map(\.operation), waitUntilFinished: false)
        #expect(strict.outcome() == Probe.cancelled)
        #expect(lenient.outcome() == Probe.succeeded)
        #expect(strict.error?.userInfo[NSUnderlyingErrorKey] is URLError)
        #expect(first.outcome()?.count == 2)
    }
}
