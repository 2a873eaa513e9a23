import Foundation

/// Releases operations without recursion.
///
/// An operation owns what it depends on. Letting go of the end of a long chain would run one
/// `deinit` inside the other until the stack ends (Foundation's own operations do so at about
/// 50,000). Here the outermost release of a thread works off what the inner ones hand in.
enum DeferredRelease {
    private final class Pile {
        var operations: [Operation]
        init(_ operations: [Operation]) { self.operations = operations }
    }

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    static func release(_ operations: consuming [Operation]) {
        guard !operations.isEmpty else { return }
        if let outer = pthread_getspecific(key) {
            Unmanaged<Pile>.fromOpaque(outer).takeUnretainedValue().operations.append(contentsOf: operations)
            return
        }
        let pile = Pile(operations)
        operations = []
        pthread_setspecific(key, Unmanaged.passUnretained(pile).toOpaque())
        while pile.operations.popLast() != nil {}
        pthread_setspecific(key, nil)
    }
}
