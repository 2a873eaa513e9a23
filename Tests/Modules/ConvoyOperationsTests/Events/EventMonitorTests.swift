import ConvoyStorySupport
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The events that monitors receive from operations against a real server.
@Suite struct EventMonitorTests {
    let bench: MetricsBench
    let listener = StoryListener()
    var server: TestServer { bench.server }
    var manager: HTTPRequestOperationManager { bench.manager }

    init() throws {
        bench = try MetricsBench()
        manager.collectsMetrics = false
        manager.eventMonitors = [listener.monitor]
    }

    /// Returns the events of an operation, one word each.
    private func story(of operation: URLConnectionOperation) throws -> [String] {
        let faults = listener.faults()
        #expect(faults.isEmpty, "\(faults)")
        let number = try #require(operation.operationNumber)
        return listener.events(of: number).map { event in
            switch event.kind {
            case .made: "made"
            case .enqueued: "enqueued"
            case .waiting(let reason): "waiting(\(reason.rawValue))"
            case .attemptStarted(let number): "attempt\(number)"
            case .requestStarted(let number, _): "request\(number)"
            case .phaseEnded(let phase, _): phase.rawValue
            case .responded(let number, let head): "response\(number)(\(head.statusCode))"
            case .requestEnded(let number, _, _): "end\(number)"
            case .servedFromCache: "cached"
            case .redirected: "redirected"
            case .retryDecided: "retry"
            case .attemptEnded(let number): "ended\(number)"
            case .continued: "continued"
            case .paused: "paused"
            case .resumed: "resumed"
            case .stopped: "stopped"
            case .finished(.succeeded): "succeeded"
            case .finished(.failed): "failed"
            case .finished(.cancelled): "cancelled"
            case .lost: "lost"
            }
        }
    }

    @Test func `the handler runs on the specified queue`() async throws {
        let queue = DispatchQueue(label: "Convoy.Tests.monitor")
        let key = DispatchSpecificKey<Bool>()
        queue.setSpecific(key: key, value: true)
        let places = Locked<[Bool]>([])
        manager.eventMonitors = [
            EventMonitor(on: queue) { _ in
                let isThere = DispatchQueue.getSpecific(key: key) == true
                places.withLock { $0.append(isThere) }
            }
        ]
        _ = try await run("quick")
        try eventually("events") { places.withLock { !$0.isEmpty } }
        #expect(places.withLock { $0.allSatisfy { $0 } })
    }

    @Test func `the handler is never called concurrently, even on a concurrent queue`() throws {
        let queue = DispatchQueue(label: "Convoy.Tests.monitor", attributes: .concurrent)
        let (isRunning, mayReturn) = (Signal(), Signal())
        let calls = Locked(0), caughtUp = Locked(0)
        let monitor = EventMonitor(interval: 0, on: queue) { _ in
            let isFirst = calls.withLock { calls in
                calls += 1
                return calls == 1
            }
            guard isFirst else { return }
            isRunning.fire()
            _ = mayReturn.wait()
        }
        manager.eventMonitors = [monitor]
        manager.enqueue(try bench.operation("quick"))
        try #require(isRunning.wait())
        // Each block requests a delivery. When the last block runs, all deliveries have begun, and most have ended.
        for _ in 0..<200 { monitor.whenCaughtUp { caughtUp.withLock { $0 += 1 } } }
        let haveBegun = Signal()
        queue.async { haveBegun.fire() }
        #expect(haveBegun.wait())
        #expect(calls.withLock { $0 } == 1 && caughtUp.withLock { $0 } == 0)
        mayReturn.fire()
        try eventually("200 calls of whenCaughtUp") { caughtUp.withLock { $0 } == 200 }
    }

    private func run(
        _ path: String, _ change: (HTTPRequestOperation) -> Void = { _ in }
    ) async throws -> HTTPRequestOperation {
        let operation = try bench.operation(path)
        change(operation)
        manager.enqueue(operation)
        try? await operation.finished()
        return operation
    }

    @Test func `a request is reported from its creation to its end`() async throws {
        let first = try await run("quick")
        #expect(
            try story(of: first) == [
                "made", "enqueued", "waiting(slot)", "attempt1", "request1", "nameLookup", "connect", "send", "wait",
                "response1(200)",
                "end1", "ended1", "succeeded",
            ])
        // The connection already exists.
        let second = try await run("quick")
        #expect(
            try story(of: second) == [
                "made", "enqueued", "waiting(slot)", "attempt1", "request1", "send", "wait", "response1(200)", "end1",
                "ended1", "succeeded",
            ])
        let events = listener.events(of: try #require(second.operationNumber))
        let sum = try #require(
            events.compactMap { event -> TransactionMetrics? in
                if case .requestEnded(_, _, let metrics) = event.kind { metrics } else { nil }
            }.first)
        #expect(sum.countOfResponseBodyBytesReceived > 0 && sum.isReusedConnection)
        #expect(second.operationNumber != first.operationNumber && second.operationNumber == events.first?.operationNumber)
        #expect(events.allSatisfy { $0.time >= 0 && $0.date <= Date() })
    }

    @Test func `the phases of a request without a response are reported when it ends`() async throws {
        server.route("/cut", .text("x").resetBeforeHead())
        let operation = try await run("cut") { $0.retryPolicy = nil }
        let story = try story(of: operation)
        #expect(Array(story[..<7]) == Array(story[..<5]) + ["nameLookup", "connect"])
        #expect(Array(story.suffix(3)) == ["end1", "ended1", "failed"])
    }

    @Test func `operations without monitors are not reported`() async throws {
        manager.eventMonitors = []
        let operation = try await run("quick")
        #expect(operation.eventLog == nil && listener.operationCount == 0)
        // A single operation can be monitored.
        let monitored = try await run("quick") { $0.eventMonitors = [listener.monitor] }
        #expect(try story(of: monitored).last == "succeeded")
    }

    @Test func `the head of a request is reported as it is sent`() async throws {
        let operation = try await run("quick") { $0.connectionConfiguration.sensitiveHeaders = ["X-Mine"] }
        #expect(try story(of: operation).contains("request1"))
        let heads = listener.events(of: try #require(operation.operationNumber)).compactMap { event -> RequestHead? in
            if case .requestStarted(_, let head) = event.kind { head } else { nil }
        }
        let head = try #require(heads.first)
        let seen = try #require(server.requests("/quick").last)
        #expect(Set(head.fields.map { $0.name.lowercased() }) == Set(seen.headers.fields.map { $0.name.lowercased() }))
        for (name, value) in head.fields { #expect(seen.headers[name] == value, "\(name)") }
        #expect(head["host"] == "127.0.0.1:\(server.port)")
    }

    @Test func `the reported head of a request with its own Host field has no other Host`() async throws {
        let operation = try manager.makeOperation(.get, "quick", headers: ["Host": "other.example"])
        manager.enqueue(operation)
        try await operation.finished()
        #expect(try story(of: operation).contains("request1"))
        let heads = listener.events(of: try #require(operation.operationNumber)).compactMap { event -> RequestHead? in
            if case .requestStarted(_, let head) = event.kind { head } else { nil }
        }
        let hosts = heads.map { head in head.fields.filter { $0.name.lowercased() == "host" }.map { $0.value } }
        #expect(hosts == [["other.example"]])
        #expect(server.requests("/quick").last?.headers["Host"] == "other.example")
    }

    @Test func `a redirect is reported as another request, with its reason`() async throws {
        server.route("/there") { _ in .redirect(to: "/quick", status: 302) }
        let operation = try await run("there")
        let story = try story(of: operation)
        #expect(
            story.filter { !["nameLookup", "connect", "send", "wait"].contains($0) } == [
                "made", "enqueued", "waiting(slot)", "attempt1", "request1", "redirected", "end1", "request2",
                "response2(200)", "end2",
                "ended1", "succeeded",
            ])
    }

    @Test func `a retry is reported with its reason and its wait`() async throws {
        let count = Locked(0)
        server.route("/late") { _ in
            count.withLock { count in
                count += 1
                return count < 3 ? .status(503) : .status(200)
            }
        }
        let operation = try await run("late") {
            var policy = RetryPolicy(maximumRetryCount: 3)
            (policy.initialDelay, policy.budget, policy.maximumGateDuration) = (0.001, nil, 0)
            $0.retryPolicy = policy
        }
        let story = try story(of: operation).filter { !["nameLookup", "connect", "send", "wait"].contains($0) }
        #expect(
            story.starts(with: [
                "made", "enqueued", "waiting(slot)", "attempt1", "request1", "response1(503)", "end1", "retry", "ended1",
                "waiting(retry)",
            ]))
        #expect(story.filter { $0 == "retry" }.count == 2 && story.contains("attempt3"))
        #expect(story.suffix(2) == ["ended3", "succeeded"])
    }

    @Test func `a failure is reported with its error`() async throws {
        server.route("/broken") { _ in TestServer.Response(status: 200).failing(.closeBeforeHead) }
        let operation = try await run("broken")
        #expect(try story(of: operation).suffix(3) == ["end1", "ended1", "failed"])
        let last = listener.events(of: try #require(operation.operationNumber)).last
        guard case .finished(.failed(let error)) = last?.kind else { return #expect(Bool(false), "no error") }
        #expect((error as? URLError)?.code == (operation.error as? URLError)?.code)
    }

    @Test func `waits and cancellations are reported`() async throws {
        let first = try bench.operation("quick"), second = try bench.operation("quick")
        second.addDependency(first)
        manager.operationQueue.addOperation(second)
        second.cancel()
        try? await second.finished()
        first.cancel()
        manager.enqueue(first)
        try? await first.finished()
        #expect(try story(of: second) == ["made", "enqueued", "waiting(dependencies)", "stopped", "cancelled"])
        #expect(try story(of: first).last == "cancelled")
    }

    @Test func `a pause ends an attempt, and resuming starts another`() async throws {
        let count = Locked(0)
        server.route("/stalls") { _ in
            let isFirst = count.withLock { count in
                count += 1
                return count == 1
            }
            return isFirst ? .pattern(count: 1000).stalls(afterBytes: 10) : .pattern(count: 1000)
        }
        let operation = try bench.operation("stalls")
        manager.enqueue(operation)
        try await waitUntil { operation.transferProgress.bytesReceived == 10 }
        operation.pause()
        operation.resume()
        try await operation.finished()
        let story = try story(of: operation)
        #expect(story.contains("paused") && story.contains("resumed") && story.contains("attempt2"), "\(story)")
        #expect(story.suffix(3) == ["end2", "ended2", "succeeded"])
    }

    @Test func `an event reported before an earlier change is delivered after that change`() throws {
        let operation = InterruptedOperation(request: URLRequest(url: server.url("/quick")))
        operation.completionQueue = testQueue
        operation.eventMonitors = [listener.monitor]
        operation.pause()
        let held = HeldEvents(of: operation)
        held.begin { operation.resume() }
        operation.start()
        let delivered = Signal()
        operation.whenDelivered { delivered.fire() }
        #expect(delivered.wait())
        held.release(0)
        #expect(held.wait(for: 0))
        let story = try story(of: operation).filter { !$0.hasPrefix("wait") }
        #expect(
            story.filter { !["nameLookup", "connect", "send"].contains($0) } == [
                "made", "paused", "resumed", "attempt1", "request1", "response1(200)", "end1", "ended1", "succeeded",
            ])
    }

    @Test func `the events of a shared transfer are reported for all of its operations`() async throws {
        manager.coalescesIdenticalRequests = true
        let operations = try (0..<4).map { _ in try bench.operation("quick") }
        manager.enqueue(operations)
        for operation in operations { try await operation.finished() }
        for operation in operations {
            let story = try story(of: operation)
            #expect(story.contains("response1(200)") && story.contains("end1") && story.last == "succeeded")
        }
    }

    @Test func `a slow monitor is notified of the number of lost events`() async throws {
        let heard = Locked<[OperationEvent]>([])
        let gate = DispatchSemaphore(value: 0)
        let isFirst = Locked(true)
        let monitor = EventMonitor(capacity: 5) { events in
            if isFirst.withLock({ first in
                defer { first = false }; return first
            }) {
                gate.wait()
            }
            heard.withLock { $0 += events }
        }
        manager.eventMonitors = [monitor]
        for _ in 0..<3 { _ = try await run("quick") }
        gate.signal()
        await withCheckedContinuation { done in monitor.whenCaughtUp { done.resume() } }
        let events = heard.withLock { $0 }
        let lost = events.compactMap { if case .lost(let count) = $0.kind { count } else { nil } }
        #expect(lost.reduce(0, +) > 10, "\(events)")
    }
}
