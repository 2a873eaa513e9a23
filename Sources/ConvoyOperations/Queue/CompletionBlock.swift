import ConvoySupport
import Foundation

/// The `completionBlock` of an operation. Foundation never releases its own block, and does not call a block that is
/// set after the end.
final class CompletionBlock: Sendable {
    /// A box for the closure. A closure stored directly would be wrapped again each time it is read.
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

    /// Submits the block, if any, to a global queue, as Foundation does, and releases it.
    func run() {
        guard let taken = stored.withLock({ $0.take() }) else { return }
        DispatchQueue.global().submit(taken.call)
    }
}
