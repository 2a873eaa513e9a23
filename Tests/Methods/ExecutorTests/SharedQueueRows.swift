import ConvoyOperations
import ConvoySharedQueue
import ConvoySupport
import Foundation

/// The functions of the queue shared by processes.
enum SharedQueueRows {
    static let all = entries + worker

    /// Returns a row for a task that is cancelled before the call, because the queue itself sends no request.
    private static func row(_ declaration: String, _ call: @escaping ExecutorRow.Call) -> ExecutorRow {
        ExecutorRow(declaration: declaration, endings: Ending.allCases, isCancelledFirst: true, call: call)
    }

    private static let entries = [
        row("SharedQueue.cancel(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().cancel(SharedQueue.Filter())
        },
        row("SharedQueue.changeLimits(host:_:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().changeLimits(host: "a.example") { $0.requestsPerSecond = 1 }
        },
        row("SharedQueue.changeLimits(tag:_:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().changeLimits(tag: "a") { $0.requestsPerSecond = 1 }
        },
        row("SharedQueue.counts(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.queue().counts()
        },
        row("SharedQueue.countsByHost()") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.queue().countsByHost()
        },
        row("SharedQueue.dependencies(of:)") { actor, attempt in
            defer { attempt.check(actor) }
            let queue = try attempt.queue()
            let id = try await attempt.entry(in: queue)
            _ = try await queue.dependencies(of: id)
        },
        row("SharedQueue.durations()") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.queue().durations()
        },
        row("SharedQueue.enqueue(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().enqueue(attempt.shared())
        },
        row("SharedQueue.enqueue(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().enqueue([attempt.shared()])
        },
        row("SharedQueue.enqueue(_:group:completion:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().enqueue([attempt.shared()], group: "group")
        },
        row("SharedQueue.entries(_:behind:newestFirst:limit:)") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.queue().entries()
        },
        row("SharedQueue.entry(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            let queue = try attempt.queue()
            let id = try await attempt.entry(in: queue)
            _ = try await queue.entry(id)
        },
        row("SharedQueue.hosts()") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.queue().hosts()
        },
        row("SharedQueue.isPaused()") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.queue().isPaused()
        },
        row("SharedQueue.openGate(host:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().openGate(host: "127.0.0.1")
        },
        row("SharedQueue.pause()") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().pause()
        },
        row("SharedQueue.pause(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().pause(SharedQueue.Filter())
        },
        row("SharedQueue.purge(_:olderThan:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().purge(SharedQueue.Filter())
        },
        row("SharedQueue.readyAges()") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.queue().readyAges()
        },
        row("SharedQueue.reschedule(_:notBefore:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().reschedule(SharedQueue.Filter(), notBefore: Date())
        },
        row("SharedQueue.result(of:)") { actor, attempt in
            defer { attempt.check(actor) }
            let queue = try attempt.queue()
            let id = try await attempt.entry(in: queue)
            _ = try await queue.result(of: id)
        },
        row("SharedQueue.resume()") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().resume()
        },
        row("SharedQueue.resume(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().resume(SharedQueue.Filter())
        },
        row("SharedQueue.retry(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().retry(SharedQueue.Filter())
        },
        row("SharedQueue.schedule(_:_:missed:request:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().schedule("name", .every(60), request: attempt.shared())
        },
        row("SharedQueue.schedules()") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.queue().schedules()
        },
        row("SharedQueue.search(_:_:behind:limit:)") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.queue().search("a")
        },
        row("SharedQueue.setLimits(_:host:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().setLimits(HostLimits(maximumConcurrentRequests: 1))
        },
        row("SharedQueue.setLimits(_:tag:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().setLimits(HostLimits(maximumConcurrentRequests: 1), tag: "tag")
        },
        row("SharedQueue.tagLimits()") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.queue().tagLimits()
        },
        row("SharedQueue.unschedule(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            try await attempt.queue().unschedule("name")
        },
        row("SharedQueue.workers()") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.queue().workers()
        },
    ]

    private static let worker = [
        row("SharedQueue.waitForEntry(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            let queue = try attempt.queue()
            let id = try await attempt.entry(in: queue)
            if attempt.ending != .error { try await queue.cancel(SharedQueue.Filter(id: id)) }
            _ = try await queue.waitForEntry(id)
        },
        row("SharedQueue.waitForGroup(_:)") { actor, attempt in
            defer { attempt.check(actor) }
            _ = try await attempt.queue().waitForGroup("group")
        },
        row("SharedQueueWorker.run()") { actor, attempt in
            defer { attempt.check(actor) }
            let queue = try attempt.queue()
            if attempt.ending == .success { try await queue.enqueue(attempt.shared()) }
            // The worker is stopped when it makes its first request.
            let stop = Locked<(@Sendable () -> Void)?>(nil)
            let worker = SharedQueueWorker(queue: queue, manager: attempt.manager) { _, _ in stop.withLock { $0 }?() }
            stop.withLock { $0 = { [weak worker] in worker?.stop() } }
            try await worker.run()
        },
    ]
}

extension Attempt {
    /// Returns a queue in a database, which is damaged if the call must fail.
    fileprivate func queue() throws -> SharedQueue {
        if ending == .error { try Data(repeating: 1, count: 10_000).write(to: file("queue.sqlite")) }
        return SharedQueue(store: .sqlite(file("queue.sqlite")))
    }

    fileprivate func shared() -> SharedRequest { SharedRequest(request()) }

    /// Returns an entry of the queue; for a damaged queue, a random identifier.
    fileprivate func entry(in queue: SharedQueue) async throws -> UUID {
        ending == .error ? UUID() : try await queue.enqueue(shared())
    }
}
