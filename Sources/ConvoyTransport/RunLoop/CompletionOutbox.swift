import ConvoySupport
import Foundation
import Synchronization

/// The blocks waiting for dispatch queues: one list per queue, in the order in which any thread appended them.
///
/// On a serial queue, the blocks run in that order. On a concurrent queue, they are submitted in that order, and a slow
/// block does not delay others. The order holds across threads: on a network thread, waking the queue is deferred to
/// the end of the turn, but the block's position in the list is not.
///
/// A turn may end many transfers. Waking the queue's thread for each would cost more than the transfers, so it is woken
/// once for all of them.
package enum CompletionOutbox {
    package typealias Block = @Sendable () -> Void

    /// The blocks waiting for one queue.
    final class QueueBacklog: @unchecked Sendable {
        // Guarded by the lock of all lanes.
        /// The queue, retained while blocks are waiting, so that its identity stays unique.
        @exclusivity(unchecked) fileprivate var queue: DispatchQueue? {
            didSet { identity = queue.map { ObjectIdentifier($0) } }
        }
        /// The identity of the queue. Comparing the queues themselves would retain them.
        @exclusivity(unchecked) fileprivate var identity: ObjectIdentifier?
        @exclusivity(unchecked) fileprivate var items = Backlog<LoopTask>()
        /// The number of blocks that have been removed to be run.
        @exclusivity(unchecked) fileprivate var taken = 0
    }

    /// The lanes that are not empty, and a few empty ones that another queue can use: earlier shares refer to blocks
    /// that have already been taken.
    private struct Lanes {
        /// The first two lanes, which are usually sufficient.
        private let first = QueueBacklog(), second = QueueBacklog()
        private var others: [ObjectIdentifier: QueueBacklog] = [:]

        /// Returns the lane of a queue, to which the caller will append.
        mutating func open(_ queue: DispatchQueue) -> QueueBacklog {
            if let lane = lane(of: queue) { return lane }
            let queue = MainQueue.canonical(queue)
            if let lane = lane(of: queue) { return lane }
            let lane = first.identity == nil ? first : second.identity == nil ? second : QueueBacklog()
            lane.queue = queue
            if isExtra(lane) { others[ObjectIdentifier(queue)] = lane }
            return lane
        }

        private func isExtra(_ lane: QueueBacklog) -> Bool { lane !== first && lane !== second }

        private func lane(of queue: DispatchQueue) -> QueueBacklog? {
            let identity = ObjectIdentifier(queue)
            if first.identity == identity { return first }
            if second.identity == identity { return second }
            return others.isEmpty ? nil : others[identity]
        }

        /// Releases the queue of an empty lane. The caller runs on that queue, so it is not deallocated here.
        mutating func close(_ lane: QueueBacklog) {
            if isExtra(lane), let identity = lane.identity { others[identity] = nil }
            lane.queue = nil
        }
    }

    private static let lanes = ContendedLock(Lanes())
    private static let waitingCount = Atomic<Int>(0)

    /// Whether no block is waiting to run. The answer may be outdated at once.
    static var isEmpty: Bool { waitingCount.load(ordering: .relaxed) == 0 }

    /// The maximum number of blocks to run in a row before other work of the queue.
    private static let mostInARow = 64

    /// Runs a block on a queue, after the blocks posted to it before. The queue is woken immediately or, on a run
    /// loop's thread, at the end of the turn, unless another thread wakes it earlier.
    package static func post(to queue: DispatchQueue, _ block: @escaping Block) { post(.block(block), to: queue) }

    /// Runs a task on a queue, after the blocks posted to it before.
    package static func post(_ task: any HandoverTask, to queue: DispatchQueue) { post(.task(task), to: queue) }

    private static func post(_ item: LoopTask, to queue: DispatchQueue) {
        #if DEBUG
        if let threads = Simulation.threads { return threads.submit({ item.run() }, to: queue) }
        #endif
        let (lane, number) = lanes.withLock { lanes in
            let lane = lanes.open(queue)
            lane.items.append(item)
            waitingCount.add(1, ordering: .relaxed)
            return (lane, lane.taken + lane.items.count)
        }
        let share = BacklogSegment(lane: lane, queue: queue, end: number)
        if let turn = DeferredWakeups.current { turn.note(share) } else { submit(share) }
    }

    /// The blocks of a lane up to a given number.
    struct BacklogSegment {
        let lane: QueueBacklog
        let queue: DispatchQueue
        var end: Int
    }

    // MARK: Called on the queue

    /// Submits blocks with a single `async`, which runs those that have not run by then. It does not run blocks
    /// appended later, so that they do not overtake other work submitted in the meantime.
    static func submit(_ share: BacklogSegment) {
        share.queue.async { run(share) }
    }

    private static func run(_ share: BacklogSegment) {
        var isSubmittedAgain = false
        for _ in 0..<mostInARow {
            let (item, isLast) = takeFirst(of: share)
            guard let item else { return }
            // A concurrent queue runs the others in parallel with this one. A serial queue runs them here, or after its
            // other work if there are many.
            if !isLast, !isSubmittedAgain {
                isSubmittedAgain = true
                submit(share)
            }
            item.run()
            if isLast { return }
        }
    }

    private static func takeFirst(of share: BacklogSegment) -> (item: LoopTask?, isLast: Bool) {
        lanes.withLock { lanes in
            let lane = share.lane
            guard lane.taken < share.end, let item = lane.items.popFirst() else { return (nil, true) }
            lane.taken += 1
            waitingCount.subtract(1, ordering: .relaxed)
            if lane.items.isEmpty { lanes.close(lane) }
            return (item, lane.taken == share.end)
        }
    }
}

/// A mapping of the main queue to a single object.
///
/// On Linux, each `DispatchQueue.main` is a new object for the same queue.
private enum MainQueue {
    private static let key = DispatchSpecificKey<Bool>()
    private static let queue: DispatchQueue = {
        let queue = DispatchQueue.main
        queue.setSpecific(key: key, value: true)
        return queue
    }()

    /// Returns the queue or, for the main queue, its single object.
    ///
    /// This does not work for the global queues. With two objects for a global queue, only the common order of
    /// submission is lost, and these queues are concurrent anyway.
    static func canonical(_ queue: DispatchQueue) -> DispatchQueue {
        let main = self.queue
        return queue.getSpecific(key: key) == nil ? queue : main
    }
}

/// The queues to which a turn of a run loop has posted, to be woken at the end of the turn. Used on the run loop's
/// thread only.
final class DeferredWakeups {
    @exclusivity(unchecked) private var shares: [CompletionOutbox.BacklogSegment] = []

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    /// The turn of the calling thread; nil if it is not a run loop's thread.
    static var current: DeferredWakeups? {
        pthread_getspecific(key).map { Unmanaged<DeferredWakeups>.fromOpaque($0).takeUnretainedValue() }
    }

    func adoptThread() { pthread_setspecific(Self.key, Unmanaged.passUnretained(self).toOpaque()) }

    /// Makes later posts from this thread wake queues immediately. Returns the shares whose queues must still be woken.
    func leaveThread() -> [CompletionOutbox.BacklogSegment] {
        pthread_setspecific(Self.key, nil)
        defer { shares = [] }
        return shares
    }

    func note(_ share: CompletionOutbox.BacklogSegment) {
        if let index = shares.lastIndex(where: { $0.lane === share.lane && $0.queue === share.queue }) {
            shares[index].end = share.end
        } else {
            shares.append(share)
        }
    }

    /// Wakes the queues.
    func flush() {
        // Reverse the shares, so that removing them from the end moves no elements.
        if shares.count > 1 { shares.reverse() }
        while let share = shares.popLast() { CompletionOutbox.submit(share) }
    }
}
