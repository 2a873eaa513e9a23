import Foundation

/// A trampoline that starts operations on the current thread without recursion.
///
/// An operation that starts inline and finishes immediately makes others ready, which start inline and finish
/// immediately, and so on. A long chain of such nested calls would overflow the stack. So only the outermost call
/// starts operations; nested calls leave their scheduler to it.
enum StartTrampoline {
    /// Whether the current thread is inside `run`.
    static var isActive: Bool { pthread_getspecific(key) != nil }

    /// Starts the operations that a scheduler can start, including those left by nested calls.
    ///
    /// - Precondition: The thread is not inside `run`.
    static func run(_ scheduler: Scheduler, _ turn: QueueState.Effects) {
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

    /// The key of the pointer to the schedulers left by nested calls.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()
}

/// A worker that calls `start()` on the operations of a queue, one after another, on a thread of the queue's dispatch
/// queue.
///
/// One hop to the thread pool serves all waiting operations. A worker that blocks inside an operation does not delay
/// others: the queue starts more workers as long as operations with a slot outnumber the idle workers.
///
/// To Foundation, a worker is an operation of the queue, so that `OperationQueue.current` is correct in the code that
/// it runs.
final class QueueWorker: Operation, @unchecked Sendable {
    private let scheduler: Scheduler

    /// The operation whose `start()` the worker is calling. The property is used only on the worker's thread.
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

/// The workers of a queue, with a record of which are busy. This value is guarded by the queue.
struct WorkerPool {
    /// The number of a worker, below 64.
    typealias Number = UInt8

    static let most = 64

    private var present: UInt64 = 0
    private var busy: UInt64 = 0

    private var idleCount: Int { (present & ~busy).nonzeroBitCount }

    /// Adds workers until each waiting operation has an idle worker or the maximum is reached. Returns their numbers,
    /// one bit each.
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
