import Synchronization

/// A reference that is set once, by any thread, and then read without a lock.
///
/// `AtomicLazyReference` of the library does the same, but is not compiled for its type of object: it costs a look-up of
/// generic metadata, some 500 instructions, each time that it is read.
struct OnceReference<Object: AnyObject>: ~Copyable, @unchecked Sendable {
    /// The address of the object, which is retained; 0 for none.
    private let address = Atomic<UInt>(0)

    deinit {
        guard let pointer = UnsafeRawPointer(bitPattern: address.load(ordering: .acquiring)) else { return }
        Unmanaged<Object>.fromOpaque(pointer).release()
    }

    /// The object, if there is one. Whoever has set something else before sees the object, or whoever sets the object
    /// sees that, if there is a fence in between on both sides.
    var object: Object? {
        guard let pointer = UnsafeRawPointer(bitPattern: address.load(ordering: .sequentiallyConsistent)) else {
            return nil
        }
        return Unmanaged<Object>.fromOpaque(pointer).takeUnretainedValue()
    }

    /// Whether there is an object.
    var isSet: Bool { address.load(ordering: .sequentiallyConsistent) != 0 }

    /// Sets the object, unless there is one. True if it is this one that was set.
    borrowing func set(_ object: Object) -> Bool {
        let retained = Unmanaged.passRetained(object)
        let isSet = address.compareExchange(
            expected: 0, desired: UInt(bitPattern: retained.toOpaque()), ordering: .sequentiallyConsistent
        ).exchanged
        if !isSet { retained.release() }
        return isSet
    }
}
