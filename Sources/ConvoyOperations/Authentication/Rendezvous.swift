import Synchronization

/// Two that must both have come before something happens, in any order.
final class Rendezvous: Sendable {
    private let hasOneCome = Atomic<Bool>(false)

    /// True for the one who comes last.
    func arrive() -> Bool { hasOneCome.exchange(true, ordering: .acquiringAndReleasing) }
}
