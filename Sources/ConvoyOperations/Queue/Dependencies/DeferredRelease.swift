import Foundation

/// Releases operations without recursion.
///
/// An operation owns what it depends on. Letting go of the end of a long chain would run one
/// `deinit` inside the other until the stack ends (Foundation's own operations do so at about
/// 50,000). Here the outermost release of a thread works off what the inner ones hand in.
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

    /// What the outermost release on this thread still has to do.
    private static var outer: UnsafeMutablePointer<[Operation]>? {
        pthread_getspecific(key)?.assumingMemoryBound(to: [Operation].self)
    }

    /// Releases something, and all that is handed in meanwhile.
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
