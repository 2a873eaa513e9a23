import Foundation
import Synchronization

/// A value protected by a `Mutex`, adapted to busy machines and the thread sanitizer.
///
/// On Linux the kernel hands over a contended `Mutex`, which is slow if there are more threads than processors (see
/// ``ContendedLock``). Therefore, a thread that finds the mutex locked first spins and yields for a while.
///
/// The sanitizer does not detect the kernel's handover and would report every protected access as a race. Each holder
/// releases the `isHeld` flag and the next one acquires it, which establishes the order. A zero-sized value has the
/// same address as the flag, which the sanitizer also reports. Therefore, a lock without a value of its own protects a
/// `Bool`.
///
/// Inlinable, so that each module specializes it for its own types. Other modules cannot specialize a type that is
/// `package` without `@usableFromInline`.
@usableFromInline @frozen package struct Locked<Value: ~Copyable>: ~Copyable, Sendable {
    @usableFromInline let mutex: Mutex<Value>
    @usableFromInline let isHeld = Atomic<Bool>(false)

    @inlinable package init(_ value: consuming sending Value) {
        mutex = Mutex(value)
    }

    /// Calls `body` with the lock held. `body` must not run user code.
    @inlinable @inline(__always)
    package borrowing func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        #if compiler(>=6.3)
        if isHeld.load(ordering: .relaxed) { letHolderGoOn() }
        return try mutex.withLock { value throws(Failure) -> sending Result in
            _ = isHeld.load(ordering: .acquiring)
            isHeld.store(true, ordering: .relaxed)
            defer { isHeld.store(false, ordering: .releasing) }
            return try body(&value)
        }
        #else
        // In Swift 6.2 a closure cannot pass on a `sending` value. Without the flag, contending threads wait longer.
        return try mutex.withLock(body)
        #endif
    }

    /// Calls `body` with the lock held, or returns nil if another thread holds the lock.
    @inlinable
    package borrowing func withLockIfAvailable<Result: ~Copyable, Failure: Error>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result? {
        #if compiler(>=6.3)
        return try mutex.withLockIfAvailable { value throws(Failure) -> sending Result in
            _ = isHeld.load(ordering: .acquiring)
            isHeld.store(true, ordering: .relaxed)
            defer { isHeld.store(false, ordering: .releasing) }
            return try body(&value)
        }
        #else
        return try mutex.withLockIfAvailable(body)
        #endif
    }

    @inlinable @inline(never)
    borrowing func letHolderGoOn() {
        for round in 0..<200 where isHeld.load(ordering: .relaxed) {
            if round >= 100 { sched_yield() }
        }
    }
}

extension Locked where Value: Copyable {
    /// Replaces a part of the value. The old part, which may be a user's object, is released outside the lock.
    package borrowing func replace<Part: Sendable>(_ part: WritableKeyPath<Value, Part> & Sendable, by new: Part) {
        let old = withLock { value in
            let old = value[keyPath: part]
            value[keyPath: part] = new
            return old
        }
        withExtendedLifetime(old) {}
    }
}

/// A value protected by a lock for which many threads contend, each for a short time.
///
/// On Linux the kernel hands a contended `Mutex` to the thread that has waited longest, even if that thread has yet to
/// be woken, while all others wait. If there are more threads than processors, each handover costs a scheduling delay
/// (measured: 50 to 100 microseconds per operation instead of 3). A pthread mutex goes to whichever thread is running,
/// and spins briefly before it sleeps. For locks that are rarely contended, ``Locked`` needs less memory.
///
/// Inlinable, so that each module specializes it for its own types. Other modules cannot specialize a type that is
/// `package` without `@usableFromInline`.
@usableFromInline package final class ContendedLock<Value: ~Copyable>: @unchecked Sendable {
    @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
    /// The lock guarantees exclusive access, so no run-time check is needed.
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

    /// Calls `body` with the lock held. `body` must not run user code.
    @inlinable @inline(__always)
    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }

    /// Calls `body` with the lock held, or returns nil if another thread holds the lock.
    @inlinable @inline(__always)
    package func withLockIfAvailable<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result? {
        guard pthread_mutex_trylock(mutex) == 0 else { return nil }
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}

/// Prevents reflection (for example `dump`) from reading the value without the lock, and from trapping if the value is
/// noncopyable.
extension ContendedLock: CustomReflectable where Value: ~Copyable {
    @usableFromInline package var customMirror: Mirror { Mirror(self, children: []) }
}
