import Foundation

/// A value behind an `NSLock`.
///
/// Where threads contend for a `Mutex`, Linux passes it on in the kernel, which the thread sanitizer does not see; it
/// then reports races that are none. A program that tests itself under the sanitizer with this server must not hear
/// of them.
final class Guarded<Value>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value

    init(_ value: sending Value) { self.value = value }

    /// Calls `body` while the lock is held. No code of others may run in it.
    func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }
}
