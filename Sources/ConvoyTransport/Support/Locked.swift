import Synchronization

/// A value behind a `Mutex`, in a form that the thread sanitizer understands.
///
/// On Linux a contended `Mutex` is passed from thread to thread by the kernel, which the sanitizer does
/// not see; it then reports every guarded access as a race. The atomic flag, released by one holder and
/// acquired by the next, shows it the order that the mutex has established. It costs two plain moves.
package struct Locked<Value>: ~Copyable, Sendable {
    @usableFromInline let mutex: Mutex<Value>
    @usableFromInline let order = Atomic<Bool>(false)

    @inlinable package init(_ value: consuming sending Value) {
        mutex = Mutex(value)
    }

    /// Calls `body` while the lock is held. No code of others may run in it.
    @inlinable @inline(__always)
    package borrowing func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        try mutex.withLock { value throws(Failure) -> sending Result in
            _ = order.load(ordering: .acquiring)
            defer { order.store(true, ordering: .releasing) }
            return try body(&value)
        }
    }
}
