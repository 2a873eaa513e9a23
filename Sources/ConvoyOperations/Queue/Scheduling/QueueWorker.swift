import Foundation

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
