import ConvoyOperations
import ConvoySupport
import Foundation

/// The loop of a worker. It runs on its own thread, which is the only user of the store. It reports results, renews
/// leases, performs maintenance, and claims as many entries as it can take.
final class WorkerCore: @unchecked Sendable {
    let manager: HTTPRequestOperationManager
    let settings: SharedQueueWorker.Settings
    let configure: SharedQueueWorker.Configure
    private let queue: SharedQueue
    private let completion = DispatchQueue(label: "Convoy.SharedQueueWorker", attributes: .concurrent)
    /// The queue for operations, where entries claimed in advance wait.
    let operationQueue = RequestOperationQueue()
    /// The queue that monitors the leases while the loop waits for the database.
    private let watch = DispatchQueue(label: "Convoy.SharedQueueWorker.Leases")

    /// The queue on which events are handled, so that a slow handler delays neither the loop nor the leases.
    private let events = DispatchQueue(label: "Convoy.SharedQueueWorker.Events")
    /// The time for which an entry that was claimed in advance may wait, in nanoseconds.
    static let longestWait: UInt64 = 1_000_000_000

    /// The number of unsuitable entries to remember.
    private static let mostRemembered = 10_000

    /// The state shared by the loop and other threads.
    struct Shared {
        var running: [UUID: WorkAttempt] = [:]
        var reports: [WorkReport] = []
        /// The reported entries, for events.
        var reported: [UUID: SharedQueueWorker.ClaimedEntry] = [:]
        /// The number of attempts that have ended since the rate was measured.
        var ended = 0
        /// The entries that this worker could not execute, and the number of consecutive ones that it was given again.
        var unsuitable: Set<UUID> = []
        var repeatedCount = 0
        /// The durations of requests that are not stored yet.
        var durations = HostDurations()
        /// The leases to return.
        var released: [UUID: Int64] = [:]
        var stop: SharedQueueWorker.Stop?
        var hasWork = true
        /// Whether leases may have been taken away.
        var mustCompare = false
        var isRunning = false
        /// Whether announcements of other processes arrive.
        var isListening = false
        /// The time at which the leases become unreliable, on the monotonic clock.
        var leaseEnd: MonotonicTime = .max
        var statistics = SharedQueueWorker.Statistics()
    }

    let shared = Locked(Shared())
    private let signal = Interruption()
    private let listener = Locked<(any WorkListener)?>(nil)

    init(
        _ queue: SharedQueue, _ manager: HTTPRequestOperationManager, _ settings: SharedQueueWorker.Settings,
        _ configure: @escaping SharedQueueWorker.Configure
    ) {
        var settings = settings
        settings.maximumConcurrentJobs = max(1, min(settings.maximumConcurrentJobs, 10_000))
        settings.leaseDuration = max(1, min(settings.leaseDuration, 86_400))
        self.queue = queue
        self.manager = manager
        self.settings = settings
        self.configure = configure
        operationQueue.maxConcurrentOperationCount = settings.maximumConcurrentJobs
    }

    var statistics: SharedQueueWorker.Statistics {
        shared.withLock { shared in
            var statistics = shared.statistics
            statistics.running = shared.running.count
            return statistics
        }
    }

    // MARK: Calls from other threads

    func run(_ completion: @escaping @Sendable (Result<Void, SharedQueueError>) -> Void) {
        let isFirst = shared.withLock { shared in
            defer { shared.isRunning = true }
            return !shared.isRunning
        }
        guard isFirst else { return completion(.failure(.failed("The worker is already running."))) }
        do throws(SystemError) {
            try SystemThread.start(name: "Convoy.Work", stackSize: 1 << 20) {
                let result = self.loop()
                // Handlers know everything when the run is over.
                self.events.sync {}
                self.shared.withLock { $0.isRunning = false }
                completion(result)
            }
        } catch {
            shared.withLock { $0.isRunning = false }
            completion(.failure(.failed("The system could not create a thread: \(error.text)")))
        }
    }

    func stop(_ stop: SharedQueueWorker.Stop) {
        shared.withLock { $0.stop = max($0.stop ?? stop, stop) }
        signal.interrupt()
    }

    /// Ends an attempt with a report; without a report, returns its entry to the queue.
    func end(_ attempt: WorkAttempt, with report: WorkReport?) {
        let operation = shared.withLock { shared -> WorkAttempt? in
            guard shared.running[attempt.work.id] === attempt else { return nil }
            if let report {
                shared.reports.append(report)
                shared.reported[report.id] = attempt.work.entry
                shared.ended += 1
                if case .returned = report.end {
                    if shared.unsuitable.count > Self.mostRemembered { shared.unsuitable = [] }
                    let isNew = shared.unsuitable.insert(report.id).inserted
                    if !isNew { shared.repeatedCount += 1 }
                } else {
                    shared.repeatedCount = 0
                }
            } else {
                shared.released[attempt.work.id] = attempt.work.lease
                shared.statistics.abandoned += 1
            }
            return shared.running.removeValue(forKey: attempt.work.id)
        }
        if operation != nil { signal.interrupt() }
    }

    /// Whether the leases are still valid, according to the clock of this machine.
    var hasLeases: Bool { shared.withLock { MonotonicClock.now < $0.leaseEnd } }

    /// Runs a closure with the store on a connection other than the loop's, for at most a few seconds. Blocks.
    ///
    /// - Returns: Nil if the database cannot be reached.
    func ask<Answer: Sendable>(
        _ body: @escaping @Sendable (WorkStore) throws(SharedQueueError) -> Answer
    ) -> Answer? {
        let done = DispatchSemaphore(value: 0), answer = Locked<Answer?>(nil)
        queue.thread.submit(patience: 2) { store throws(SharedQueueError) in
            let result = try body(store)
            answer.withLock { $0 = result }
        } completion: {
            done.signal()
        }
        _ = done.wait(timeout: .now() + 5)
        return answer.withLock { $0 }
    }

    // MARK: The loop

    /// The state of the claiming loop, used on its thread only.
    struct LoopState {
        /// The identifier of the worker, which changes after the worker was considered dead.
        var worker = UUID()
        var isRegistered = false
        /// The times at which the leases were last renewed and will be given up, on the monotonic clock.
        var renewed: MonotonicTime = 0
        var end: MonotonicTime = .max
        /// The times at which maintenance is due, and at which to claim again without an announcement.
        var maintenance: MonotonicTime = 0
        var claim: MonotonicTime = 0
        /// The number of entries to claim in advance, so that the running ones need not wait for the database, and the
        /// time at which it was last determined.
        var ahead = 0
        var measured: MonotonicTime = 0
        /// The time before which nothing is claimed, because the worker could not execute its last entries either time.
        var rest: MonotonicTime = 0
        /// The time at which to store durations.
        var recording: MonotonicTime = 0
        /// Whether the last claim found entries that exceed the limits of their host.
        var isHeldBack = false
        /// The time at which to reconnect.
        var reconnection: MonotonicTime = 0
        var delay = 0.05
    }

    private func loop() -> Result<Void, SharedQueueError> {
        var standing = LoopState(), store: WorkStore?, wasOpen = false
        startListening()
        defer { listener.withLock { $0 }?.interrupt() }
        while true {
            let stop = shared.withLock { $0.stop }
            if stop == .now { abandonAll() } else { giveBackWhatWaits(longerThan: stop == nil ? Self.longestWait : 0) }
            if MonotonicClock.now >= standing.end { loseLeases(&standing) }
            do throws(SharedQueueError) {
                if MonotonicClock.now >= standing.reconnection || store != nil {
                    let current: WorkStore
                    if let store { current = store } else { current = WorkStore(try queue.store.open()) }
                    store = current
                    wasOpen = true
                    try turn(current, &standing, isStopping: stop != nil)
                    standing.delay = 0.05
                    noteConnection(nil)
                    if stop != nil, isIdle {
                        try? recordDurations(current, &standing, isLast: true)
                        if standing.isRegistered { try? current.unregister(standing.worker) }
                        return .success(())
                    }
                }
            } catch {
                switch error {
                case .denied, .foreign, .newerVersion, .closed:
                    abandonAll()
                    return .failure(error)
                // The address is invalid or the file cannot be opened, so retrying does not help.
                case .failed where !wasOpen: return .failure(error)
                default: break
                }
                store = nil
                noteConnection(error)
                standing.reconnection = Nanoseconds.deadline(standing.delay, after: MonotonicClock.now)
                standing.delay = min(standing.delay * 2, 5)
                // Do not wait for an unreachable database if there is nothing to report, or if the worker must stop
                // immediately: the leases expire.
                if let stop, stop == .now ? isEmpty : isIdle { return .success(()) }
            }
            sleep(standing, isConnected: store != nil)
        }
    }

    /// Whether nothing is running and nothing is left to report.
    private var isIdle: Bool {
        shared.withLock { $0.running.isEmpty && $0.reports.isEmpty && $0.released.isEmpty }
    }

    private var isEmpty: Bool { shared.withLock { $0.running.isEmpty } }

    private func turn(_ store: WorkStore, _ standing: inout LoopState, isStopping: Bool) throws(SharedQueueError) {
        try report(store, &standing)
        try recordDurations(store, &standing)
        let third = Nanoseconds.clamping(seconds: settings.leaseDuration / 3)
        let mustCompare = shared.withLock { shared in
            defer { shared.mustCompare = false }
            return shared.mustCompare
        }
        if !standing.isRegistered || MonotonicClock.now >= standing.renewed + third {
            try renew(store, &standing)
        } else if mustCompare, let leases = try store.leases(of: standing.worker) {
            for attempt in compare(leases).lost { attempt.abandon() }
        }
        if MonotonicClock.now >= standing.maintenance {
            let wait = try store.maintain()
            // Vary the time, because other workers also perform maintenance.
            let pause = min(Double(wait ?? 1_000_000) / 1e6, 1) * .random(in: 0.9...1.1)
            standing.maintenance = Nanoseconds.deadline(max(0.01, pause), after: MonotonicClock.now)
        }
        if !isStopping { try claim(store, &standing) }
    }

    /// Records whether the database can be used, and announces changes.
    private func noteConnection(_ error: SharedQueueError?) {
        let hasChanged = shared.withLock { shared in
            let statistics = shared.statistics
            shared.statistics.isConnected = error == nil
            shared.statistics.connectionError = error
            return statistics.isConnected != (error == nil) || statistics.connectionError != error
        }
        if hasChanged { send(error.map { .disconnected($0) } ?? .connected) }
    }

    func send(_ event: SharedQueueWorker.Event) {
        guard let handler = settings.eventHandler else { return }
        events.async { handler(event) }
    }

    private func renew(_ store: WorkStore, _ standing: inout LoopState) throws(SharedQueueError) {
        let lasting = SharedRequest.microseconds(settings.leaseDuration)
        // Read the clock before the call, so that the lease ends here before it ends in the database.
        let now = MonotonicClock.now
        if !standing.isRegistered {
            try store.register(
                standing.worker, name: settings.name, jobs: settings.maximumConcurrentJobs, lasting: lasting)
            standing.isRegistered = true
        } else if let leases = try store.renew(standing.worker, lasting: lasting) {
            let (lost, unknown) = compare(leases)
            for attempt in lost { attempt.abandon() }
            // The response to a claim was lost.
            try store.release(unknown, worker: standing.worker)
        } else {
            loseLeases(&standing)
            return try renew(store, &standing)
        }
        standing.renewed = now
        standing.end = Nanoseconds.deadline(settings.leaseDuration * 0.9, after: now)
        let end = standing.end
        shared.withLock { $0.leaseEnd = end }
        // Use a separate queue, because the loop may be waiting for the database at that time.
        watch.asyncAfter(deadline: .now() + settings.leaseDuration * 0.9) { [weak self] in
            guard let self, self.shared.withLock({ $0.leaseEnd == end }) else { return }
            self.abandonAll()
        }
    }

    /// Returns the attempts that have lost their lease, and the leases without an attempt.
    private func compare(_ leases: [UUID: Int64]) -> (lost: [WorkAttempt], unknown: [UUID: Int64]) {
        shared.withLock { shared in
            let lost = shared.running.values.filter { leases[$0.work.id] != $0.work.lease }
            var unknown = leases.filter { shared.running[$0.key]?.work.lease != $0.value && shared.released[$0.key] == nil }
            for report in shared.reports { unknown[report.id] = nil }
            return (lost, unknown)
        }
    }

    /// Starts over with a new identifier, because the leases have expired or the worker is considered dead.
    func loseLeases(_ standing: inout LoopState) {
        abandonAll()
        shared.withLock { ($0.released, $0.leaseEnd) = ([:], .max) }
        standing.worker = UUID()
        standing.isRegistered = false
        standing.end = .max
    }

    private func abandonAll() {
        for attempt in shared.withLock({ Array($0.running.values) }) { attempt.abandon() }
    }

    private func sleep(_ standing: LoopState, isConnected: Bool) {
        let shared = self.shared.withLock { $0 }
        let hasReports = !shared.reports.isEmpty || !shared.released.isEmpty
        let hasRoom = isEnough(room(standing), standing)
        if isConnected,
            hasReports || (shared.hasWork && hasRoom && shared.stop == nil && MonotonicClock.now >= standing.rest)
                || shared.mustCompare
        {
            return
        }
        var end = min(standing.end, standing.renewed + Nanoseconds.clamping(seconds: settings.leaseDuration / 3))
        if isConnected {
            end = min(end, standing.maintenance)
            if shared.stop == nil, hasRoom { end = min(end, max(standing.claim, standing.rest)) }
            if shared.running.count > settings.maximumConcurrentJobs {
                end = min(end, MonotonicClock.now + Self.longestWait / 2)
            }
        } else {
            end = min(standing.end, standing.reconnection)
        }
        let now = MonotonicClock.now
        guard end > now else { return }
        _ = signal.wait(milliseconds: Int(clamping: (end - now) / 1_000_000 + 1))
    }

    // MARK: Listening

    private func startListening() {
        try? SystemThread.start(name: "Convoy.Listen", stackSize: 512 << 10) { [weak self, store = queue.store] in
            var current: (any WorkListener)?
            while let self, self.shared.withLock({ $0.isRunning }) {
                do throws(SharedQueueError) {
                    let listener: any WorkListener
                    if let current { listener = current } else { listener = try store.listen() }
                    if current == nil { self.listener.withLock { $0 = listener } }
                    current = listener
                    self.shared.withLock { $0.isListening = true }
                    self.note(try listener.wait(milliseconds: 2000))
                } catch {
                    // The loop polls for entries until this thread is listening again.
                    current = nil
                    self.shared.withLock { $0.isListening = false }
                    usleep(500_000)
                }
            }
        }
    }

    private func note(_ announcements: Set<WorkAnnouncement>) {
        guard !announcements.isEmpty else { return }
        shared.withLock { shared in
            if announcements.contains(.work) { shared.hasWork = true }
            if announcements.contains(.control) { shared.mustCompare = true }
        }
        signal.interrupt()
    }

    /// The default queue for handlers of operations. The main queue may not be running in a worker.
    var completionQueue: DispatchQueue { completion }
}
