import Foundation

/// Decides what runs when, in place of the system's threads and dispatch queues: for tests that try orders.
///
/// It counts on the thread that has called ``run(_:)`` only, during that call: what this thread would submit to a
/// dispatch queue or to a worker, it hands over here. A release build has nothing of it.
package protocol SimulatedThreads: AnyObject {
    /// Takes a block for a dispatch queue.
    func submit(_ block: @escaping @Sendable () -> Void, to queue: DispatchQueue)
    /// Takes a block for a dispatch queue, for a later time.
    func submit(_ block: @escaping @Sendable () -> Void, to queue: DispatchQueue, after seconds: TimeInterval)
    /// Takes a job for one of the library's worker threads, or for a thread of its own.
    func perform(_ job: @escaping @Sendable () -> Void)
}

extension DispatchQueue {
    /// Submits a block, like `async`, unless the calling thread is simulated.
    package func submit(_ block: @escaping @Sendable () -> Void) {
        #if DEBUG
        if let threads = Simulation.threads { return threads.submit(block, to: self) }
        #endif
        async(execute: block)
    }

    /// Submits a block for a later time, like `asyncAfter`, unless the calling thread is simulated.
    package func submit(after seconds: TimeInterval, _ block: @escaping @Sendable () -> Void) {
        #if DEBUG
        if let threads = Simulation.threads { return threads.submit(block, to: self, after: seconds) }
        #endif
        asyncAfter(deadline: .now() + seconds, execute: block)
    }
}

#if DEBUG
extension SimulatedThreads {
    /// Calls the closure. What it hands over goes to these threads, instead of real ones.
    package func run<Result>(_ body: () throws -> Result) rethrows -> Result {
        let outer = pthread_getspecific(Simulation.key)
        let box = Simulation.Box(threads: self)
        pthread_setspecific(Simulation.key, Unmanaged.passUnretained(box).toOpaque())
        defer { withExtendedLifetime(box) { _ = pthread_setspecific(Simulation.key, outer) } }
        return try body()
    }
}

/// What simulates the calling thread.
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

    /// nil on an ordinary thread.
    package static var threads: (any SimulatedThreads)? {
        pthread_getspecific(key).map { Unmanaged<Box>.fromOpaque($0).takeUnretainedValue().threads }
    }
}
#endif
