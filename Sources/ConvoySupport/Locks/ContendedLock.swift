import Foundation

/// A value behind a lock for which many threads contend, each for a short time.
///
/// On Linux a contended `Mutex` is handed over in the kernel to the thread that has waited longest, even if that one
/// has yet to be woken, while all others wait. If there are more threads than processors, each handover costs a
/// scheduling delay (measured: 50 to 100 microseconds per operation instead of 3). A pthread mutex goes to whichever
/// thread is running, and spins a little before it sleeps. For locks that are rarely contended, ``Locked`` needs less
/// memory.
///
/// Inlinable, so that each module specializes it for its own types. A type that is only `package`, and not
/// `@usableFromInline` as well, could not be specialized by other modules.
@usableFromInline package final class ContendedLock<Value: ~Copyable>: @unchecked Sendable {
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
    /// The lock guarantees exclusive access, so it need not be checked at run time.
    @usableFromInline @exclusivity(unchecked) var value: Value

    @inlinable package init(_ value: consuming sending Value) {
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

    /// Calls `body` while the lock is held. No user code may run in it.
    @inlinable @inline(__always)
    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}

/// Reflection, as by `dump`, would read the value without the lock, and stops the program at one that cannot be copied.
extension ContendedLock: CustomReflectable where Value: ~Copyable {
    @usableFromInline package var customMirror: Mirror { Mirror(self, children: []) }
}
