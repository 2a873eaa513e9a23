#if GTK
import CGTK
import ConvoyGTK
import ConvoySupport
import Foundation

/// The main queue and the main actor in GLib's main loop.
@MainActor enum LoopScenario {
    private static var isFlooding = true
    private static var floods = 0
    private nonisolated static let posted = Locked(0)
    private nonisolated static let order = Locked<[Int]>([])
    private nonisolated static let numbers = Locked<[Int]>([])

    static func run() async throws -> [String: Any] {
        var result: [String: Any] = [:]
        MainLoop.install()
        MainLoop.install()

        // Post blocks from other threads.
        for _ in 0..<20 {
            Thread.detachNewThread {
                DispatchQueue.main.async { if Thread.isMainThread { posted.withLock { $0 += 1 } } }
            }
        }
        try await Scenario.wait("the blocks") { posted.withLock { $0 } == 20 }
        result["posted"] = posted.withLock { $0 }

        // Run a task of the main actor from another executor.
        let isOnMain = await Task.detached { await MainActor.run { Thread.isMainThread } }.value
        result["mainActor"] = isOnMain

        // Blocks run in order, and each runs once.
        for number in 0..<1000 { DispatchQueue.main.async { order.withLock { $0.append(number) } } }
        try await Scenario.wait("the order") { order.withLock { $0.count } == 1000 }
        result["isInOrder"] = order.withLock { $0 } == Array(0..<1000)

        // A main queue that is never empty does not delay timers or frames.
        flood()
        var ticks = 0
        let timer = LoopTimer.start(after: 0.005, repeats: true) { ticks += 1 }
        try await Scenario.wait("timers beside a flood") { ticks >= 10 }
        timer.cancel()
        isFlooding = false
        result["floods"] = floods

        // The inbox runs its blocks in portions, so that a flood of blocks does not block the loop.
        var portions = 0
        var inboxTicks = 0
        let beside = LoopTimer.start(after: 0.001, repeats: true) { inboxTicks += 1 }
        for number in 0..<200 {
            MainInbox.post {
                portions += 1
                numbers.withLock { $0.append(number) }
                let end = DispatchTime.now().uptimeNanoseconds + 500_000
                while DispatchTime.now().uptimeNanoseconds < end {}
            }
        }
        try await Scenario.wait("the inbox") { portions == 200 }
        beside.cancel()
        result["inboxTicks"] = inboxTicks
        result["inboxIsInOrder"] = numbers.withLock { $0 } == Array(0..<200)

        // An idle loop uses no processor time.
        let before = threadTime
        try await Task.sleep(for: .milliseconds(300))
        result["idleMilliseconds"] = Double(threadTime - before) / 1e6
        return result
    }

    private static func flood() {
        guard isFlooding else { return }
        floods += 1
        DispatchQueue.main.async { MainActor.assumeIsolated { flood() } }
    }

    private static var threadTime: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
#endif
