import Synchronization

/// Whether anybody looks on while an operation works. Read at each change and at each block of bytes, without a lock;
/// nothing is ever taken back.
struct Onlookers: ~Copyable, Sendable {
    enum Kind: UInt8 {
        /// Somebody observes the states.
        case observer = 1
        /// Somebody wants to hear of bytes, or has asked for the `Progress`.
        case progress = 2
    }

    private let bits = Atomic<UInt8>(0)

    func insert(_ kind: Kind) { bits.bitwiseOr(kind.rawValue, ordering: .sequentiallyConsistent) }

    func contains(_ kind: Kind) -> Bool { bits.load(ordering: .sequentiallyConsistent) & kind.rawValue != 0 }
}
