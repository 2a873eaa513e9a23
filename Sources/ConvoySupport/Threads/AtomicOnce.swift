import Synchronization

/// A reference that is set once, by any thread, and then read without a lock.
///
/// The standard library's `AtomicLazyReference` does the same, but is not specialized for its object's type: each read
/// looks up generic metadata, which costs about 500 instructions.
///
/// Inlinable, so that each module specializes it; see ``Locked``.
@usableFromInline @frozen package struct AtomicOnce<Object: AnyObject>: ~Copyable, @unchecked Sendable {
    /// The address of the object, which is retained; 0 for none.
    @usableFromInline let address = Atomic<UInt>(0)

    @inlinable package init() {}

    @inlinable deinit {
        guard let pointer = UnsafeRawPointer(bitPattern: address.load(ordering: .acquiring)) else { return }
        Unmanaged<Object>.fromOpaque(pointer).release()
    }

    /// The object, if set. If each of two threads stores a value, issues a fence, and then reads the other's value
    /// (here, this object), at least one of them reads the new value.
    @inlinable package var object: Object? {
        guard let pointer = UnsafeRawPointer(bitPattern: address.load(ordering: .sequentiallyConsistent)) else {
            return nil
        }
        return Unmanaged<Object>.fromOpaque(pointer).takeUnretainedValue()
    }

    /// Whether the object is set.
    @inlinable package var isSet: Bool { address.load(ordering: .sequentiallyConsistent) != 0 }

    /// Sets the object unless one is already set. Returns whether this call set it.
    @inlinable package borrowing func set(_ object: Object) -> Bool {
        let retained = Unmanaged.passRetained(object)
        let isSet = address.compareExchange(
            expected: 0, desired: UInt(bitPattern: retained.toOpaque()), ordering: .sequentiallyConsistent
        ).exchanged
        if !isSet { retained.release() }
        return isSet
    }
}
