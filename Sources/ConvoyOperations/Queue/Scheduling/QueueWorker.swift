import Foundation

/// Calls `start()` on the operations of a queue, one after the other, on a thread of the queue's dispatch queue.
///
/// One hop through the thread pool serves as many operations as are there. A worker that is held up
/// inside an operation holds up no other: the queue starts further workers as long as there are more
/// operations with a slot than idle workers.
///
/// It is an operation of the queue as Foundation sees it, so that `OperationQueue.current` is right
/// in the code that it runs.
final class QueueWorker: Operation, @unchecked Sendable {
    private let scheduler: Scheduler

    /// The operation inside whose `start()` the worker is. For the worker's own thread.
    var current: ScheduledOperation?
    let number: WorkerCrew.Number

    init(_ number: WorkerCrew.Number, of scheduler: Scheduler) {
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
