import ConvoySupport
import Foundation

/// Claiming entries, and giving back those that must wait.
extension WorkerCore {
    /// Gives back entries that were claimed in advance and have waited for some time, so that idle workers can execute
    /// them.
    func giveBackWhatWaits(longerThan time: UInt64) {
        let jobs = settings.maximumConcurrentJobs
        let attempts = shared.withLock { shared in
            time > 0 && shared.running.count <= jobs ? [] : Array(shared.running.values)
        }
        let now = MonotonicClock.now
        for attempt in attempts where now - min(now, attempt.claimed) >= time { attempt.abandonIfWaiting() }
    }

    func claim(_ store: WorkStore, _ standing: inout LoopState) throws(SharedQueueError) {
        measure(&standing)
        let room = isProbing ? min(1, room(standing)) : room(standing), start = MonotonicClock.now
        guard start >= standing.rest, isEnough(self.room(standing), standing),
            shared.withLock({ $0.hasWork }) || MonotonicClock.now >= standing.claim
        else {
            return
        }
        shared.withLock { $0.hasWork = false }
        let claim = try store.claim(
            worker: standing.worker, limit: room, tags: settings.tags, weights: settings.tagWeights)
        if claim.isUnknown { return loseLeases(&standing) }
        let attempts = claim.entries.map { WorkAttempt($0, worker: standing.worker, claimed: start, core: self) }
        shared.withLock { shared in
            for attempt in attempts { shared.running[attempt.work.id] = attempt }
            shared.statistics.claimed += attempts.count
            // After a full claim, more entries may be ready.
            if attempts.count == room || claim.isPartial && !attempts.isEmpty { shared.hasWork = true }
        }
        standing.isHeldBack = claim.isHeldBack
        for attempt in attempts { attempt.start() }
        // Poll for entries that were not announced.
        let pause: TimeInterval = shared.withLock { $0.isListening } ? 5 : 1
        // Another worker has taken the entries of the chosen tags, but other tags may have some.
        let isOutrun = claim.isPartial && attempts.isEmpty
        let wait = isOutrun ? 0.02 : claim.wait.map { Double($0) / 1e6 } ?? pause
        standing.claim = Nanoseconds.deadline(min(max(0.002, wait), pause), after: MonotonicClock.now)
    }

    /// Whether the last entries were again ones that this worker cannot execute. It then claims only one entry per second,
    /// so that workers that can execute them come first.
    var isProbing: Bool { shared.withLock { $0.repeatedCount } > 0 }

    /// Returns the number of entries that may be claimed.
    func room(_ standing: LoopState) -> Int {
        settings.maximumConcurrentJobs + standing.ahead - shared.withLock { $0.running.count }
    }

    /// Returns whether a claim is worthwhile: half of the entries claimed in advance have been used.
    func isEnough(_ room: Int, _ standing: LoopState) -> Bool { room >= standing.ahead / 2 + 1 }

    /// Determines how many entries to claim in advance: as many as have ended in a tenth of a second.
    private func measure(_ standing: inout LoopState) {
        let now = MonotonicClock.now, passed = now - min(now, standing.measured)
        guard passed >= 50_000_000 else { return }
        let ended = shared.withLock { shared in
            defer { shared.ended = 0 }
            return shared.ended
        }
        standing.measured = now
        let justified = Int(min(Double(ended) * 1e8 / Double(passed), 400))
        standing.ahead = min(justified, 8 * settings.maximumConcurrentJobs)
    }
}
