import Foundation

/// A value behind a lock that many threads ask for at the same time, each for a moment.
///
/// `Mutex` on Linux hands a contended lock over in the kernel, to the thread that has waited longest, even
/// if that one has yet to be woken, while everybody else waits for it. On a machine with more
/// threads than processors each turn then costs a scheduling delay (measured: 50 to 100 microseconds an
/// operation instead of 3). A plain mutex of the system is taken by whichever thread runs, and spins a little
/// before it sleeps. For locks that are rarely contended, ``Locked`` needs less memory.
///
/// Inlinable, so that each module compiles it for its own types of values. A type that is only `package`, and not
/// `@usableFromInline` as well, keeps other modules from that.
@usableFromInline package final class ContendedLock<Value>: @unchecked Sendable {
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
    /// The lock is what makes each access exclusive: there is nothing to be checked each time.
    @usableFromInline @exclusivity(unchecked) var value: Value

    @inlinable package init(_ value: sending Value) {
        self.value = value
        mutex = .allocate(capacity: 1)
        var attributes = pthread_mutexattr_t()
        pthread_mutexattr_init(&attributes)
        pthread_mutexattr_settype(&attributes, Int32(PTHREAD_MUTEX_ADAPTIVE_NP))
        pthread_mutex_init(mutex, &attributes)
        pthread_mutexattr_destroy(&attributes)
    }

    @inlinable deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Calls `body` while the lock is held. No user's code may run in it.
    @inlinable @inline(__always)
    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}
