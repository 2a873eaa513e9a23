/// How fast a transfer may be, and how slow.
struct TransferLimits: Sendable, Hashable {
    var receiving: [RateLimit] = []
    var sending: [RateLimit] = []
    var stall: StallLimit?
}

/// The limits of a transfer as a part of other settings, which are copied often: where there are none, at no cost.
package struct LimitConfiguration: Sendable, Hashable {
    private final class Storage: Sendable {
        let limits: TransferLimits
        init(_ limits: TransferLimits) { self.limits = limits }
    }

    /// Nil for no limits.
    private var storage: Storage?

    /// No limits.
    package init() {}

    var isEmpty: Bool { storage == nil }

    var limits: TransferLimits {
        get { storage?.limits ?? TransferLimits() }
        set { storage = newValue == TransferLimits() ? nil : Storage(newValue) }
    }

    package static func == (left: LimitConfiguration, right: LimitConfiguration) -> Bool {
        left.storage === right.storage || left.storage?.limits == right.storage?.limits
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(storage?.limits) }
}
