import Foundation
import Synchronization

/// A value behind a `Mutex`, adapted to busy machines and the thread sanitizer.
///
/// On Linux a contended `Mutex` is handed over in the kernel, which is slow if there are more threads than processors
/// (see ``ContendedLock``). So a thread that finds it held first spins and yields for a while.
///
/// The sanitizer does not see the kernel's handover, and would report every guarded access as a race. The flag,
/// released by one holder and acquired by the next, shows it the order.
///
/// Inlinable, so that each module specializes it for its own types. A type that is only `package`, and not
/// `@usableFromInline` as well, could not be specialized by other modules.
@usableFromInline @frozen package struct Locked<Value: ~Copyable>: ~Copyable, Sendable {
    @usableFromInline let mutex: Mutex<Value>
    @usableFromInline let isHeld = Atomic<Bool>(false)

    @inlinable package init(_ value: consuming sending Value) {
        mutex = Mutex(value)
    }

    /// Calls `body` while the lock is held. No user code may run in it.
    @inlinable @inline(__always)
    package borrowing func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        if isHeld.load(ordering: .relaxed) { letHolderGoOn() }
        return try mutex.withLock { value throws(Failure) -> sending Result in
            _ = isHeld.load(ordering: .acquiring)
            isHeld.store(true, ordering: .relaxed)
            defer { isHeld.store(false, ordering: .releasing) }
            return try body(&value)
        }
    }

    @inlinable @inline(never)
    borrowing func letHolderGoOn() {
        for round in 0..<200 where isHeld.load(ordering: .relaxed) {
            if round >= 100 { sched_yield() }
        }
    }
}
