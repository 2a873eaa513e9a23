import ConvoySupport
import Foundation

/// An operation's `completionBlock`. Not Foundation's own: that is never let go of, and is not called when it comes late.
final class CompletionBlock: Sendable {
    /// A closure that is stored as such would be wrapped once more each time that it is read.
    private struct Stored { let call: @Sendable () -> Void }

    private let stored = Locked<Stored?>(nil)

    var block: (@Sendable () -> Void)? {
        get { stored.withLock { $0 }?.call }
        set {
            let new = newValue.map(Stored.init(call:))
            let old = stored.withLock { stored in
                defer { stored = new }
                return stored
            }
            withExtendedLifetime(old) {}
        }
    }

    /// Hands the block, if there is one, to a global queue, as Foundation does, and forgets it.
    func run() {
        guard let taken = stored.withLock({ $0.take() }) else { return }
        DispatchQueue.global().async(execute: taken.call)
    }
}
