import Foundation

/// Starts operations on the current thread without recursion.
///
/// An operation that starts inline and finishes at once makes others ready, which start inline and finish at once, and
/// so on. A long chain of such nested calls would overflow the stack. So only the outermost call starts operations;
/// nested calls leave their scheduler here for it.
enum StartLoop {
    /// Whether the current thread is inside `run`.
    static var isActive: Bool { pthread_getspecific(key) != nil }

    /// Starts what a scheduler has to start, and what nested calls leave.
    ///
    /// - Precondition: the thread is not inside `run`.
    static func run(_ scheduler: Scheduler, _ turn: QueueState.Turn) {
        var pending: [Scheduler] = []
        withUnsafeMutablePointer(to: &pending) { pending in
            pthread_setspecific(key, pending)
            scheduler.perform(turn)
            if turn.hasMore { while scheduler.startNext() {} }
            while let next = pending.pointee.popLast() {
                while next.startNext() {}
            }
            pthread_setspecific(key, nil)
        }
    }

    /// Leaves a scheduler to the outermost call on this thread.
    static func postpone(_ scheduler: Scheduler) {
        guard let pointer = pthread_getspecific(key) else { return }
        let pending = pointer.assumingMemoryBound(to: [Scheduler].self)
        if !pending.pointee.contains(where: { $0 === scheduler }) { pending.pointee.append(scheduler) }
    }

    /// Holds the pointer to the schedulers that nested calls have left.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()
}

/// Calls `start()` on the operations of a queue, one after another, on a thread of the queue's dispatch queue.
///
/// One hop to the thread pool serves all operations that are waiting. A worker that blocks inside an operation does not
/// delay others: the queue starts more workers as long as there are more operations with a slot than idle workers.
///
/// To Foundation it is an operation of the queue, so that `OperationQueue.current` is right in the code that it runs.
final class QueueWorker: Operation, @unchecked Sendable {
    private let scheduler: Scheduler

    /// The operation whose `start()` the worker is calling. Only for the worker's own thread.
    var current: ScheduledOperation?
    let number: WorkerPool.Number

    init(_ number: WorkerPool.Number, of scheduler: Scheduler) {
        self.number = number
        self.scheduler = scheduler
        super.init()
    }

    override func main() {
        while let operation = scheduler.next(for: self) {
            scheduler.begin(operation)
        }
    }
}

/// Which workers a queue has, and which of them are busy. A value; the queue guards it.
struct WorkerPool {
    /// The number of a worker, below 64.
    typealias Number = UInt8

    static let most = 64

    private var present: UInt64 = 0
    private var busy: UInt64 = 0

    private var idleCount: Int { (present & ~busy).nonzeroBitCount }

    /// Adds workers until there is an idle one for each waiting operation, or no more are allowed, and returns their
    /// numbers, one bit each.
    mutating func hire(for waiting: Int) -> UInt64 {
        var lacking = min(waiting - idleCount, Self.most - present.nonzeroBitCount)
        var hired: UInt64 = 0
        while lacking > 0 {
            hired |= ~(present | hired) & (present | hired &+ 1)
            lacking -= 1
        }
        present |= hired
        return hired
    }

    mutating func dismiss(_ worker: Number) {
        present &= ~(1 << UInt64(worker))
        release(worker)
    }

    mutating func occupy(_ worker: Number) { busy |= 1 << UInt64(worker) }

    /// Counts a worker as idle: it has returned from an operation, or is about to return.
    mutating func release(_ worker: Number) { busy &= ~(1 << UInt64(worker)) }
}
