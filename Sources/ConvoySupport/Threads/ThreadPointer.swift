import Foundation

/// A pointer to a value that an outer call on a thread provides to the calls nested in it.
///
/// Inlinable, so that each module specializes it; see ``Locked``.
@usableFromInline @frozen package struct ThreadPointer<Value>: @unchecked Sendable {
    @usableFromInline let key: pthread_key_t

    @inlinable package init() {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        self.key = key
    }

    /// The pointer of the innermost call of `provide` on this thread; nil outside such a call.
    @inlinable package var current: UnsafeMutablePointer<Value>? {
        pthread_getspecific(key)?.assumingMemoryBound(to: Value.self)
    }

    /// Runs `body`, during which ``current`` points to `value`.
    @inlinable package func provide(_ value: inout Value, to body: (UnsafeMutablePointer<Value>) -> Void) {
        let outer = pthread_getspecific(key)
        withUnsafeMutablePointer(to: &value) { pointer in
            pthread_setspecific(key, pointer)
            body(pointer)
            pthread_setspecific(key, outer)
        }
    }
}
