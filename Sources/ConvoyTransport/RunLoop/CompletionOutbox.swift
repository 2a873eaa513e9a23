import ConvoySupport
import Foundation

/// What waits for dispatch queues: for each queue one list of blocks, in the order in which all threads appended them.
///
/// On a serial queue the blocks run in that order, on a concurrent one they are submitted in it, and one that takes
/// long holds up no other. A block appended later than another never comes before it, whichever threads they come
/// from: on a network thread the waking of the queue waits for the end of the turn, the place in the list does not.
///
/// A turn may end many transfers. To wake a queue's thread for each costs more than the transfers do; it is woken
/// once for all of them.
package enum CompletionOutbox {
    package typealias Block = @Sendable () -> Void

    /// The blocks that wait for one queue.
    final class Lane: @unchecked Sendable {
        let queue: DispatchQueue
        // Guarded by the lock of all lanes.
        @exclusivity(unchecked) fileprivate var items = Backlog<HandedOver>()
        /// How many have been taken out to be run.
        @exclusivity(unchecked) fileprivate var taken = 0
        /// The queue has been given enough to run all blocks before this number, counted from the first ever.
        @exclusivity(unchecked) fileprivate var submitted = 0

        fileprivate init(queue: DispatchQueue) { self.queue = queue }
    }

    /// The lanes in which something waits, by their queues. A lane holds its queue, so no other has that identity.
    private static let lanes = ContendedLock<[ObjectIdentifier: Lane]>([:])

    /// How many blocks run before the queue's other work has its turn.
    private static let mostInARow = 64

    /// Runs a block on a queue after those that were posted to it before. The queue is woken at once; on a run loop's
    /// thread at the end of its turn, unless another thread does it before.
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

    /// Hands the queue what has been appended to its lane and not been submitted yet.
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

    /// A submission stands in the queue where `async` would have put the blocks: it runs none that were appended
    /// after it, so that they do not come before what others have submitted to the queue meanwhile.
    private static func submit(_ lane: Lane, upTo number: Int) {
        lane.queue.async { run(lane, upTo: number) }
    }

    private static func run(_ lane: Lane, upTo number: Int) {
        var isSubmittedAgain = false
        for _ in 0..<mostInARow {
            let (item, isLast) = takeFirst(of: lane, before: number)
            guard let item else { return }
            // A concurrent queue goes on with the others while this one runs; a serial one has the rest here, or after
            // its other work if there is much.
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

/// The main queue's one object.
///
/// On Linux each `DispatchQueue.main` is an object of its own for the same queue.
private enum MainQueue {
    private static let key = DispatchSpecificKey<Bool>()
    private static let queue: DispatchQueue = {
        let queue = DispatchQueue.main
        queue.setSpecific(key: key, value: true)
        return queue
    }()

    /// The same queue, as the same object whenever it is the main queue.
    ///
    /// The global queues cannot be told apart so. They are concurrent: what is lost with two objects for one is that
    /// the blocks of both are submitted in one order.
    static func canonical(_ queue: DispatchQueue) -> DispatchQueue {
        let main = self.queue
        return queue.getSpecific(key: key) == nil ? queue : main
    }
}
