import Foundation

/// Releases operations without recursion.
///
/// An operation owns its dependencies. Releasing the end of a long chain would nest one `deinit` inside the other until
/// the stack overflows (with Foundation's own operations at about 50,000). Here the outermost release on a thread
/// collects what the inner ones hand over, and releases it in a loop.
enum DeferredRelease {
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    /// Releases one operation. The caller must not have copied the reference.
    static func release(_ operation: inout Operation?) {
        guard let outer else { return collect { operation = nil } }
        if let operation { outer.pointee.append(operation) }
        operation = nil
    }

    /// Releases operations. The caller must not have copied the references.
    static func release(_ operations: inout [Operation]) {
        guard let outer else { return collect { operations = [] } }
        outer.pointee.append(contentsOf: operations)
        operations = []
    }

    /// The list of the outermost release on this thread: operations still to be released.
    private static var outer: UnsafeMutablePointer<[Operation]>? {
        pthread_getspecific(key)?.assumingMemoryBound(to: [Operation].self)
    }

    /// Runs a release, and then releases everything that was handed over meanwhile.
    private static func collect(_ release: () -> Void) {
        var pile: [Operation] = []
        withUnsafeMutablePointer(to: &pile) { pile in
            pthread_setspecific(key, pile)
            release()
            while pile.pointee.popLast() != nil {}
            pthread_setspecific(key, nil)
        }
    }
}
