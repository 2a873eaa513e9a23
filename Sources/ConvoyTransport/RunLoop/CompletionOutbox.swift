import ConvoySupport
import Foundation

/// The blocks that wait for dispatch queues: one list per queue, in the order in which all threads appended them.
///
/// On a serial queue the blocks run in that order; on a concurrent one they are submitted in that order, and a slow one
/// does not delay others. The order holds across threads: on a network thread, waking the queue is deferred to the end
/// of the turn, but the block's place in the list is not.
///
/// A turn may end many transfers. Waking the queue's thread for each would cost more than the transfers; it is woken
/// once for all of them.
package enum CompletionOutbox {
    package typealias Block = @Sendable () -> Void

    /// The blocks that wait for one queue.
    final class Lane: @unchecked Sendable {
        let queue: DispatchQueue
        // Guarded by the lock of all lanes.
        @exclusivity(unchecked) fileprivate var items = Backlog<HandedOver>()
        /// How many blocks have been removed to be run.
        @exclusivity(unchecked) fileprivate var taken = 0
        /// The number of the first block for which nothing has been submitted to the queue yet.
        @exclusivity(unchecked) fileprivate var submitted = 0

        fileprivate init(queue: DispatchQueue) { self.queue = queue }
    }

    /// The lanes that are not empty, by queue. A lane retains its queue, so its identity stays unique.
    private static let lanes = ContendedLock<[ObjectIdentifier: Lane]>([:])

    /// How many blocks run in a row before the queue's other work.
    private static let mostInARow = 64

    /// Runs a block on a queue after those that were posted to it before. The queue is woken at once, or, on a run
    /// loop's thread, at the end of the turn, unless another thread wakes it earlier.
    package static func post(to queue: DispatchQueue, _ block: @escaping Block) { post(.block(block), to: queue) }

    /// The same for a task.
    package static func post(_ task: any HandoverTask, to queue: DispatchQueue) { post(.task(task), to: queue) }

    private static func post(_ item: HandedOver, to queue: DispatchQueue) {
        let turn = OutboxTurn.current
        let (lane, number) = lanes.withLock { lanes in
            let lane = openLane(for: queue, in: &lanes)
            lane.items.append(item)
            let end = lane.taken + lane.items.count
            if turn == nil { lane.submitted = end }
            return (lane, end)
        }
        if let turn { turn.note(lane) } else { submit(lane, upTo: number) }
    }

    /// Submits the blocks of a lane that have not been submitted yet.
    static func wake(_ lane: Lane) {
        let number: Int? = lanes.withLock { _ in
            let end = lane.taken + lane.items.count
            guard lane.submitted < end else { return nil }
            lane.submitted = end
            return end
        }
        if let number { submit(lane, upTo: number) }
    }

    private static func openLane(for queue: DispatchQueue, in lanes: inout [ObjectIdentifier: Lane]) -> Lane {
        if let lane = lanes[ObjectIdentifier(queue)] { return lane }
        let queue = MainQueue.canonical(queue)
        if let lane = lanes[ObjectIdentifier(queue)] { return lane }
        let lane = Lane(queue: queue)
        lanes[ObjectIdentifier(queue)] = lane
        return lane
    }

    // MARK: On the queue

    /// Submits blocks by one `async`. It runs none that were appended later, so that they do not overtake what others
    /// have submitted to the queue meanwhile.
    private static func submit(_ lane: Lane, upTo number: Int) {
        lane.queue.async { run(lane, upTo: number) }
    }

    private static func run(_ lane: Lane, upTo number: Int) {
        var isSubmittedAgain = false
        for _ in 0..<mostInARow {
            let (item, isLast) = takeFirst(of: lane, before: number)
            guard let item else { return }
            // A concurrent queue runs the others in parallel with this one; a serial one runs them here, or after its
            // other work if there are many.
            if !isLast, !isSubmittedAgain {
                isSubmittedAgain = true
                submit(lane, upTo: number)
            }
            item.run()
        }
    }

    private static func takeFirst(of lane: Lane, before number: Int) -> (item: HandedOver?, isLast: Bool) {
        lanes.withLock { lanes in
            guard lane.taken < number, let item = lane.items.popFirst() else { return (nil, true) }
            lane.taken += 1
            if lane.items.isEmpty { lanes[ObjectIdentifier(lane.queue)] = nil }
            return (item, lane.taken == number)
        }
    }
}

/// Maps the main queue to one object.
///
/// On Linux each `DispatchQueue.main` is a new object for the same queue.
private enum MainQueue {
    private static let key = DispatchSpecificKey<Bool>()
    private static let queue: DispatchQueue = {
        let queue = DispatchQueue.main
        queue.setSpecific(key: key, value: true)
        return queue
    }()

    /// The queue, or the one object for the main queue if it is that.
    ///
    /// This does not work for the global queues. With two objects for one of them, only the common order of submission
    /// is lost, and they are concurrent anyway.
    static func canonical(_ queue: DispatchQueue) -> DispatchQueue {
        let main = self.queue
        return queue.getSpecific(key: key) == nil ? queue : main
    }
}

/// The queues to which a turn of a run loop has posted something, to be woken at the end of the turn.
///
/// Belongs to the run loop's thread.
final class OutboxTurn {
    @exclusivity(unchecked) private var lanes: [CompletionOutbox.Lane] = []

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    /// The turn of the calling thread; nil if that is not a run loop's thread.
    static var current: OutboxTurn? {
        pthread_getspecific(key).map { Unmanaged<OutboxTurn>.fromOpaque($0).takeUnretainedValue() }
    }

    func adoptThread() { pthread_setspecific(Self.key, Unmanaged.passUnretained(self).toOpaque()) }

    /// From now on, posting from this thread wakes queues at once.
    func leaveThread() {
        flush()
        pthread_setspecific(Self.key, nil)
    }

    func note(_ lane: CompletionOutbox.Lane) {
        if lanes.last !== lane, !lanes.contains(where: { $0 === lane }) { lanes.append(lane) }
    }

    /// Wakes the queues. False if there were none.
    @discardableResult
    func flush() -> Bool {
        guard !lanes.isEmpty else { return false }
        for lane in lanes { CompletionOutbox.wake(lane) }
        lanes.removeAll(keepingCapacity: true)
        return true
    }
}
