import Foundation

/// A replacement for threads and dispatch queues in tests that explore different execution orders.
///
/// The replacement is in effect only on the thread that has called ``run(_:)``, during that call. Work that this thread
/// would submit to a dispatch queue or a worker is passed to this object instead. Release builds do not include it.
package protocol SimulatedThreads: AnyObject {
    /// Receives a block for a dispatch queue.
    func submit(_ block: @escaping @Sendable () -> Void, to queue: DispatchQueue)
    /// Receives a block for a dispatch queue, to run after a delay.
    func submit(_ block: @escaping @Sendable () -> Void, to queue: DispatchQueue, after seconds: TimeInterval)
    /// Receives a job for a worker thread, or for a dedicated thread.
    func perform(_ job: @escaping @Sendable () -> Void)
}

extension DispatchQueue {
    /// Submits a block like `async`, or to the simulation if the calling thread is simulated.
    package func submit(_ block: @escaping @Sendable () -> Void) {
        #if DEBUG
        if let threads = Simulation.threads { return threads.submit(block, to: self) }
        #endif
        async(execute: block)
    }

    /// Submits a block with a delay like `asyncAfter`, or to the simulation if the calling thread is simulated.
    package func submit(after seconds: TimeInterval, _ block: @escaping @Sendable () -> Void) {
        #if DEBUG
        if let threads = Simulation.threads { return threads.submit(block, to: self, after: seconds) }
        #endif
        asyncAfter(deadline: .now() + seconds, execute: block)
    }
}

#if DEBUG
extension SimulatedThreads {
    /// Calls the closure. Work that it submits goes to these threads instead of real ones.
    package func run<Result>(_ body: () throws -> Result) rethrows -> Result {
        let outer = pthread_getspecific(Simulation.key)
        let box = Simulation.Box(threads: self)
        pthread_setspecific(Simulation.key, Unmanaged.passUnretained(box).toOpaque())
        defer { withExtendedLifetime(box) { _ = pthread_setspecific(Simulation.key, outer) } }
        return try body()
    }
}

/// The simulation of the calling thread.
package enum Simulation {
    fileprivate final class Box {
        let threads: any SimulatedThreads
        init(threads: any SimulatedThreads) { self.threads = threads }
    }

    fileprivate static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    /// The threads that simulate the calling thread; nil on an ordinary thread.
    package static var threads: (any SimulatedThreads)? {
        pthread_getspecific(key).map { Unmanaged<Box>.fromOpaque($0).takeUnretainedValue().threads }
    }
}
#endif
