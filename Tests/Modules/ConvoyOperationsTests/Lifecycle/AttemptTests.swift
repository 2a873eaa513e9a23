import ConvoySupport
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// State that belongs to one attempt, and state that passes from one to the next.
@Suite struct AttemptTests {
    private static let url = URL(fileURLWithPath: "/simulated")

    private func operation(
        over network: any Transport = ThreadedTransport(), retrying: Bool = false
    ) -> InterruptedOperation {
        let operation = InterruptedOperation(
            request: URLRequest(url: Self.url), transport: network, clock: ManualClock())
        operation.completionQueue = testQueue
        return operation
    }

    /// Creates an attempt with a connection.
    private func connected(
        _ number: Lifecycle.AttemptNumber, after earlier: Attempt?, of operation: URLConnectionOperation,
        over network: ThreadedTransport
    ) -> (Attempt, any Connection) {
        let attempt = Attempt(number, after: earlier, operation.settings.prepared)
        _ = attempt.begin(of: operation, sending: TransferRequest(operation.request), memoryLimit: .max)
        let connection = network.connection(
            for: TransferRequest(operation.request), configuration: ConnectionConfiguration(), delegate: attempt)
        return (attempt, connection)
    }

    @Test func `late callbacks of an earlier attempt do not affect the next one`() {
        let network = ThreadedTransport()
        let operation = operation(over: network)
        let (old, oldConnection) = connected(1, after: nil, of: operation, over: network)
        old.connection(oldConnection, didFailWith: URLError(.networkConnectionLost))
        let (new, newConnection) = connected(2, after: old, of: operation, over: network)
        let head = ResponseHead(url: Self.url, statusCode: 404, headers: [])
        old.connection(oldConnection, didReceive: head, after: nil)
        Data("late".utf8).withUnsafeBytes { old.connection(oldConnection, didReceive: $0) }
        old.connectionDidFinish(oldConnection)
        old.connectionDidCancel(oldConnection)
        #expect(operation.response == nil && new.progress.bytesReceived == 0)
        new.connection(newConnection, didReceive: head, after: nil)
        Data("body".utf8).withUnsafeBytes { new.connection(newConnection, didReceive: $0) }
        #expect(operation.statusCode == 404 && new.progress.bytesReceived == 4)
        #expect(old.progress.bytesReceived == 0)
    }

    @Test func `received bytes pass to the next attempt, which requests the rest`() {
        let network = ThreadedTransport()
        let operation = operation(over: network)
        let (old, connection) = connected(1, after: nil, of: operation, over: network)
        let head = ResponseHead(
            url: Self.url, statusCode: 200, headers: [("ETag", "\"a\""), ("Content-Length", "8")])
        old.connection(connection, didReceive: head, after: nil)
        Data("half".utf8).withUnsafeBytes { old.connection(connection, didReceive: $0) }
        old.connection(connection, didFailWith: URLError(.networkConnectionLost))
        let new = Attempt(2, after: old, operation.settings.prepared)
        #expect(new.body.offset == 4 && new.progress.bytesReceived == 4 && new.progress.bytesExpectedToReceive == 8)
        #expect(old.body.offset == 0 && old.body.head == nil)
        let request = new.begin(of: operation, sending: TransferRequest(operation.request), memoryLimit: .max)
        #expect(request.urlRequest.value(forHTTPHeaderField: "Range") == "bytes=4-")
        #expect(request.urlRequest.value(forHTTPHeaderField: "If-Range") == "\"a\"")
        new.abandon()
    }

    @Test func `the output stream can still be set after an attempt was stopped before connecting`() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("attempt-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        let network = ThreadedTransport()
        let operation = operation(over: network)
        let held = HeldEvents(of: operation)
        held.begin { operation.start() }
        operation.pause()
        held.release(0)
        #expect(held.wait(for: 0))
        #expect(network.connectionCount == 0 && operation.isPaused)
        operation.outputStream = FileOutputStream(fileURL: file)
        network.serve()
        operation.resume()
        #expect(eventually { operation.isFinished })
        #expect(operation.error == nil && operation.responseData == nil)
        #expect(try Data(contentsOf: file) == ThreadedTransport.body)
    }

    /// The attempt is ended internally and externally, by several events concurrently.
    @Test func `an attempt that is ended by several events concurrently ends once`() {
        for round in 0..<300 {
            let network = ThreadedTransport()
            let operation = operation(over: network)
            let completions = Atomic<Int>(0)
            let outcomes = Atomic<Int>(0)
            let isOver = Signal()
            operation.setCompletionHandler(
                success: { _, _ in outcomes.add(1, ordering: .relaxed) },
                failure: { _, _ in outcomes.add(1, ordering: .relaxed) })
            operation.completionBlock = {
                completions.add(1, ordering: .relaxed)
                isOver.fire()
            }
            operation.start()
            network.queue.sync {}
            guard let attempt = operation.core.withLock({ $0.attempt }) else {
                Issue.record("no attempt in round \(round)")
                return
            }
            let ends: [@Sendable () -> Void] = [
                { network.end() },
                { operation.cancel() },
                { operation.handle(.expire) },
                // An attempt with a connection belongs to the network's queue.
                { network.queue.sync { operation.decide(.settled(URLError(.badURL)), after: attempt) } },
                { network.queue.sync { attempt.giveUp() } },
            ]
            let first = round % ends.count
            let chosen = [ends[first], ends[(first + 1 + round / ends.count % (ends.count - 1)) % ends.count]]
            DispatchQueue.concurrentPerform(iterations: chosen.count) { chosen[$0]() }
            network.serve()
            #expect(isOver.wait(), "round \(round): \(operation.lifecycle.value)")
            testQueue.sync {}
            #expect(completions.load(ordering: .relaxed) == 1 && outcomes.load(ordering: .relaxed) == 1, "round \(round)")
            #expect(operation.core.withLock { $0.attempt } == nil && operation.isDelivered)
            // Anything that arrives now is too late.
            operation.decide(.succeeded("late", data: nil), after: attempt)
            let object = operation.core.withLock { core -> String? in
                if case .made(let box) = core.result.object { box.object as? String } else { nil }
            }
            #expect(object != "late")
        }
    }

    @Test func `a challenge reply that arrives after the next attempt has begun is ignored`() {
        let network = ThreadedTransport()
        let operation = operation(over: network)
        operation.start()
        network.queue.sync {}
        guard let old = operation.core.withLock({ $0.attempt }) else {
            Issue.record("no attempt")
            return
        }
        operation.pause()
        network.queue.sync {}
        operation.resume()
        network.queue.sync {}
        let new = operation.core.withLock { $0.attempt }
        #expect(new != nil && new !== old)
        operation.core.withLock { _ in old.settlement = .failure(URLError(.userCancelledAuthentication)) }
        operation.handle(.retryDue(old.number))
        operation.decide(.settled(URLError(.badURL)), after: old)
        network.serve()
        #expect(eventually { operation.isFinished })
        #expect(operation.error == nil && operation.responseData == ThreadedTransport.body)
    }
}
