import Synchronization

/// Whether anybody observes the progress of an operation, or decides about it. Read without a lock at each change and each block of bytes;
/// flags are never cleared.
struct Onlookers: ~Copyable, Sendable {
    enum Interest: UInt8 {
        /// Somebody has set a progress handler, or has asked for the `Progress`.
        case progress = 1
        /// Somebody hears of changes before they have consequences.
        case supervisor = 2
        /// Somebody hears of the transfer, and decides about it.
        case delegate = 4
    }

    private let bits = Atomic<UInt8>(0)

    func insert(_ interest: Interest) { bits.bitwiseOr(interest.rawValue, ordering: .sequentiallyConsistent) }

    func contains(_ interest: Interest) -> Bool { bits.load(ordering: .sequentiallyConsistent) & interest.rawValue != 0 }
}
